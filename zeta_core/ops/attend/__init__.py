"""Weighted means over candidates: Adaptive Cauchy-Softmax and the other scores (paper, method steps 5, 6, 8)."""

from .api import attend
from .dense import Visibility, dense_attend, nearest_keys
from .scores import SCORES, Score

__all__ = ["SCORES", "Score", "Visibility", "attend", "dense_attend", "nearest_keys"]

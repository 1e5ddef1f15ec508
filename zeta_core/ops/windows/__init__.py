"""Codes to windows: which keys each query may attend to (paper, method steps 3, 4 and 7)."""

from .api import WindowPlan, chunk_length, plan_windows

__all__ = ["WindowPlan", "chunk_length", "plan_windows"]

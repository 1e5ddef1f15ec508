"""Training on accelerate: the loop, the order of batches, checkpoints."""

from .config import TrainingConfig
from .evaluate import PartScore, evaluate
from .loop import Fit, Monitor, fit

__all__ = ["Fit", "Monitor", "PartScore", "TrainingConfig", "evaluate", "fit"]

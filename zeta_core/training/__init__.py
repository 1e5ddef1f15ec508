"""Training on accelerate: the loop, the order of batches, checkpoints."""

from .config import TrainingConfig
from .evaluate import PartScore, evaluate
from .loop import Fit, Monitor, check_batch, fit

__all__ = ["Fit", "Monitor", "PartScore", "TrainingConfig", "check_batch", "evaluate", "fit"]

"""What a training run says and measures, on its way to the screen, its folder and W&B."""

from __future__ import annotations

from collections.abc import Mapping

from zeta_core.run_folder import RunFolder
from zeta_core.tracking import Tracker
from zeta_core.training import Monitor


class Recorder:
    """Passes on what a training run says, and writes it to the run's folder and to W&B."""

    def __init__(self, monitor: Monitor, folder: RunFolder | None, tracker: Tracker) -> None:
        self.monitor, self.folder, self.tracker = monitor, folder, tracker

    def say(self, text: str) -> None:
        """Show and log a line."""
        self.monitor.say(text)
        if self.folder is not None:
            self.folder.log(text)

    def resumed(self, step: int) -> None:
        """Training goes on at this step: later metrics are made again."""
        if self.folder is not None:
            self.folder.cut_metrics(step)
        self.monitor.resumed(step)

    def step(self, step: int, loss: float, score: float | None) -> None:
        """Show how far it is."""
        self.monitor.step(step, loss, score)

    def validated(self, metrics: Mapping[str, float]) -> None:
        """Record a row of metrics."""
        if self.folder is not None:
            self.folder.add_metrics(metrics)
            self.folder.log(f"step {metrics['step']}: loss {metrics['loss']:.4f}, score {metrics['score']:.4f}")
        self.tracker.log(metrics)
        self.monitor.validated(metrics)

"""How `zeta ablate` shows itself: a line a run, then a table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.table import Table

from .console import console
from .progress import CountBar

if TYPE_CHECKING:
    from zeta_core.studies.ablate.config import AblateRun
    from zeta_core.studies.ablate.study import AblateResult
    from zeta_core.studies.sweep import Outcome, Unit
    from zeta_core.studies.train_run import TrainRun


class AblateProgress(CountBar):
    """A line for each run on standard error, and on a terminal a bar over runs."""

    def __init__(self) -> None:
        super().__init__()
        self.total = self.done = 0
        self.began = time.perf_counter()

    def estimate(self, seconds: float) -> None:
        """How long all of it will take."""
        self.say(f"about {duration(seconds)} for training, by a few steps of the first run")

    def begin(self, total: int, done: int, width: int) -> None:
        """So many runs are to be trained, so many were done before."""
        self.total, self.began = total, time.perf_counter()
        before = f", {done} done before" if done else ""
        self.say(f"{total} runs, {width} at a time{before}")
        self.bar.add_task("", total=total)

    def started(self, unit: Unit) -> None:
        """A run is being trained."""
        self.bar.update(self.bar.task_ids[0], description=unit.name)

    def ended(self, unit: Unit, outcome: Outcome) -> None:
        """A run is over."""
        self.done += 1
        self.bar.update(self.bar.task_ids[0], completed=self.done)
        left = (time.perf_counter() - self.began) / self.done * (self.total - self.done)
        rest = f"; about {duration(left)} left" if self.done < self.total else ""
        if outcome.status == "ok":
            row = outcome.rows[0]
            took = "" if row.wall_s is None else f", {row.wall_s:.0f} s"
            self.say(f"[{self.done}/{self.total}] {unit.name}: {row.metric} {row.value:.4f}{took}{rest}")
        else:
            self.say(
                f"[{self.done}/{self.total}] {unit.name}: {outcome.status}: {outcome.reason} (log: {outcome.log})"
            )


class RunInBar:
    """Watches a run in this process: its steps in the sweep's bar; its lines are in its own log."""

    def __init__(self, progress: AblateProgress) -> None:
        self.progress = progress
        self.steps = 0

    def say(self, text: str) -> None:
        """In the log."""

    def start(self, run: TrainRun, run_id: str, parameters: int, embeddings: int) -> None:
        """It begins."""
        self.steps = run.training.steps

    def resumed(self, step: int) -> None:
        """It goes on from a checkpoint."""

    def step(self, step: int, loss: float, score: float | None) -> None:
        """So many of its steps are done."""
        bar = self.progress.bar
        if bar.task_ids:
            name = bar.tasks[0].description.partition(": step")[0]
            bar.update(bar.task_ids[0], description=f"{name}: step {step}/{self.steps}, loss {loss:.3f}")

    def validated(self, metrics: Mapping[str, float]) -> None:
        """It was validated."""

    def stop(self) -> None:
        """It ended."""


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, as one would say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def show(result: AblateResult, ablate: AblateRun) -> None:
    """Mean and spread of each value, the paper's words, and what failed."""
    from zeta_core.studies import paper
    from zeta_core.studies.ablate.summary import summarise

    out = console()
    cells = summarise(result.rows, ablate.slices)
    several = len({cell.system for cell in cells}) > 1
    parts = len(ablate.slices) > 1
    if cells:
        table = Table(title=f"{result.rows[0]['task']}: {ablate.axis}", title_justify="left")
        failed = any(cell.failed for cell in cells)
        table.add_column(ablate.axis, no_wrap=True)
        if several:
            table.add_column("on", no_wrap=True)
        if parts:
            table.add_column("slice")
        behind = ("runs", "failed", "reachable") if failed else ("runs", "reachable")
        for name in (f"mean {cells[0].metric}", "std", "95 % from", "to", *behind):
            table.add_column(name, justify="right")
        for cell in cells:
            found = (cell.mean, cell.std, cell.low, cell.high)
            numbers = ["-" if value is None else f"{value:.4f}" for value in found]
            table.add_row(
                cell.axis_value,
                *([cell.system] if several else []),
                *([cell.part] if parts else []),
                *numbers,
                str(cell.n),
                *([str(cell.failed or "")] if failed else []),
                "-" if cell.reachable is None else f"{cell.reachable:.3f}",
            )
        out.print(table)
    for axis in ablate.axes:
        if words := paper.ABLATIONS.get(axis.kind):
            out.print(f"the paper on {axis.kind}: {words}", soft_wrap=True)
    for unit, outcome in result.sweep.bad:
        out.print(
            f"{unit.name}: {outcome.status}: {outcome.reason} (log: {outcome.log})", markup=False, soft_wrap=True
        )
    if result.sweep.left:
        out.print(f"{len(result.sweep.left)} runs without a score were left out by --retry")
    if result.sweep.bad:
        out.print("the same command does again what has no score; --retry narrows it to one status", soft_wrap=True)
    out.print(f"rows in {result.table}", soft_wrap=True)

"""How `zeta ablate` shows itself: a line a run, then a table."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from .console import console
from .progress import CountBar, duration

if TYPE_CHECKING:
    from zeta_core.studies.ablate.config import AblateRun
    from zeta_core.studies.ablate.study import AblateResult
    from zeta_core.studies.ablate.summary import Cell
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


def notes(cells: Sequence[Cell], seeds: Sequence[int]) -> list[str]:
    """What the numbers rest on: how many examples and which seeds, and how large the networks are."""
    examples = sorted({cell.examples for cell in cells if cell.examples is not None})
    counts = sorted({cell.parameters for cell in cells if cell.parameters is not None})
    lines = []
    if examples:
        named = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
        said = f"{_span(examples)} test answers scored, {named}"
        known = any(cell.majority is not None for cell in cells)
        lines.append(said + ("; majority: what always saying the commonest class scores" if known else ""))
    if counts:
        apart = f", {100 * (counts[-1] / counts[0] - 1):.1f} % apart" if len(counts) > 1 else ""
        lines.append(f"{_span(counts)} parameters without the embeddings{apart}")
    return lines


def _span(numbers: Sequence[int]) -> str:
    """One number, or the first and the last."""
    ends = dict.fromkeys((numbers[0], numbers[-1]))
    return " to ".join(f"{number:,}" for number in ends)


def show(result: AblateResult, ablate: AblateRun) -> None:
    """Mean and spread of each value, the paper's words, and what failed."""
    from zeta_core.studies import paper
    from zeta_core.studies.ablate.summary import summarise

    out = console()
    cells = summarise(result.rows, ablate.slices)
    several = len({cell.system for cell in cells}) > 1
    parts = len(ablate.slices) > 1
    if cells:
        beside = [name for name in ("majority", "reachable") if any(getattr(c, name) is not None for c in cells)]
        failed = any(cell.failed for cell in cells)
        table = Table(title=f"{result.rows[0]['task']}: {ablate.axis}", title_justify="left")
        table.add_column(ablate.axis, no_wrap=True)
        if several:
            table.add_column("on", no_wrap=True)
        if parts:
            table.add_column("slice")
        for name in (f"mean {cells[0].metric}", "std", "95 % from", "to", "runs", *["failed"] * failed, *beside):
            table.add_column(name, justify="right")
        for cell in cells:
            found = (cell.mean, cell.std, cell.low, cell.high)
            numbers = ["-" if value is None else f"{value:.4f}" for value in found]
            shares = [getattr(cell, name) for name in beside]
            table.add_row(
                cell.axis_value,
                *([cell.system] if several else []),
                *([cell.part] if parts else []),
                *numbers,
                str(cell.n),
                *([str(cell.failed or "")] if failed else []),
                *("-" if share is None else f"{share:.3f}" for share in shares),
            )
        out.print(table)
        for line in notes(cells, ablate.seeds):
            out.print(line, soft_wrap=True)
    if cells and (words := paper.lra_words(str(result.rows[0]["task"]))):
        out.print(words, soft_wrap=True)
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

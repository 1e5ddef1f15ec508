"""Trains many runs and writes a row for each, whatever becomes of it; a rerun does what is missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from zeta_core.records import Row, Status, TrainRow, append_rows, read_rows
from zeta_core.run_folder import RunFolder
from zeta_core.tasks import TaskData
from zeta_core.tracking import WandbMode

from .launch import Launcher, Running, Work
from .train import build_task, identify
from .train_rows import make_rows, saved_rows
from .train_run import TrainRun

POLL_S = 0.05
Retry = Literal["all", "failed", "oom", "timeout", "killed"]


@dataclass(frozen=True)
class Outcome:
    """What became of a run. reason and log: for a run without a score."""

    rows: list[TrainRow]
    status: Status
    reason: str = ""
    log: str = ""


@dataclass
class Unit:
    """A run to train once, and the rows that it stands for.

    row_ids: one for each of them. to_rows: from what became of the run to all of its rows."""

    run: TrainRun
    run_id: str
    name: str
    row_ids: list[str]
    to_rows: list[Callable[[Outcome], list[Row]]]


class SweepMonitor(Protocol):
    """What watches a sweep."""

    def begin(self, total: int, done: int, width: int) -> None:
        """So many runs are to be trained, so many were done before."""

    def started(self, unit: Unit) -> None:
        """A run is being trained."""

    def ended(self, unit: Unit, outcome: Outcome) -> None:
        """A run is over, and its rows are written."""


@dataclass
class SweepResult:
    """How the runs of a sweep stand: `ok` before, and what this sitting came to. left: not tried."""

    before: list[Unit] = field(default_factory=list)
    outcomes: list[tuple[Unit, Outcome]] = field(default_factory=list)
    left: list[Unit] = field(default_factory=list)

    @property
    def bad(self) -> list[tuple[Unit, Outcome]]:
        """Those without a score."""
        return [(unit, outcome) for unit, outcome in self.outcomes if outcome.status != "ok"]


class Fingerprints:
    """Run ids without keeping any data: each distinct task is built once."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def run_id(self, run: TrainRun) -> str:
        """The id that training this resolved run gives."""
        key = run.task.model_dump_json()
        if key not in self.found:
            self.found[key] = build_task(run).fingerprint
        known = TaskData({}, 0, 0, None, "accuracy", self.found[key])
        return identify(run, known)


def run_sweep(
    units: Sequence[Unit],
    *,
    table: Path,
    out: Path,
    launcher: Launcher,
    monitor: SweepMonitor,
    resume: bool = False,
    retry: Retry = "all",
    timeout_s: float | None = None,
    wandb: WandbMode = "off",
    group: str = "",
) -> SweepResult:
    """Train what has no `ok` row in the table, and append a row for each run as it ends.

    resume: each from its last checkpoint, instead of anew. retry: only runs whose last row has this status; `all`:
    every run without an `ok` row. timeout_s: a run that takes longer is ended. wandb, group: for each run.
    Raises: StorageError if a row cannot be written; KeyboardInterrupt, once the runs in flight are ended."""
    last: dict[str, str] = {row["run_id"]: row["status"] for row in read_rows(table)}
    result = SweepResult()
    pending: list[Unit] = []
    for unit in units:
        statuses = {last.get(row_id, "") for row_id in unit.row_ids}
        if statuses == {"ok"}:
            result.before.append(unit)
        elif retry == "all" or retry in statuses:
            pending.append(unit)
        else:
            result.left.append(unit)
    monitor.begin(len(pending), len(result.before), launcher.width)
    active: list[_Active] = []
    try:
        while pending or active:
            while pending and len(active) < launcher.width:
                unit = pending.pop(0)
                monitor.started(unit)
                folder = out / "runs" / unit.run_id
                before = _stamp(folder)
                begun = time.monotonic()
                running = launcher.start(Work(unit.run, folder, out, resume, wandb, group))
                active.append(_Active(unit, running, begun, before, folder))
            for one in list(active):
                if timeout_s is not None and not one.running.ended() and time.monotonic() - one.begun > timeout_s:
                    one.running.timed_out = True
                    one.running.stop()
                if one.running.ended() or one.running.timed_out:
                    active.remove(one)
                    outcome = one.outcome(timeout_s)
                    for to_rows in one.unit.to_rows:
                        append_rows(table, to_rows(outcome))
                    result.outcomes.append((one.unit, outcome))
                    monitor.ended(one.unit, outcome)
            if active:
                time.sleep(POLL_S)
    finally:
        for one in active:
            one.running.stop()
    return result


@dataclass(frozen=True)
class _Active:
    """A run in flight. before: when its state was last written before it was started."""

    unit: Unit
    running: Running
    begun: float
    before: int
    folder: Path

    def outcome(self, timeout_s: float | None) -> Outcome:
        """What its folder says, or that it ended without a word."""
        folder = RunFolder(self.folder)
        log = str(self.folder / "log.txt" if (self.folder / "log.txt").exists() else self.running.log)
        rows = saved_rows(folder)
        if folder.status() == "ok" and rows:
            return Outcome(rows, "ok")
        said = folder.state() if _stamp(self.folder) != self.before else {}
        if self.running.timed_out:
            return Outcome(self._nothing("timeout"), "timeout", f"no end after {timeout_s:g} s", log)
        if said.get("status") in ("failed", "oom"):
            status: Status = "oom" if said["status"] == "oom" else "failed"
            own = rows if rows and rows[0].status == status else self._nothing(status)
            return Outcome(own, status, said.get("reason", ""), log)
        if error := self.running.error():
            return Outcome(self._nothing("failed"), "failed", error, log)
        return Outcome(self._nothing("killed"), "killed", "its process ended without a word", log)

    def _nothing(self, status: Status) -> list[TrainRow]:
        """The row of a run that wrote none itself."""
        run = self.unit.run
        return make_rows(run, build_task(run), self.unit.run_id, status, None, None)


def _stamp(folder: Path) -> int:
    try:
        return (folder / "state.json").stat().st_mtime_ns
    except OSError:
        return 0

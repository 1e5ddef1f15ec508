"""`zeta locality`: overlaps measured one after another, each cloud of points written as it comes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from zeta_core.records import LocalityRow, append_rows, device_name, run_id
from zeta_core.run_folder import check_writable
from zeta_core.table_check import check_table
from zeta_core.tracking import Tracker, WandbMode, resolve_wandb

from .checkpoint import load_trained
from .config import LocalityRun
from .rows import neighbours_of, of_checkpoint, of_points

NEEDED = ("run_id", "points", "overlap")


class LocalityMonitor(Protocol):
    """What watches `run_locality`."""

    def begin(self, total: int, device: str) -> None:
        """So many groups of rows will be measured on a device."""

    def done(self, rows: list[LocalityRow]) -> None:
        """A group of rows is written."""

    def say(self, text: str) -> None:
        """A line to show."""


@dataclass(frozen=True)
class LocalityResult:
    """All rows, and the CSV they are in."""

    rows: list[LocalityRow]
    table: Path


def run_locality(
    run: LocalityRun, *, out: Path, monitor: LocalityMonitor, wandb: WandbMode = "off"
) -> LocalityResult:
    """Measure everything a resolved run asks for; rows go to out/results/locality.csv.

    Raises: RequestErrors before anything is written; StorageError."""
    mode, reason = resolve_wandb(wandb)
    table = out / "results" / "locality.csv"
    check_table(table, LocalityRow, NEEDED)
    trained = None
    if run.checkpoint is not None:
        trained = load_trained(run.checkpoint, out, torch.device(run.device))
        neighbours_of(run, trained)
    check_writable(out)
    if wandb != "off":
        monitor.say(f"W&B is {mode}: {reason}")
    device = device_name(torch.device(run.device).type)
    tracker = Tracker(mode, monitor.say)
    rows: list[LocalityRow] = []
    if trained is None:
        groups = of_points(run, device)
        total = len(run.points) * len(run.seq_lens) * len(run.seeds)
    else:
        if not trained.finished:
            monitor.say(f"{trained.run_id} has not come to its end: these are its best weights so far")
        groups = of_checkpoint(run, trained, device)
        total = len(trained.data.parts["validation"])
    monitor.begin(total, device)
    for group in groups:
        append_rows(table, group)
        rows += group
        monitor.done(group)
    if mode != "off":
        settings = run.model_dump(mode="json")
        folder = out / "runs" / run_id("locality", {"run": settings}, device)
        folder.mkdir(parents=True, exist_ok=True)
        tracker.start(folder.name, settings, folder)
        tracker.table("locality", rows)
        tracker.finish(failed=False)
    return LocalityResult(rows, table)

"""`zeta ablate`: a sweep's runs, trained once each, and their rows in results/ablate.csv."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import torch

from zeta_core.errors import RunFailed, StorageError
from zeta_core.records import AblateRow, Row, read_rows, run_id
from zeta_core.run_folder import check_writable
from zeta_core.table_check import check_table
from zeta_core.tracking import Tracker, WandbMode, resolve_wandb

from ..launch import Launcher, alarm
from ..sweep import Fingerprints, Outcome, Retry, SweepMonitor, SweepResult, Unit, run_sweep
from ..train import run_train
from ..train_run import TrainRun
from .config import AblateRun, Point

CSV = "ablate.csv"
NEEDED = ("run_id", "status", "axis", "axis_value", "system", "slice", "metric", "value")
PROBE_STEPS = 4


class AblateMonitor(SweepMonitor, Protocol):
    """What watches an ablation."""

    def say(self, text: str) -> None:
        """A line to show."""

    def estimate(self, seconds: float) -> None:
        """How long all of it will take, from a few steps of the first run."""


@dataclass(frozen=True)
class AblateResult:
    """How the sweep went, the rows of the table that are this sweep's, and where they are."""

    sweep: SweepResult
    rows: list[dict[str, str]]
    table: Path


def run_ablate(
    ablate: AblateRun,
    points: Sequence[Point],
    *,
    out: Path,
    launcher: Launcher,
    monitor: AblateMonitor,
    resume: bool = False,
    retry: Retry = "all",
    timeout_s: float | None = None,
    wandb: WandbMode = "auto",
) -> AblateResult:
    """Train every point that has no `ok` row; rows go to out/results/ablate.csv, all else to out/runs/.

    Raises: RequestErrors before anything is written; StorageError; KeyboardInterrupt once nothing runs any more."""
    mode, reason = resolve_wandb(wandb)
    table = out / "results" / CSV
    check_writable(out)
    check_table(table, AblateRow, NEEDED)
    units = make_units(points)
    group = sweep_id(units, ablate.axis)
    monitor.say(f"W&B is {mode}: {reason}")
    first = next((unit for unit in units if not _done(table, unit)), None)
    if first is not None and (seconds := probe_seconds(first.run, timeout_s)) is not None:
        left = sum(unit.run.training.steps for unit in units if not _done(table, unit))
        monitor.estimate(seconds * left / launcher.width)
    tracker = Tracker(mode, monitor.say, group)
    sweep = run_sweep(
        units,
        table=table,
        out=out,
        launcher=launcher,
        monitor=monitor,
        resume=resume,
        retry=retry,
        timeout_s=timeout_s,
        wandb=wandb,
        group=group,
    )
    if sweep.outcomes:
        tracker.start(group, ablate.model_dump(mode="json"), out / "runs" / group)
        tracker.table(
            "ablate", [row for unit, found in sweep.outcomes for to_rows in unit.to_rows for row in to_rows(found)]
        )
        tracker.finish(failed=bool(sweep.bad))
    order = {row_id: place for place, row_id in enumerate(i for unit in units for i in unit.row_ids)}
    rows = [row for row in read_rows(table) if row["run_id"] in order]
    return AblateResult(sweep, sorted(rows, key=lambda row: order[row["run_id"]]), table)


def make_units(points: Sequence[Point]) -> list[Unit]:
    """The distinct runs in order; a run that stands for several points is trained once."""
    fingerprints = Fingerprints()
    units: dict[str, Unit] = {}
    for point in points:
        trained = fingerprints.run_id(point.run)
        name = f"{point.axis}={point.axis_value}, seed {point.run.seed}"
        name = name if point.system == "zeta" else f"{name}, {point.system}"
        unit = units.setdefault(trained, Unit(point.run, trained, name, [], []))
        row_id = row_id_of(point, trained)
        if row_id not in unit.row_ids:
            unit.row_ids.append(row_id)
            unit.to_rows.append(_rows_of(point, trained))
    return list(units.values())


def row_id_of(point: Point, trained: str) -> str:
    """The id of a point's rows: a run may stand in the table under several axes."""
    labels: dict[str, object] = {"axis": point.axis, "value": point.axis_value, "system": point.system}
    return run_id("ablate", {**labels, "trained": trained}, "")


def sweep_id(units: Sequence[Unit], axis: str) -> str:
    """Names a sweep: its W&B group, and the folder of its processes' logs."""
    return run_id(f"sweep-{axis.replace(',', '-')}", {"rows": sorted(i for unit in units for i in unit.row_ids)}, "")


class _rows_of:
    """From what became of a point's run to its rows."""

    def __init__(self, point: Point, trained: str) -> None:
        self.point, self.trained = point, trained

    def __call__(self, outcome: Outcome) -> list[Row]:
        labels = {
            "study": "ablate",
            "run_id": row_id_of(self.point, self.trained),
            "status": outcome.status,
            "axis": self.point.axis,
            "axis_value": self.point.axis_value,
            "system": self.point.system,
            "trained": self.trained,
            "reason": outcome.reason,
            "log": outcome.log,
        }
        return [AblateRow(**{**asdict(row), **labels}) for row in outcome.rows]


def _done(table: Path, unit: Unit) -> bool:
    found = {row["run_id"]: row["status"] for row in read_rows(table)}
    return all(found.get(row_id) == "ok" for row_id in unit.row_ids)


class _StepTimes:
    """A monitor that notes when each step was done."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.timed_out = False

    def say(self, text: str) -> None: ...
    def start(self, run: TrainRun, run_id: str, parameters: int, embeddings: int) -> None: ...
    def resumed(self, step: int) -> None: ...
    def validated(self, metrics: Mapping[str, float]) -> None: ...
    def stop(self) -> None: ...

    def step(self, step: int, loss: float, score: float | None) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.times.append(time.perf_counter())


def probe_seconds(run: TrainRun, timeout_s: float | None = None) -> float | None:
    """Seconds a step of this run takes here, from a few of them; None if it does not run, or not within timeout_s."""
    few = run.model_dump()
    few["training"] |= {"steps": PROBE_STEPS, "eval_every": PROBE_STEPS, "stop_at": None}
    monitor = _StepTimes()
    with tempfile.TemporaryDirectory() as folder:
        try:
            with alarm(timeout_s, monitor):
                run_train(
                    TrainRun.model_validate(few),
                    out=Path(folder),
                    monitor=monitor,
                    force=True,
                    wandb="off",
                    table=False,
                )
        except (RunFailed, StorageError):  # of the folder for temporary files alone
            return None
        except KeyboardInterrupt:
            if not monitor.timed_out:
                raise
            return None
    gaps = [later - earlier for earlier, later in zip(monitor.times[1:], monitor.times[2:], strict=False)]
    return min(gaps) if gaps else None

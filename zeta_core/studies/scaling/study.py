"""Trains each setting in processes of its own, and compares it with one process."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from zeta_core.config import identity, to_yaml
from zeta_core.records import ScalingRow, Status, TrainRow, append_rows, run_id
from zeta_core.run_folder import RunFolder, check_writable
from zeta_core.table_check import check_table

from ..train import build_task, identify
from ..train_rows import make_rows, saved_rows
from .config import ScalingRun, Setting

CSV = "scaling.csv"
NEEDED = ("run_id", "status", "processes", "sharing")


def run_scaling(
    made: tuple[ScalingRun, Sequence[Setting]], *, out: Path, say: Callable[[str], None]
) -> list[ScalingRow]:
    """Measure every setting; rows go to out/results/scaling.csv, all else to out/runs/scaling/.

    A setting that was measured before is not measured again; one that needs more GPUs than there are is a row
    `skipped`. Raises: RequestErrors before anything is written; StorageError."""
    scaling, settings = made
    table = out / "results" / CSV
    check_writable(out)
    check_table(table, ScalingRow, NEEDED)
    rows: list[ScalingRow] = []
    alone: dict[tuple[str, str, bool], tuple[ScalingRow, Path]] = {}
    for number, setting in enumerate(settings, 1):
        kind = setting.run.attention.kind
        title = " ".join(filter(None, (kind, setting.name, f"on {setting.processes}, sharing {setting.sharing}")))
        say(f"[{number}/{len(settings)}] {title}")
        folder = out / "runs" / "scaling" / _row_id(setting)
        row = _measured(setting, folder, scaling.timeout_s)
        key = (kind, setting.name, setting.sharing == "runs")
        if setting.baseline:
            alone[key] = (row, folder)
        row = _compared(row, folder, *alone[key])
        append_rows(table, [row])
        rows.append(row)
        say(f"    {row.status}: {_said(row)}")
    return rows


def _said(row: ScalingRow) -> str:
    if row.status != "ok":
        return row.reason
    return f"{row.tokens_per_s or 0:,.0f} tokens/s, {row.speedup or 0:.2f} times one process"


def _row_id(setting: Setting) -> str:
    """A setting's id, which is its folder's name too."""
    who = {"processes": setting.processes, "sharing": setting.sharing, "seeds": setting.seeds, "jobs": setting.jobs}
    parts = {**identity(setting.run), "device": torch.device(setting.run.device).type, **who}
    return run_id(f"scaling-{setting.run.attention.kind}", parts, "")


def _measured(setting: Setting, folder: Path, timeout_s: float) -> ScalingRow:
    """The row of a setting, without what it is compared with."""
    gpus = torch.cuda.device_count()
    if setting.run.device.startswith("cuda") and gpus < setting.processes:
        return _row(setting, "skipped", reason=f"needs {setting.processes} GPUs, and this machine has {gpus}")
    folder.mkdir(parents=True, exist_ok=True)
    return _beside(setting, folder, timeout_s) if setting.sharing == "runs" else _shared(setting, folder, timeout_s)


def _shared(setting: Setting, folder: Path, timeout_s: float) -> ScalingRow:
    """One run on all processes."""
    run = RunFolder(folder / "runs" / identify(setting.run, build_task(setting.run)))
    if run.status() != "ok":
        (folder / "run.yaml").write_text(to_yaml(setting.run.model_dump(mode="json")))
        python = [sys.executable, "-m"]
        if setting.processes > 1:
            python += ["torch.distributed.run", "--standalone", "--nproc-per-node", str(setting.processes), "-m"]
        command = [*python, "zeta_cli", "train", "--config", "run.yaml", "--out", ".", "--force", "--wandb", "off"]
        code, _ = _called(command, folder, timeout_s, os.environ)
        if code is None:
            return _row(setting, "timeout", reason=f"no end after {timeout_s:g} s")
        if run.status() != "ok":
            status: Status = "oom" if run.status() == "oom" else "failed"
            return _row(setting, status, reason=run.state().get("reason", f"exit code {code}"))
    return _row(setting, "ok", saved_rows(run)[0])


def _beside(setting: Setting, folder: Path, timeout_s: float) -> ScalingRow:
    """A run for each seed, `jobs` at a time, on as many GPUs as there are processes."""
    base = setting.run.model_dump(mode="json", exclude={"seed", "kind"})
    sweep = {
        "kind": "ablate",
        "axes": {"training.steps": [setting.run.training.steps]},
        "seeds": list(setting.seeds),
        "base": base,
    }
    (folder / "sweep.yaml").write_text(to_yaml(sweep))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(torch.cuda.device_count())))
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(visible.split(",")[: setting.processes])}
    command = [sys.executable, "-m", "zeta_cli", "ablate", "--config", "sweep.yaml", "--out", ".", "--wandb", "off"]
    seconds_file = folder / "seconds"
    if not seconds_file.exists():
        code, seconds = _called([*command, "-j", str(setting.jobs)], folder, timeout_s, environment)
        if code != 0:
            reason = f"no end after {timeout_s:g} s" if code is None else f"exit code {code}: see its words"
            return _row(setting, "timeout" if code is None else "failed", reason=f"{reason} ({folder / 'words.txt'})")
        seconds_file.write_text(repr(seconds))
    seconds = float(seconds_file.read_text())
    tokens = setting.run.training.steps * setting.run.training.batch_size * setting.run.task.longest
    row = _row(setting, "ok")
    return replace(row, wall_s=round(seconds, 2), tokens_per_s=tokens * len(setting.seeds) / seconds)


def _called(
    command: Sequence[str], folder: Path, timeout_s: float, environment: Mapping[str, str]
) -> tuple[int | None, float]:
    """Run a command in a folder, its words into words.txt there. Returns: its exit code (None: no end), seconds."""
    there = {**environment, "PYTHONPATH": os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))}
    began = time.monotonic()
    with (folder / "words.txt").open("w") as words:
        try:
            done = subprocess.run(
                command, cwd=folder, env=there, stdout=words, stderr=words, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            return None, time.monotonic() - began
    if done.returncode == 130:
        raise KeyboardInterrupt
    return done.returncode, time.monotonic() - began


def _row(setting: Setting, status: Status, found: TrainRow | None = None, reason: str = "") -> ScalingRow:
    """A row of what was trained, or of nothing."""
    if found is None:
        data = build_task(setting.run)
        found = replace(make_rows(setting.run, data, "", status, None, None)[0], peak_mib=None)
    own = {"study": "scaling", "run_id": _row_id(setting), "status": status}
    return ScalingRow(
        **{**asdict(found), **own},
        variant=setting.name,
        processes=setting.processes,
        sharing=setting.sharing,
        runs=len(setting.seeds) or 1,
        jobs=setting.jobs,
        speedup=None,
        efficiency=None,
        loss_gap=None,
        reason=reason,
    )


def _compared(row: ScalingRow, folder: Path, alone: ScalingRow, alone_folder: Path) -> ScalingRow:
    """The row beside that of one process: how many times faster, and how far the losses are apart."""
    if row.status != "ok" or not row.tokens_per_s or not alone.tokens_per_s:
        return row
    speedup = row.tokens_per_s / alone.tokens_per_s
    gap = None if row.sharing == "runs" else _gap(losses(folder), losses(alone_folder))
    return replace(row, speedup=speedup, efficiency=speedup / row.processes, loss_gap=gap)


def losses(folder: Path) -> dict[int, float]:
    """The training loss, nats a label, by step, of the one run under a folder."""
    (path,) = folder.glob("runs/*/metrics.csv")
    with path.open(newline="") as file:
        return {int(line["step"]): float(line["loss"]) for line in csv.DictReader(file)}


def _gap(one: Mapping[int, float], other: Mapping[int, float]) -> float | None:
    """The largest difference at a step that both have."""
    return max((abs(one[step] - other[step]) for step in one if step in other), default=None)

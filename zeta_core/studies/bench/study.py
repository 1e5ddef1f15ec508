"""`zeta bench`: rows one after another, each written as it comes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from zeta_core.records import BenchRow, append_rows, device_name, run_id, versions
from zeta_core.run_folder import check_writable
from zeta_core.tracking import Tracker, WandbMode, resolve_wandb

from .config import BenchRun, torch_device
from .measure import Measurement, Request
from .worker import Worker, compile_ahead

BAD = ("failed", "killed", "timeout")
"""What a row may end in that is nobody's finding: the command then exits with 1."""


class BenchMonitor(Protocol):
    """What watches `run_bench`."""

    def begin(self, total: int, device: str) -> None:
        """So many rows will be timed on a device."""

    def next(self, request: Request) -> None:
        """A row is being timed."""

    def row(self, row: BenchRow) -> None:
        """A row is done."""

    def say(self, text: str) -> None:
        """A line to show."""


@dataclass(frozen=True)
class BenchResult:
    """All rows, and the CSV they are in."""

    rows: list[BenchRow]
    table: Path

    @property
    def bad(self) -> list[BenchRow]:
        """The rows that went wrong."""
        return [row for row in self.rows if row.status in BAD]


def run_bench(runs: Sequence[BenchRun], *, out: Path, monitor: BenchMonitor, wandb: WandbMode = "off") -> BenchResult:
    """Time every row of resolved runs; rows go to out/results/bench.csv (bench_operator.csv for that preset).

    Raises: RequestErrors before anything is written; StorageError."""
    mode, reason = resolve_wandb(wandb)
    check_writable(out)
    name = "bench_operator" if runs[0].preset == "operator" else "bench"
    table = out / "results" / f"{name}.csv"
    tracker = Tracker(mode, monitor.say)
    if wandb != "off":
        monitor.say(f"W&B is {mode}: {reason}")
    device = device_name(torch_device(runs[0]).type)
    requests = [(run, request) for run in runs for request in run.requests()]
    monitor.begin(len(requests), device)
    rows: list[BenchRow] = []
    folder = out / "runs" / run_id(name, {"runs": [run.model_dump(mode="json") for run in runs]}, device)
    began, where = time.perf_counter(), torch_device(runs[0])
    if where.type == "cuda":
        asked = [request for _, request in requests]
        number = compile_ahead(asked, where, folder / "compile.log", runs[0].timeout_s)
        monitor.say(f"kernels compiled by {number} processes in {time.perf_counter() - began:.0f} s")
    worker: Worker | None = None
    current: tuple[BenchRun, str] | None = None
    try:
        for run, request in requests:
            if worker is None or current != (run, request.provider.kind):
                if worker is not None:
                    worker.close()
                current = (run, request.provider.kind)
                worker = Worker(torch_device(run), folder / f"{current[1]}.log")
            monitor.next(request)
            rows.append(make_row(name, run, request, worker.measure(request, run.timeout_s), device))
            append_rows(table, rows[-1:])
            monitor.row(rows[-1])
    finally:
        if worker is not None:
            worker.close()
    tracker.start(folder.name, {"runs": [run.model_dump(mode="json") for run in runs]}, folder)
    tracker.table(name, rows)
    tracker.finish(failed=False)
    return BenchResult(rows, table)


def make_row(study: str, run: BenchRun, request: Request, found: Measurement, device: str) -> BenchRow:
    """A row of the table; options that the provider does not read are left empty."""
    shape, uses, kind = request.shape, request.provider.uses, request.provider.kind
    there = versions()
    settings: dict[str, object] = {
        "provider": kind, "mode": request.mode, "timing": request.timing, "device": device, **vars(shape),
    }  # fmt: skip
    return BenchRow(
        study=study,
        run_id=run_id("bench", settings, ""),
        status=found.status,
        task="",
        data_fingerprint="",
        seed=shape.seed,
        device=device,
        dtype=shape.dtype,
        impl=kind.removeprefix("zeta_") if kind.startswith("zeta_") else "",
        python=there.python,
        torch=there.torch,
        triton=there.triton,
        commit=there.commit,
        wall_s=found.wall_s,
        peak_mib=found.peak_mib,
        preset=run.preset,
        provider=kind,
        backend=found.backend,
        mode=request.mode,
        seq_len=shape.seq_len,
        batch=shape.batch,
        heads=shape.heads,
        d_k=shape.d_k if "d_k" in uses else shape.d_v,
        d_v=shape.d_v,
        top_k=shape.top_k if "top_k" in uses else None,
        num_chunks=shape.num_chunks if "num_chunks" in uses and shape.causal else None,
        score=shape.score if "score" in uses else None,
        history_mean=shape.history_mean if "history_mean" in uses else None,
        causal=shape.causal,
        points=shape.points,
        timing=request.timing,
        cache="cleared" if torch_device(run).type == "cuda" else "warm",
        time_ms=found.time_ms,
        time_ms_p20=found.time_ms_p20,
        time_ms_p80=found.time_ms_p80,
        repeats=found.repeats,
        reason=found.reason,
    )

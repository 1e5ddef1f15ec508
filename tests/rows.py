"""Rows for the tests of records, and the processes that write them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zeta_core.records import BenchRow, Row, append_rows

COMMON = {
    "study": "toy",
    "status": "ok",
    "task": "mqar",
    "data_fingerprint": "abc",
    "device": "A CPU, 1 threads",
    "dtype": "fp32",
    "impl": "reference",
    "python": "3.11",
    "torch": "2",
    "triton": "",
    "commit": "",
    "wall_s": None,
    "peak_mib": 1.5,
}


@dataclass(frozen=True, kw_only=True)
class ToyRow(Row):
    """A row with a value."""

    value: float | None


@dataclass(frozen=True, kw_only=True)
class LaterRow(ToyRow):
    """The same in a later version, with a column more."""

    extra: str


def toy(run_id: str, value: float | None = 0.5, *, seed: int = 0) -> ToyRow:
    """A row of a run."""
    return ToyRow(run_id=run_id, value=value, seed=seed, **COMMON)


def later(run_id: str, extra: str) -> LaterRow:
    """A row of a later version."""
    return LaterRow(run_id=run_id, value=1.0, extra=extra, seed=0, **COMMON)


def bench_row(**changes: Any) -> BenchRow:
    """A row of a benchmark."""
    values = {
        **COMMON, "run_id": str(sorted(changes.items(), key=str)), "seed": 0, "preset": "default",
        "provider": "naive", "backend": "torch 2", "mode": "forward", "seq_len": 1024, "batch": 1, "heads": 8,
        "d_k": 3, "d_v": 64, "top_k": 32, "num_chunks": 8, "score": "cauchy", "history_mean": True, "causal": True,
        "points": "random", "timing": "eager", "cache": "warm", "time_ms": 1.0, "repeats": 9, "reason": "",
    }  # fmt: skip
    values |= changes
    spread = {"time_ms_p20": values["time_ms"], "time_ms_p80": values["time_ms"]}
    return BenchRow(**{**spread, **values})


def append_many(path: Path, writer: int, number: int) -> None:
    """What one of several processes does: runs of its own, each twice, so that the file is rewritten too."""
    for turn in range(number):
        append_rows(path, [toy(f"w{writer}-{turn}", 0.0), toy(f"w{writer}-{turn}", 1.0)])
        if turn % 5 == 0:
            append_rows(path, [toy(f"w{writer}-{turn}", 2.0), toy(f"w{writer}-{turn}", 3.0)])

"""results/bench.csv and bench_operator.csv: times and memory of every provider over the length of the sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from zeta_core.records import BenchRow

from .. import paper
from ..bench.plot import TITLES, plot
from ..bench.summary import timed
from .rows import by
from .table import Figure, Section, Table, made_on, slug

SHAPE = ("device", "dtype", "torch", "preset", "batch", "heads", "d_v", "causal", "cache")
"""One table and one figure for each."""
LINE = ("provider", "backend", "timing", "points", "d_k", "top_k", "num_chunks", "score", "history_mean")
"""One line for each; nothing is averaged."""


def tables(rows: Sequence[BenchRow]) -> list[Table]:
    """For each shape: times forward, forward and backward, and memory of both."""
    found: list[Table] = []
    ran = [row for row in rows if row.status != "skipped"]
    for group in by(ran, *SHAPE).values():
        first = group[0]
        shape = f"batch {first.batch}, {first.heads} heads of {first.d_v}"
        here: list[Table] = []
        for mode, words in TITLES.items():
            of_mode = [row for row in group if row.mode == mode]
            if of_mode:
                name = f"{first.preset}, {words}: {shape}, {first.device.split(',')[0]}"
                here.append(_table(of_mode, f"ms, {name}", _time, _paper_ms(mode)))
            if any(row.peak_mib is not None for row in of_mode):
                here.append(_table(of_mode, f"MiB, {name}", _memory, _paper_mib(mode)))
        lengths = {row.seq_len for row in group if row.status == "ok"}
        random_first = sorted(group, key=lambda row: row.points != "random")  # the picture is of the first row's
        if here and len(lengths) > 1 and len(timed(random_first)):
            stem = slug("bench", first.preset, "batch", first.batch, first.device.split(",")[0])
            last = here.pop()
            here.append(
                Table(last.title, last.head, last.rows, last.notes, Figure(stem, partial(plot, random_first)))
            )
        found += here
    return found


def _table(
    rows: Sequence[BenchRow],
    title: str,
    cell: Callable[[BenchRow], str],
    printed: Iterable[tuple[str, dict[int, str]]],
) -> Table:
    lengths = sorted({row.seq_len for row in rows})
    lines = []
    varying = [
        name for name in LINE[3:] if len({getattr(row, name) for row in rows if row.provider.startswith("zeta")}) > 1
    ]
    for _, group in by(rows, *LINE).items():
        cells = {row.seq_len: cell(row) for row in group}
        if not any(cells.values()):
            continue
        first = group[0]
        own = [f"{name}={getattr(first, name)}" for name in varying if first.provider.startswith("zeta")]
        if first.points != "random" and "points" not in varying:
            own.append(f"points={first.points}")
        count = Counter(row.status for row in group if row.status != "ok")
        without = ", ".join(f"{number} {status}" for status, number in count.items())
        calls = [row.repeats for row in group if row.status == "ok"]
        numbers = (f"{min(calls)}" if min(calls) == max(calls) else f"{min(calls)}-{max(calls)}") if calls else "-"
        shown = [cells.get(length, "") or "-" for length in lengths]
        lines.append((", ".join([first.provider, *own]), first.timing, *shown, numbers, without))
    for name, at in printed:
        if set(at) & set(lengths):
            lines.append(
                (f"paper: {name}", paper.BENCH_DEVICE, *(at.get(length, "-") for length in lengths), "-", "")
            )
    first = rows[0]
    how = "the cache overwritten before each call" if first.cache == "cleared" else "a warm cache"
    what = "Medians with the 20th and 80th percentile" if cell is _time else "Above the inputs, of one eager call"
    causal = "causal" if first.causal else "not causal"
    head = ("provider", "timing", *(f"{length:,}" for length in lengths), "calls", "without a time")
    return Table(title, head, lines, (f"{what}; {causal}; {how}.", made_on(rows)))


def _time(row: BenchRow) -> str:
    if row.time_ms is None:
        return row.status
    spread = (row.time_ms_p20, row.time_ms_p80)
    known = [number(end) for end in spread if end is not None]
    return f"{number(row.time_ms)} ({' to '.join(known)})" if row.repeats > 1 and known else number(row.time_ms)


def _memory(row: BenchRow) -> str:
    """Of eager rows alone: a graph's row repeats it."""
    if row.timing == "graph" or row.peak_mib is None:
        return row.status if row.timing != "graph" and row.status not in ("ok", "skipped") else ""
    return f"{row.peak_mib:,.1f}"


def number(value: float) -> str:
    """Three digits, whole above 100."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _paper_ms(mode: str) -> list[tuple[str, dict[int, str]]]:
    if mode == "forward":
        return [
            (name, {length: number(ms) for length, ms in zip(paper.BENCH_LENGTHS, times, strict=False)})
            for name, times in paper.BENCH_FORWARD_MS.items()
        ]
    return [(name, {65_536: number(ms)}) for name, ms in paper.BENCH_FORWARD_BACKWARD_MS.items()]


def _paper_mib(mode: str) -> list[tuple[str, dict[int, str]]]:
    if mode != "forward":
        return []
    return [(f"{name}, MB", {65_536: f"{megabytes:,.1f}"}) for name, megabytes in paper.BENCH_FORWARD_MB.items()]


OLDER = {"preset": "operator", "backend": "", "cache": "cleared", "reason": ""}
BENCH = Section("bench.csv", "Time and memory", BenchRow, "zeta bench", tables, OLDER)
OPERATOR = Section(
    "bench_operator.csv", "Time and memory of the operator", BenchRow, "zeta bench --preset operator", tables, OLDER
)

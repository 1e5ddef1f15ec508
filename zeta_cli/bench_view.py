"""How `zeta bench` shows itself: lines as rows come, then tables."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING

from rich.table import Table

from .console import console
from .progress import CountBar

if TYPE_CHECKING:
    import pandas as pd

    from zeta_core.records import BenchRow
    from zeta_core.studies.bench.compare import Matches
    from zeta_core.studies.bench.measure import Request
    from zeta_core.studies.bench.study import BenchResult


class BenchProgress(CountBar):
    """A line a row on standard error, and on a terminal a bar with what is being timed and the time left."""

    def __init__(self) -> None:
        super().__init__()
        self.total = self.done = 0
        self.began = time.perf_counter()

    def begin(self, total: int, device: str) -> None:
        """So many rows will be timed on a device."""
        self.total, self.began = total, time.perf_counter()
        self.say(f"{total} rows on {device}")
        self.bar.add_task("", total=total)

    def next(self, request: Request) -> None:
        """A row is being timed."""
        left = ""
        if self.done:
            seconds = (time.perf_counter() - self.began) / self.done * (self.total - self.done)
            left = f", about {seconds:.0f} s left"
        what = f"{request.provider.kind} {request.shape.seq_len:,} {request.mode} {request.timing}{left}"
        self.bar.update(self.bar.task_ids[0], description=what)

    def row(self, row: BenchRow) -> None:
        """A row is done."""
        self.done += 1
        self.bar.update(self.bar.task_ids[0], completed=self.done)
        where = f"{row.seq_len:>9,} {row.mode:16} {row.timing:5} {row.provider:14}"
        if row.points != "random":
            where += f" {row.points}"
        if row.status == "skipped":
            return  # said once for each provider, at the end
        if row.time_ms is None:
            self.say(f"{where} {row.status}: {row.reason}")
            return
        spread = f"({number(row.time_ms_p20)} to {number(row.time_ms_p80)}, {row.repeats} calls)"
        spread = "(one call)" if row.repeats == 1 else spread
        memory = "" if row.peak_mib is None else f" {row.peak_mib:,.1f} MiB"
        note = f"; {row.reason}" if row.reason else ""
        self.say(f"{where} {number(row.time_ms)} ms {spread}{memory}{note}")


def number(value: float | None) -> str:
    """Three digits, whole above 100."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def show(result: BenchResult) -> None:
    """Tables of times and ratios, what they come to, and what did not run."""
    from zeta_core.studies.bench.summary import timed

    out = console()
    frame = timed(result.rows)
    if len(frame):
        for (batch, heads, mode, timing), group in frame.groupby(["batch", "heads", "mode", "timing"], sort=False):
            _show_group(group, f"{mode}, {timing}: batch {batch}, {heads} heads")
        out.print("ms; x: how many times ZETA's time", soft_wrap=True)
    _show_the_rest(result.rows)
    out.print(f"rows in {result.table}", soft_wrap=True)


def _show_group(group: pd.DataFrame, title: str) -> None:
    from zeta_core.studies.bench.presets import PROVIDERS
    from zeta_core.studies.bench.summary import OURS, compare_with, dense_providers

    out = console()
    table = Table(title=title, title_justify="left")
    table.add_column("provider")
    lengths = sorted(set(group["seq_len"]))
    for length in lengths:
        table.add_column(f"{length:,}", justify="right")
    ours = next((name for name in OURS if name in set(group["provider"])), None)
    times = group.set_index(["provider", "seq_len"])["time_ms"].to_dict()
    for provider in (name for name in PROVIDERS if name in set(group["provider"])):
        cells = []
        for length in lengths:
            found, base = times.get((provider, length)), times.get((ours, length))
            ratio = f" {number(found / base)}x" if found and base and provider != ours else ""
            cells.append(f"{number(found)}{ratio}" if found else "")
        table.add_row(provider, *cells)
    out.print(table)
    dense = compare_with(group, dense_providers())
    everyone = compare_with(group, [name for name in set(group["provider"]) if not name.startswith("zeta")])
    if dense is None or everyone is None:
        return
    for comparison, name in ((dense, "the fastest dense attention"), (everyone, "the fastest of all others")):
        if comparison.ratios:
            longest = max(comparison.ratios)
            opponent, times_as_fast = comparison.ratios[longest]
            since = f"ahead from {comparison.crossover:,} on" if comparison.crossover else "not ahead there"
            how = f"is {number(times_as_fast)} times as fast as"
            if times_as_fast < 1:
                how = f"takes {number(1 / times_as_fast)} times as long as"
            line = f"{dense.ours} {how} {opponent}, {name}, at {longest:,}; {since}"
            out.print(line, soft_wrap=True)
    if dense.growth is not None:
        line = f"{dense.ours}'s time grows as N^{dense.growth:.2f} from {lengths[0]:,} to {lengths[-1]:,} tokens"
        out.print(line, soft_wrap=True)


def _show_the_rest(rows: list[BenchRow]) -> None:
    """One line for each provider and reason, with the lengths."""
    found: dict[tuple[str, str, str], list[BenchRow]] = defaultdict(list)
    for row in rows:
        if row.time_ms is None:
            found[row.provider, row.status, row.reason].append(row)
    for (provider, status, reason), group in found.items():
        lengths = ", ".join(f"{length:,}" for length in sorted({row.seq_len for row in group}))
        everywhere = len(group) == sum(row.provider == provider for row in rows)
        where = "" if everywhere else f" at {lengths} ({', '.join(dict.fromkeys(row.mode for row in group))})"
        console().print(f"{provider}{where}: {status}: {reason}", markup=False, soft_wrap=True)


def show_matches(found: Matches) -> None:
    """What became of the rows that both tables have; one line for each that changed."""
    table = Table(title="new / old, where they differ", title_justify="left")
    for name in ("provider", "tokens", "", "time", "memory", "now"):
        number_column = name in ("tokens", "time", "memory")
        table.add_column(name, justify="right" if number_column else "left", no_wrap=name not in ("", "now"))
    changed = [match for match in found.rows if match.verdict != "same"]
    for match in changed:
        has = match.settings
        unusual = [] if has["batch"] == "1" else [f"batch {has['batch']}"]
        unusual += [] if has["points"] == "random" else [has["points"]]
        table.add_row(
            has["provider"],
            f"{int(has['seq_len']):,}",
            " ".join([has["mode"], has["timing"], *unusual]),
            "-" if match.time_ratio is None else f"{match.time_ratio:.3f}",
            "-" if match.peak_ratio is None else f"{match.peak_ratio:.3f}",
            match.verdict,
        )
    out = console()
    if changed:
        out.print(table)
    worse, same = sum(match.worse for match in found.rows), len(found.rows) - len(changed)
    out.print(f"{len(found.rows)} rows compared: {same} the same, {worse} worse", soft_wrap=True)
    if found.only_old or found.only_new:
        out.print(f"only in the old table: {found.only_old}; only in the new: {found.only_new}", soft_wrap=True)

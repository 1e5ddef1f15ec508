"""Claims on time and memory: rows of bench.csv and bench_operator.csv, each shape for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pandas as pd

from zeta_core.records import BenchRow

from ... import paper
from ...bench.summary import compare_with, dense_providers, growth, timed
from ..bench import BENCH, OPERATOR, SHAPE, number
from ..claim import Claim, Finding, Verdict
from ..rows import by
from ..sections import Results
from ..spread import counted

LONGEST = paper.BENCH_LENGTHS[-1]
FLASH, MAMBA, NAIVE = "sdpa_flash", "mamba", "naive"
COMMAND = "`zeta bench --preset paper` (also `make bench bench-operator`)"
SOURCE = "table of times on an A100"
GROWS_BELOW, FLASH_GROWS_ABOVE, PAPER_GROWTH_FROM = 1.2, 1.7, 4096
MEMORY_SLACK = 1.05
"""Memory within 5 % of the paper's ratio is that ratio."""


def shapes(results: Results) -> Iterator[list[BenchRow]]:
    """Rows of random points of each device and shape, of bench.csv first; those that were not tried come last."""
    for section in (BENCH, OPERATOR):
        rows = [row for row in results.of(section) if row.points == "random"]
        for group in by(rows, *SHAPE).values():
            if any(row.status != "skipped" for row in group):
                yield sorted(group, key=lambda row: row.status == "skipped")


def times(rows: Sequence[BenchRow], mode: str, opponent: str) -> pd.DataFrame:
    """Times of ZETA and all others: from CUDA graphs if both ZETA and the opponent have them, else eager."""
    frame = timed(rows)
    if frame.empty:
        return frame
    frame = frame[frame["mode"] == mode]
    in_graph = frame[frame["timing"] == "graph"]
    both = any(name.startswith("zeta") for name in in_graph["provider"]) and opponent in set(in_graph["provider"])
    return in_graph if both else frame[frame["timing"] == "eager"]


def finding(verdict: Verdict, figure: str, rows: Sequence[BenchRow], frame: pd.DataFrame) -> Finding:
    """With the shape and the least number of calls behind a median."""
    first = rows[0]
    how = "" if frame.empty else f", {frame['timing'].iloc[0]}"
    setting = f"{first.preset}: batch {first.batch}, {first.heads} heads of {first.d_v}, {first.dtype}{how}"
    calls = "" if frame.empty else f"{counted(int(frame['repeats'].min()), 'call')} or more"
    return Finding(verdict, figure, setting, first.device, calls)


def faster(mode: str, target: float) -> Callable[[Results], list[Finding]]:
    """How many times faster than Flash at 65,536: at least as in the paper, less, or not at all."""

    def find(results: Results) -> list[Finding]:
        found = []
        for rows in shapes(results):
            frame = times(rows, mode, FLASH)
            flash = None if frame.empty else compare_with(frame, [FLASH])
            if flash is None or LONGEST not in flash.ratios:
                continue
            ratio = flash.ratios[LONGEST][1]
            dense = compare_with(frame, dense_providers())
            also = ""
            if dense and (fastest := dense.ratios[LONGEST])[0] != FLASH:
                also = f" ({fastest[1]:.1f} times faster than {fastest[0]}, the fastest dense attention)"
            verdict: Verdict = "reproduced" if ratio >= target else "partly" if ratio > 1 else "not reproduced"
            found.append(finding(verdict, f"{ratio:.1f} times faster than Flash{also}", rows, frame))
        return found

    return find


def grows(results: Results) -> list[Finding]:
    """Exponents of time over N, from 4,096 tokens on, of ZETA and Flash forward."""
    found = []
    for rows in shapes(results):
        frame = times(rows, "forward", FLASH)
        if frame.empty:
            continue
        frame = frame[(frame["seq_len"] >= PAPER_GROWTH_FROM) & (frame["seq_len"] <= LONGEST)]
        ours, flash = (
            growth(of.set_index("seq_len")["time_ms"])
            for of in (frame[frame["provider"].str.startswith("zeta_triton")], frame[frame["provider"] == FLASH])
        )
        if ours is None or flash is None or frame["seq_len"].max() < LONGEST:
            continue
        linear, quadratic = ours <= GROWS_BELOW, flash >= FLASH_GROWS_ABOVE
        verdict: Verdict = "reproduced" if linear and quadratic else "not reproduced" if not linear else "partly"
        found.append(finding(verdict, f"ZETA N^{ours:.2f}, Flash N^{flash:.2f}", rows, frame))
    return found


def crosses(results: Results) -> list[Finding]:
    """The shortest length from which on ZETA's forward is faster than Flash's."""
    found = []
    for rows in shapes(results):
        frame = times(rows, "forward", FLASH)
        flash = None if frame.empty else compare_with(frame, [FLASH])
        if flash is None or not flash.ratios or not {4096, 8192} <= set(flash.ratios):
            continue
        at = flash.crossover
        verdict: Verdict = "not reproduced" if at is None else "reproduced" if at <= 8192 else "partly"
        figure = f"not ahead up to {max(flash.ratios):,}" if at is None else f"ahead from {at:,} tokens on"
        ratios = ", ".join(f"{length:,}: {flash.ratios[length][1]:.1f}" for length in sorted(flash.ratios))
        found.append(finding(verdict, f"{figure} (times faster at {ratios})", rows, frame))
    return found


def memory(results: Results) -> list[Finding]:
    """Forward memory at 65,536 over Flash's, above the inputs."""
    found = []
    for rows in shapes(results):
        peaks = {
            row.provider: row.peak_mib for row in rows
            if (row.mode, row.timing, row.seq_len) == ("forward", "eager", LONGEST) and row.peak_mib is not None
        }  # fmt: skip
        ours = peaks.get("zeta_triton")
        if ours is None or not peaks.get(FLASH):
            continue
        ratio, target = ours / peaks[FLASH], paper.BENCH_FORWARD_MB["ZETA"] / paper.BENCH_FORWARD_MB["Flash"]
        verdict: Verdict = "reproduced" if ratio <= target * MEMORY_SLACK else "not reproduced"
        text = f"{ratio:.2f} times Flash's ({ours:,.0f} and {peaks[FLASH]:,.0f} MiB above the inputs)"
        found.append(finding(verdict, text, rows, timed(rows).iloc[:0]))
    return found


def naive_ends(results: Results) -> list[Finding]:
    """Where attention in plain torch runs out of memory and ZETA does not."""
    found = []
    for rows in shapes(results):
        of = [row for row in rows if row.provider == NAIVE and row.mode == "forward"]
        ours = {row.seq_len for row in rows if row.provider.startswith("zeta") and row.status == "ok"}
        if not of or not ours:
            continue
        tried = max(row.seq_len for row in of)
        ran = max((row.seq_len for row in of if row.status == "ok"), default=0)
        ended = sorted({row.seq_len for row in of if row.status == "oom" or too_large(row)} & ours)
        verdict: Verdict = "not reproduced" if tried >= LONGEST else "not shown"
        text = f"still runs at {tried:,}, the longest tried"
        if ended and ended[-1] > ran:
            first = min(length for length in ended if length > ran)
            how = next((row.reason for row in of if row.seq_len == first and too_large(row)), "out of memory")
            verdict, text = "reproduced", f"at {first:,} {how}; the longest that ran: {ran:,}"
        elif ended:
            verdict, text = "partly", f"at {ended[-1]:,} out of memory in one timing, not in the other"
        found.append(finding(verdict, text, rows, timed(of)))
    return found


def too_large(row: BenchRow) -> bool:
    """Whether a row was not tried for the memory that it needs."""
    return row.status == "skipped" and row.reason.startswith("needs ")


def mamba_slower(results: Results) -> list[Finding]:
    """Mamba's forward over ZETA's at 65,536."""
    found = []
    for rows in shapes(results):
        frame = times(rows, "forward", MAMBA)
        mamba = None if frame.empty else compare_with(frame, [MAMBA])
        if mamba is not None and LONGEST in mamba.ratios:
            ratio = mamba.ratios[LONGEST][1]
            verdict: Verdict = "reproduced" if ratio > 1 else "not reproduced"
            found.append(finding(verdict, f"Mamba takes {ratio:.2f} times as long as ZETA", rows, frame))
    return found


_forward, _both, _mb = paper.BENCH_FORWARD_MS, paper.BENCH_FORWARD_BACKWARD_MS, paper.BENCH_FORWARD_MB
_ratio, _ratio_both = _forward["Flash"][-1] / _forward["ZETA"][-1], _both["Flash"] / _both["ZETA"]
_growth = {
    name: growth(pd.Series(_forward[name], index=list(paper.BENCH_LENGTHS), dtype=float))
    for name in ("ZETA", "Flash")
}
_first = [ms for pair in zip(_forward["ZETA"][:2], _forward["Flash"][:2], strict=True) for ms in pair]
SPEED = (
    Claim(
        f"Forward at {LONGEST:,} tokens is {_ratio:.1f} times faster than Flash",
        SOURCE,
        f"{_ratio:.1f} times ({number(_forward['ZETA'][-1])} and {number(_forward['Flash'][-1])} ms)",
        f"at least {_ratio:.1f} times; partly: faster",
        COMMAND,
        faster("forward", round(_ratio, 1)),
    ),
    Claim(
        f"Forward + backward at {LONGEST:,} is {_ratio_both:.1f} times faster than Flash",
        SOURCE,
        f"{_ratio_both:.1f} times ({number(_both['ZETA'])} and {number(_both['Flash'])} ms)",
        f"at least {_ratio_both:.1f} times; partly: faster",
        COMMAND,
        faster("forward_backward", round(_ratio_both, 1)),
    ),
    Claim(
        "ZETA's time grows almost linearly, Flash's quadratically",
        SOURCE,
        f"ZETA N^{_growth['ZETA']:.2f}, Flash N^{_growth['Flash']:.2f} (fitted to its table)",
        f"exponents fitted from {PAPER_GROWTH_FROM:,} to {LONGEST:,} tokens: ZETA at most {GROWS_BELOW}, Flash at "
        f"least {FLASH_GROWS_ABOVE}; partly: ZETA's alone",
        COMMAND,
        grows,
    ),
    Claim(
        "ZETA is faster than Flash from 8,192 tokens on",
        SOURCE,
        "at 4,096 {} (Flash {}) ms, at 8,192 {} ({}) ms".format(*_first),
        "faster at every length from 8,192 on; partly: from a longer one on",
        COMMAND,
        crosses,
    ),
    Claim(
        f"Forward at {LONGEST:,} needs more memory than Flash",
        SOURCE,
        f"{_mb['ZETA'] / _mb['Flash']:.2f} times ({_mb['ZETA']:,.1f} and {_mb['Flash']:,.1f} MB)",
        "at most that ratio and 5 %, above the inputs: less is better",
        COMMAND,
        memory,
    ),
    Claim(
        "Attention in plain torch runs out of memory",
        SOURCE,
        "at 8,192 and beyond",
        "out of memory at a length at which ZETA runs (another GPU holds more); partly: in one of the two timings",
        COMMAND,
        naive_ends,
    ),
    Claim(
        "Mamba's forward takes slightly longer than ZETA's",
        "in words",
        "slightly longer",
        f"longer at {LONGEST:,} tokens",
        COMMAND + " with mamba-ssm installed",
        mamba_slower,
    ),
)

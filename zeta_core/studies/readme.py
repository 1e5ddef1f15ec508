"""Writes the tables of README.md from the committed results: python -m zeta_core.studies.readme

Each table stands between `<!-- table: NAME -->` and `<!-- end -->`; what is between them is replaced."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import mean

from zeta_core.errors import StorageError
from zeta_core.records import read_rows

from . import paper
from .report.table import markdown

Rows = list[dict[str, str]]


def mqar_table(results: Path) -> str:
    """MQAR at the laptop setting: one line for each configuration, over its seeds."""
    groups: dict[tuple[str, ...], Rows] = defaultdict(list)
    for row in read_rows(results / "train.csv"):
        if row["slice"] == "all" and row["status"] == "ok":
            names = ("attention", "d_k", "num_chunks", "local_window", "device")
            groups[tuple(row[name] for name in names)].append(row)
    head = "attention", "d_K", "chunks", "local window", "accuracy: lowest and mean of seeds", "reachable", "seconds"
    lines = []
    for (attention, d_k, chunks, local, _), rows in groups.items():
        values = [float(row["value"]) for row in rows]
        seconds = max(float(row["wall_s"]) for row in rows)
        accuracy = f"{min(values):.4f}" + (f", {mean(values):.4f} of {len(rows)}" if len(rows) > 1 else "")
        share = f"{float(rows[0]['reachable']):.2f}"
        lines.append((attention, d_k or "-", chunks or "-", local or "-", accuracy, share, f"{seconds:.0f}"))
    return "\n".join([markdown(head, lines), "", _made_on([rows[0] for rows in groups.values()])])


SHOWN = ("4096", "8192", "16384", "65536", "262144", "1048576")
"""The lengths in the README's table; the CSV has more."""


def operator_table(results: Path) -> str:
    """The operator against the fastest dense attention: one line for each device, length and timing."""
    groups: dict[tuple[str, str, str], Rows] = defaultdict(list)
    for row in read_rows(results / "bench_operator.csv"):
        if row["status"] == "ok" and row["points"] == "random" and row["batch"] == "1" and row["seq_len"] in SHOWN:
            groups[row["device"], row["seq_len"], row["timing"]].append(row)
    beside = "faster", "memory"
    head = "device", "tokens", "timing", "forward: ZETA, dense ms", *beside, "forward + backward", *beside
    lines = []
    for (device, seq_len, timing), rows in groups.items():
        cells = [device.split(",")[0], f"{int(seq_len):,}", timing]
        for mode in ("forward", "forward_backward"):
            cells += _against([row for row in rows if row["mode"] == mode])
        lines.append(cells)
    opponents = sorted({row["provider"] for rows in groups.values() for row in rows if "sdpa" in row["provider"]})
    note = f"Dense: the fastest of {', '.join(opponents)} there; memory above the inputs."
    return "\n".join([markdown(head, lines), "", note, _made_on([rows[0] for rows in groups.values()])])


def _against(rows: Rows) -> list[str]:
    """Times of ZETA and of the fastest opponent, how many times faster, and how many times the memory."""
    zeta, dense = (
        min((row for row in rows if row["provider"].startswith("zeta") == ours), key=_time, default=None)
        for ours in (True, False)
    )
    if zeta is None or dense is None:
        return ["-" if zeta is None else f"{_shown(_time(zeta))}, -", "-", "-"]
    peaks = [float(row["peak_mib"] or "nan") for row in (zeta, dense)]
    memory = "-" if peaks[0] != peaks[0] else f"{peaks[0] / peaks[1]:.2f}"
    return [f"{_shown(_time(zeta))}, {_shown(_time(dense))}", f"{_time(dense) / _time(zeta):.1f}", memory]


def bench_table(results: Path) -> str:
    """The paper's times beside ours at the likely shape: one line for each length, replayed from a CUDA graph."""
    found = {
        (int(row["seq_len"]), row["mode"], row["provider"]): row
        for row in read_rows(results / "bench.csv")
        if row["status"] == "ok" and row["preset"] == "paper" and row["timing"] == "graph"
    }
    beside = "faster", "than the fastest dense"
    head = [
        *("tokens", "paper: Flash, ZETA ms", "faster", "here: Flash, ZETA ms", *beside),
        *("forward + backward: Flash, ZETA ms", *beside),
    ]
    lines = []
    flash, zeta = (paper.BENCH_FORWARD_MS[name] for name in ("Flash", "ZETA"))
    for number, seq_len in enumerate(paper.BENCH_LENGTHS):
        cells = [f"{seq_len:,}", f"{flash[number]}, {zeta[number]}", f"{flash[number] / zeta[number]:.1f}"]
        for mode in ("forward", "forward_backward"):
            ours = found.get((seq_len, mode, "zeta_triton"))
            theirs = found.get((seq_len, mode, "sdpa_flash"))
            dense = [row for key, row in found.items() if key[:2] == (seq_len, mode) and "sdpa" in key[2]]
            if ours is None or theirs is None:
                cells += ["-", "-", "-"]
                continue
            fastest = min(dense, key=_time)
            cells.append(f"{_shown(_time(theirs))}, {_shown(_time(ours))}")
            cells.append(f"{_time(theirs) / _time(ours):.1f}")
            cells.append(f"{_time(fastest) / _time(ours):.1f} ({fastest['provider']})")
        lines.append(cells)
    return "\n".join([markdown(head, lines), "", _made_on(list(found.values()))])


def _time(row: dict[str, str]) -> float:
    return float(row["time_ms"])


def _shown(ms: float) -> str:
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.3g}"


def _made_on(rows: Rows) -> str:
    places = {f"{row['device']}, torch {row['torch']}, {row['dtype']}" for row in rows}
    return "Measured on " + "; ".join(sorted(places)) + "."


TABLES: dict[str, Callable[[Path], str]] = {"mqar": mqar_table, "operator": operator_table, "bench": bench_table}


def fill(text: str, results: Path) -> str:
    """The text with every marked table made again. Raises: KeyError for a name that is no table."""

    def table(match: re.Match[str]) -> str:
        return f"{match[1]}\n{TABLES[match[2]](results)}\n{match[4]}"

    return re.sub(r"(<!-- table: (\w+) -->)\n(.*?)(<!-- end -->)", table, text, flags=re.DOTALL)


def main() -> None:
    """Fill README.md of the current folder from its results/."""
    readme = Path("README.md")
    if not readme.exists() or not Path("results").is_dir():
        raise StorageError("run this in the repository's root: README.md and results/ must be there")
    readme.write_text(fill(readme.read_text(), Path("results")))
    print(f"filled {', '.join(TABLES)} in {readme}", file=sys.stderr)


if __name__ == "__main__":
    main()

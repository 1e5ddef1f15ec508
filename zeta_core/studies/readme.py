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

Rows = list[dict[str, str]]


def mqar_table(results: Path) -> str:
    """MQAR at the laptop setting: one line for each configuration, over its seeds."""
    groups: dict[tuple[str, ...], Rows] = defaultdict(list)
    for row in read_rows(results / "train.csv"):
        if row["slice"] == "all" and row["status"] == "ok":
            names = ("attention", "d_k", "num_chunks", "local_window", "device")
            groups[tuple(row[name] for name in names)].append(row)
    lines = [
        "| attention | d_K | chunks | local window | accuracy: lowest and mean of seeds | reachable | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for (attention, d_k, chunks, local, _), rows in groups.items():
        values = [float(row["value"]) for row in rows]
        seconds = max(float(row["wall_s"]) for row in rows)
        accuracy = f"{min(values):.4f}, {mean(values):.4f} of {len(rows)}"
        lines.append(
            f"| {attention} | {d_k or '-'} | {chunks or '-'} | {local or '-'} | {accuracy} | "
            f"{float(rows[0]['reachable']):.2f} | {seconds:.0f} |"
        )
    return "\n".join([*lines, "", _made_on([rows[0] for rows in groups.values()])])


def operator_table(results: Path) -> str:
    """The operator against dense attention: one line for each length and mode on each device, eager or graph."""
    rows = [
        row
        for row in read_rows(results / "bench_operator.csv")
        if row["status"] == "ok" and row["points"] == "random"
    ]
    keys = ("device", "seq_len", "mode", "timing", "heads", "batch")
    groups: dict[tuple[str, ...], Rows] = defaultdict(list)
    for row in rows:
        groups[tuple(row[key] for key in keys)].append(row)
    lines = [
        "| device | tokens | mode | timing | ZETA ms | fastest opponent ms | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for (device, seq_len, mode, timing, _, _), found in groups.items():
        zeta = [row for row in found if row["provider"].startswith("zeta")]
        others = [row for row in found if not row["provider"].startswith("zeta")]
        if not zeta or not others:
            continue
        ours, theirs = (min(side, key=lambda row: float(row["time_ms"])) for side in (zeta, others))
        a, b = float(ours["time_ms"]), float(theirs["time_ms"])
        lines.append(
            f"| {device.split(',')[0]} | {int(seq_len):,} | {mode} | {timing} | {a:.3g} (C {ours['num_chunks']}) | "
            f"{b:.3g} ({theirs['provider']}) | {b / a:.1f} |"
        )
    return "\n".join([*lines, "", _made_on([found[0] for found in groups.values()])])


def _made_on(rows: Rows) -> str:
    places = {f"{row['device']}, torch {row['torch']}, {row['dtype']}" for row in rows}
    return "Measured on " + "; ".join(sorted(places)) + "."


TABLES: dict[str, Callable[[Path], str]] = {"mqar": mqar_table, "operator": operator_table}


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

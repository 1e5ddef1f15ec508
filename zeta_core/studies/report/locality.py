"""results/locality.csv: overlaps of random points beside the paper's range, and the recall of trained heads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from zeta_core.records import LocalityRow

from .. import paper
from ..locality.plot import plot
from .figure import Place, draw_values
from .rows import by
from .spread import HEAD, Spread, spread
from .table import Figure, Section, Table, made_on, slug

CLOUD = ("device", "points", "squash", "num_neighbours")
FEW = 3
"""Fewer values than this make no figure."""


def of_points(rows: Sequence[LocalityRow]) -> list[LocalityRow]:
    """The rows of random points."""
    return [row for row in rows if not row.checkpoint]


def overlap(rows: Sequence[LocalityRow]) -> Spread:
    """Of one setting over its seeds."""
    return spread((row.status, row.overlap) for row in rows)


def tables(rows: Sequence[LocalityRow]) -> list[Table]:
    """A table for each distribution, figures over d_K and over the number of points, and tables of checkpoints."""
    clouds = of_points(rows)
    found = [_clouds(group) for group in by(clouds, *CLOUD).values()]
    if found:
        pictures = [
            _over_d_k(clouds),
            *(_over_length(group) for group in by(clouds, "device", "num_neighbours").values()),
        ]
        found = [*found, *(picture for picture in pictures if picture is not None)]
    trained = [row for row in rows if row.checkpoint]
    for _, group in by(trained, "device", "num_neighbours").items():
        found += [_recall([row for row in group if row.head is not None])]
        found += [_misses(missing)] if (missing := [row for row in group if row.head is None]) else []
    return found


def _clouds(rows: Sequence[LocalityRow]) -> Table:
    first = rows[0]
    lines = []
    for (seq_len, d_k, curves, bits), group in by(rows, "seq_len", "d_k", "curves", "bits").items():
        numbers = overlap(group).cells(scale=100, digits=1)
        lines.append((f"{seq_len:,}", str(d_k), str(curves), str(bits), *numbers, _paper(group[0])))
    return Table(
        f"Overlap of {first.points} points",
        ("points", "d_K", "curves", "bits", f"{HEAD[0]}, %", *HEAD[1:], "paper, %"),
        lines,
        (
            f"% of the {first.num_neighbours} true nearest neighbours among {first.num_neighbours} on the curves; "
            "n: seeds. The paper's range is read off its figure; it does not say how its points lie.",
            made_on(rows),
        ),
    )


def _paper(row: LocalityRow) -> str:
    ends = paper.LOCALITY_OVERLAP.get(row.d_k, {}).get(row.seq_len)
    if ends is None or row.num_neighbours != paper.LOCALITY_NEIGHBOURS:
        return "-"
    return "-".join(dict.fromkeys(f"{100 * end:.0f}" for end in ends))


def _over_d_k(rows: Sequence[LocalityRow]) -> Table | None:
    """No table of its own: the picture over d_K, of lengths that have several."""
    several = {
        key for key, group in by(rows, "seq_len", "num_neighbours", "bits", "device").items()
        if len({row.d_k for row in group}) >= FEW
    }  # fmt: skip
    best = next((key[1:] for key in several), None)
    shown = [row for row in rows if (row.seq_len, row.num_neighbours, row.bits, row.device) in several]
    shown = [row for row in shown if (row.num_neighbours, row.bits, row.device) == best]
    return Table("Overlap by d_K", (), [], figure=Figure("locality-dk", partial(plot, shown))) if shown else None


def _over_length(rows: Sequence[LocalityRow]) -> Table | None:
    """No table of its own: the picture over the number of points at the paper's d_K, a line for each distribution."""
    series: dict[str, list[Place]] = {}
    of_bits = by([row for row in rows if row.d_k == 3 and row.curves == 1], "bits").values()
    shown = max(of_bits, key=lambda group: len({row.seq_len for row in group}), default=[])
    for (points, seq_len), group in by(sorted(shown, key=lambda row: row.seq_len), "points", "seq_len").items():
        series.setdefault(points, []).append(Place(f"{seq_len:,}", overlap(group)))
    series = {points: places for points, places in series.items() if len(places) >= FEW}
    if not series:
        return None
    title = f"Overlap of {rows[0].num_neighbours} neighbours by number of points, d_K 3, one curve"
    draw = partial(draw_values, lines=series, title=title, x="points", y="overlap", caption=[made_on(shown)])
    return Table(title, (), [], figure=Figure(slug("locality length", rows[0].num_neighbours), draw))


def _recall(rows: Sequence[LocalityRow]) -> Table:
    lines = []
    for (checkpoint, part), group in by(rows, "checkpoint", "slice").items():
        first = group[0]
        others = []
        for name in ("recall_choosing", "recall_chance", "overlap"):
            mean = spread((row.status, getattr(row, name)) for row in group).mean
            others.append("-" if mean is None else f"{100 * mean:.1f}")
        chunks = f"chunks of {first.chunk_size}" if first.num_chunks is None else f"{first.num_chunks} chunks"
        what = f"{first.attention}, d_K {first.d_k}, k {first.top_k}, {chunks}, {first.seq_len} tokens"
        numbers = spread((row.status, row.recall) for row in group).cells(scale=100, digits=1)
        lines.append((checkpoint, what, part, *numbers, *others, f"over {100 * paper.LOCALITY_RECALL:.0f}"))
    head = (f"{HEAD[0]} recall, %", *HEAD[1:], "with a choice, %", "by chance, %", "overlap, %", "paper, %")
    notes = (
        "Recall: of the k keys that exact selection takes under the same visibility, those in the window; n: heads "
        "of all layers. With a choice: over queries that see more than k keys.",
        made_on(rows),
    )
    return Table("Recall of trained models", ("run", "setting", "examples", *head), lines, notes)


def _misses(rows: Sequence[LocalityRow]) -> Table:
    lines = []
    for row in rows:
        shares = [row.miss, row.miss_all_predicted, row.miss_all_measured]
        shown = ["-" if share is None else f"{100 * share:.1f}" for share in shares]
        lines.append((row.checkpoint, row.slice, str(row.layer), row.target, str(row.num_heads), *shown))
    head = (
        "run",
        "examples",
        "layer",
        "key",
        "heads",
        "one head misses, %",
        "paper: all miss (p^heads), %",
        "measured, %",
    )
    return Table("Several heads missing one key", head, lines, (made_on(rows),))


LOCALITY = Section("locality.csv", "Locality", LocalityRow, "zeta locality", tables)

"""results/train.csv: the test score of each configuration over its seeds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from zeta_core.records import TrainRow

from .figure import Place, draw_values
from .printed import printed
from .rows import by
from .settings import MIXER, base_columns, describe, groups, main_scores, mixer_columns, mixer_columns_in_order
from .spread import HEAD, spread
from .table import Figure, Section, Table, made_on, slug


def tables(rows: Sequence[TrainRow]) -> list[Table]:
    """A table for each task, model and training; a line for each attention part."""
    scores = main_scores(rows)
    found = []
    for number, base in enumerate(by(scores, *base_columns(scores[0])).values() if scores else (), 1):
        found.append(_table(base, number))
    return found


def _table(rows: Sequence[TrainRow], number: int) -> Table:
    settings = groups(rows, ())
    varying = [name for name in MIXER if len({getattr(row, name) for row in rows if name in mixer_columns(row)}) > 1]
    varying += ["attention"] if len({row.attention for row in rows}) > 1 else []
    lines, places = [], []
    for group in settings:
        first, found = group[0], spread((row.status, row.value) for row in group)
        names = [
            name for name in mixer_columns_in_order(first) if name in varying and getattr(first, name) is not None
        ]
        shown = [first.attention, *(f"{name}={getattr(first, name)}" for name in names)]
        target = printed(first)
        shares = [row.reachable for row in group if row.reachable is not None]
        seconds = [row.wall_s for row in group if row.wall_s is not None]
        lines.append((
            ", ".join(shown), *found.cells(), "-" if target is None else f"{target:.4f}",
            f"{min(shares):.3f}" if shares else "-", f"{max(seconds):.0f}" if seconds else "-",
        ))  # fmt: skip
        places.append(Place(", ".join(shown), found, target))
    first = max(rows, key=lambda row: len(mixer_columns(row)))
    title = f"{first.task}, {first.seq_len} tokens, width {first.d_model}, {first.steps:,} steps"
    notes = (f"Setting: {describe(first, without=varying)}.", made_on(rows))
    draw = partial(
        draw_values, lines={"": places}, title=f"{title}: test {first.metric}", x="", y=first.metric, caption=notes
    )
    return Table(
        title,
        ("attention", *(f"{HEAD[0]} {first.metric}", *HEAD[1:]), "paper", "reachable", "seconds"),
        lines,
        notes,
        Figure(slug("train", first.task, first.seq_len, "width", first.d_model, number), draw),
    )


TRAIN = Section("train.csv", "Trained models", TrainRow, "zeta train mqar", tables)

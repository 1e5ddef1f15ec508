"""results/ablate.csv: mean and spread over seeds, a table and a figure for each axis and base setting."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial

from zeta_core.attention import ZetaConfig
from zeta_core.config import kinds
from zeta_core.records import AblateRow

from .. import paper
from ..ablate.axes import AnyAxis, Axis
from ..ablate.config import SEPARATOR
from .figure import Place, draw_values
from .printed import printed
from .rows import by
from .settings import MIXER, describe, groups, main_scores, mixer_columns
from .spread import HEAD, Spread, spread
from .table import Figure, Section, Table, made_on, slug

VARIED = frozenset((
    "attention", *MIXER, "short_conv", "d_model", "num_layers", "num_heads", "seq_len", "batch_size", "learning_rate",
    "steps", "data_fingerprint",
))  # fmt: skip
"""What variants may differ in: each is a run with a name."""


@cache
def swept(axis: str) -> frozenset[str]:
    """The columns in which the values of an axis differ, by what the axis changes in a run.

    A field's path (`model.d_model`) is its own axis; a changed task has other data too."""
    found: set[str] = set()
    for name in axis.split(SEPARATOR):
        if name == "variants":
            found |= VARIED
            continue
        if name not in kinds(AnyAxis):
            found |= {name.rpartition(".")[2]} | ({"data_fingerprint"} if name.startswith("task.") else set())
            continue
        own = kinds(AnyAxis)[name]()
        assert isinstance(own, Axis)
        changes = [own.changes(value, ZetaConfig().model_dump()) for value in own.values]
        paths = {path for change in changes for path in change}
        # top_k of the axis `curves` is the same for all of its values: it stays a setting.
        found |= {path.rpartition(".")[2] for path in paths if len({str(change.get(path)) for change in changes}) > 1}
    return frozenset(found)


def sweeps(rows: Sequence[AblateRow]) -> list[list[AblateRow]]:
    """The main scores of each axis, on each system and base setting."""
    return [
        group
        for (axis,), of_axis in by(main_scores(rows), "axis").items()
        for group in groups(of_axis, swept(axis), own=("d_k",) if "attention" in axis.split(SEPARATOR) else ())
    ]


def values(sweep: Sequence[AblateRow]) -> dict[str, Spread]:
    """Each value of a sweep over its seeds, in order. A sweep: the rows of one axis, system and base setting."""
    return {
        value: spread((row.status, row.value) for row in rows) for (value,), rows in by(sweep, "axis_value").items()
    }


def tables(rows: Sequence[AblateRow]) -> list[Table]:
    """A table and a figure for each sweep."""
    return [_table(sweep) for sweep in sweeps(rows)]


def _table(sweep: Sequence[AblateRow]) -> Table:
    first = max(sweep, key=lambda row: row.attention == "zeta")
    several = SEPARATOR in first.axis
    lines: list[tuple[str, ...]] = []
    series: dict[str, list[Place]] = {}
    for value, found in values(sweep).items():
        of_value = [row for row in sweep if row.axis_value == value]
        shares = [row.reachable for row in of_value if row.reachable is not None]
        target = printed(of_value[0])
        rates = sorted(row.tokens_per_s for row in of_value if row.tokens_per_s is not None)
        lines.append((
            value.replace(SEPARATOR, ", "), *found.cells(), "-" if target is None else f"{target:.4f}",
            f"{min(shares):.3f}" if shares else "-", f"{rates[len(rates) // 2]:,.0f}" if rates else "-",
        ))  # fmt: skip
        name, _, rest = value.partition(SEPARATOR)
        series.setdefault(name if several else "", []).append(Place(rest if several else value, found, target))
    on = "ZETA" if first.system == "zeta" else "full causal attention"
    axis = first.axis.replace(SEPARATOR, ", ")
    title = f"{axis} on {on}: {first.task}, {first.seq_len} tokens, width {first.d_model}"
    if "d_model" in swept(first.axis):
        title = f"{axis} on {on}: {first.task}, {first.seq_len} tokens"
    words = [
        f"The paper on {name}: {paper.ABLATIONS[name]}."
        for name in first.axis.split(SEPARATOR)
        if name in paper.ABLATIONS
    ]
    notes = (*words, f"Setting: {describe(first, without=(*_differing(sweep), 'attention'))}.", made_on(sweep))
    x, y = axis.partition(", ")[2] or axis, f"{first.metric}, mean over seeds"
    draw = partial(draw_values, lines=series, title=title, x=x, y=y, caption=notes)
    return Table(
        title,
        (axis, *(f"{HEAD[0]} {first.metric}", *HEAD[1:]), "paper", "reachable", "tokens/s"),
        lines,
        notes,
        Figure(slug("ablate", first.axis, first.system, first.task, first.seq_len), draw),
    )


def _differing(sweep: Sequence[AblateRow]) -> set[str]:
    """The swept columns in which its rows differ, or could: variants may differ in many, and share most of them."""
    names = swept(sweep[0].axis)
    if "variants" not in sweep[0].axis.split(SEPARATOR):
        return set(names)
    have = {name: [row for row in sweep if name not in MIXER or name in mixer_columns(row)] for name in names}
    return {name for name, rows in have.items() if len({getattr(row, name) for row in rows}) > 1}


ABLATE = Section("ablate.csv", "Ablations", AblateRow, "zeta ablate dk --task mqar", tables)

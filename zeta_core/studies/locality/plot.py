"""The overlap of random points over d_K, as a PNG."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from zeta_core.records import LocalityRow

from .. import paper
from .points import POINTS
from .summary import Overlap, overlaps

GREY = "0.6"
COLORS = dict(zip(POINTS, ("tab:blue", "tab:orange", "tab:green", "tab:red"), strict=True))
COLUMNS = 3


def plot(rows: Sequence[LocalityRow], path: Path) -> None:
    """Draw a panel for each number of points, a line for each distribution; written whole or not at all.

    Lines are of one curve, where there is one, and of the first number of bits."""
    first = rows[0]
    curves = 1 if any(row.curves == 1 for row in rows) else first.curves
    shown = [found for found in overlaps(rows) if found.curves == curves and found.bits == first.bits]
    lengths = sorted({found.seq_len for found in shown})
    columns = min(COLUMNS, len(lengths))
    figure = Figure(figsize=(4.6 * columns + 0.4, 4 * -(-len(lengths) // columns) + 1.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(-(-len(lengths) // columns), columns, squeeze=False, sharex=True, sharey=True)
    for panel, seq_len in zip(panels.flat, lengths, strict=False):
        _panel(panel, [found for found in shown if found.seq_len == seq_len], seq_len)
    for panel in panels.flat[len(lengths) :]:
        panel.remove()
    handles = {
        label: line
        for panel in panels.flat[: len(lengths)]
        for line, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, fontsize=9)
    number, seeds = first.num_neighbours, f"{shown[0].seeds} seed{'s' * (shown[0].seeds > 1)}"
    where = "the Z-order curve" if curves == 1 else f"{curves} Z-order curves"
    title = f"{number} true nearest neighbours among {number} on {where}, {first.bits} bits, {seeds}"
    figure.suptitle(textwrap.fill(title, 46 * columns))
    partial = path.with_name(f".{path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(partial, dpi=120, format="png")
    partial.replace(path)


def _panel(axis: Axes, shown: Sequence[Overlap], seq_len: int) -> None:
    """The lines of one number of points over the paper's range."""
    axis.set_title(f"{seq_len:,} points")
    if shown[0].num_neighbours == paper.LOCALITY_NEIGHBOURS:
        _paper(axis, seq_len)
    for points in dict.fromkeys(found.points for found in shown):
        line = sorted((found for found in shown if found.points == points), key=lambda found: found.d_k)
        axis.errorbar(
            [found.d_k for found in line],
            [100 * found.mean for found in line],
            yerr=[100 * (found.spread or 0) for found in line],
            marker="o",
            markersize=4,
            capsize=2,
            color=COLORS[line[0].points],  # type: ignore[index]
            label=points,
        )
    chance = 100 * shown[0].num_neighbours / (seq_len - 1)
    axis.axhline(chance, color="black", linewidth=1, linestyle=":", label="by chance")
    axis.set_xscale("log", base=2)
    d_ks = sorted({found.d_k for found in shown})
    axis.set_xticks(d_ks, [str(d_k) for d_k in d_ks])
    axis.minorticks_off()
    axis.set_ylim(0, 100)
    axis.set_xlabel("$d_K$")
    axis.set_ylabel("overlap, %")
    axis.label_outer()
    axis.grid(alpha=0.3)


def _paper(axis: Axes, seq_len: int) -> None:
    """The paper's range in grey, from one d_K that it has to the next."""
    ranges = {d_k: found[seq_len] for d_k, found in paper.LOCALITY_OVERLAP.items() if seq_len in found}
    if ranges:
        low, high = ([100 * ends[side] for ends in ranges.values()] for side in (0, 1))
        label = "paper, read off its figure (distribution not given)"
        axis.fill_between(list(ranges), low, high, color=GREY, alpha=0.35, linewidth=2, label=label)
        for ends in (low, high):
            axis.plot(list(ranges), ends, "_", markersize=12, markeredgewidth=2, color=GREY)

"""How `zeta locality` shows itself: a line as rows come, then tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from .console import console
from .progress import CountBar

if TYPE_CHECKING:
    from zeta_core.records import LocalityRow
    from zeta_core.studies.locality.study import LocalityResult
    from zeta_core.studies.locality.summary import Overlap


class LocalityProgress(CountBar):
    """A bar on a terminal; a line for each group of rows elsewhere."""

    def begin(self, total: int, device: str) -> None:
        """So many groups of rows will be measured on a device."""
        self.say(f"measuring on {device}")
        self.bar.add_task("", total=total)

    def done(self, rows: list[LocalityRow]) -> None:
        """A group of rows is written."""
        row = rows[0]
        what = f"{row.points} {row.checkpoint or f'{row.seq_len:,} points, seed {row.seed}'}"
        self.bar.update(self.bar.task_ids[0], advance=1, description=what)
        if not self.console.is_terminal:
            self.say(f"{what}: {len(rows)} rows")


def show(result: LocalityResult) -> None:
    """The tables of random points, or of a checkpoint, and where the rows are."""
    from zeta_core.studies.locality.summary import overlaps

    found = overlaps(result.rows)
    for points in dict.fromkeys(overlap.points for overlap in found):
        _show_points([overlap for overlap in found if overlap.points == points])
    if found:
        lengths = sorted({overlap.seq_len for overlap in found})
        seeds = found[0].seeds
        spread = f"mean and standard deviation of {seeds} seeds" if seeds > 1 else "one seed"
        console().print(
            f"% of the {found[0].num_neighbours} true nearest neighbours among as many on the curves: {spread} "
            "(paper: read off its figure, distribution not given); "
            f"by chance {', '.join(_chance(found[0].num_neighbours, length) for length in lengths)}",
            soft_wrap=True,
        )
    else:
        _show_checkpoint(result.rows)
    console().print(f"rows in {result.table}", soft_wrap=True)


def _show_points(found: Sequence[Overlap]) -> None:
    table = Table(title=f"{found[0].points} points", title_justify="left")
    for name in ("d_K", "curves", "bits"):
        table.add_column(name, justify="right")
    lengths = sorted({overlap.seq_len for overlap in found})
    for length in lengths:
        table.add_column(f"{length:,}", justify="right")
        table.add_column("paper", justify="right")
    at = {(overlap.d_k, overlap.curves, overlap.bits, overlap.seq_len): overlap for overlap in found}
    for d_k, curves, bits in dict.fromkeys(setting[:3] for setting in at):
        cells = []
        for length in lengths:
            overlap = at[d_k, curves, bits, length]
            spread = "" if overlap.spread is None else f" ± {100 * overlap.spread:.1f}"
            cells += [f"{100 * overlap.mean:.1f}{spread}", _range(overlap.paper)]
        table.add_row(str(d_k), str(curves), str(bits), *cells)
    console().print(table)


def _chance(num_neighbours: int, seq_len: int) -> str:
    return f"{100 * num_neighbours / (seq_len - 1):.1f} of {seq_len:,}"


def _range(ends: tuple[float, float] | None) -> str:
    if ends is None:
        return ""
    low, high = (f"{100 * end:.0f}" for end in ends)
    return low if low == high else f"{low}-{high}"


def _show_checkpoint(rows: Sequence[LocalityRow]) -> None:
    from zeta_core.studies import paper
    from zeta_core.studies.locality.summary import mean_recall

    out, first = console(), rows[0]
    chunks = f"chunk size {first.chunk_size}" if first.num_chunks is None else f"{first.num_chunks} chunks"
    table = Table(
        title=f"{first.checkpoint}: d_K {first.d_k}, k {first.top_k}, {chunks}; %, {first.num_examples} examples",
        title_justify="left",
    )
    names = (
        "slice",
        "layer",
        "head",
        f"overlap of {first.num_neighbours}",
        "recall",
        "choosing",
        "by chance",
        "misses",
    )
    for name in names:
        table.add_column(name, justify="left" if name == "slice" else "right")
    for row in rows:
        if row.head is not None:
            shares = (row.overlap, row.recall, row.recall_choosing, row.recall_chance, row.miss)
            table.add_row(row.slice, str(row.layer), str(row.head), *(_percent(share) for share in shares))
    out.print(table)
    out.print(
        "overlap: nearest keys, all visible, among as many on the curves; recall: exact top-k under the chunk rule "
        "in the window; choosing: the same over queries that see more than k keys; misses: see below",
        soft_wrap=True,
    )
    recall, choosing = mean_recall(rows), mean_recall(rows, "recall_choosing")
    if recall is not None:
        met = "met" if recall > paper.LOCALITY_RECALL else "not met"
        also = "no query has a choice" if choosing is None else f"{_percent(choosing)} % where there is a choice"
        out.print(
            f"mean recall {_percent(recall)} % ({also}); paper: over {_percent(paper.LOCALITY_RECALL)} % on average: "
            f"{met}",
            soft_wrap=True,
        )
    _show_misses([row for row in rows if row.head is None])


def _show_misses(rows: Sequence[LocalityRow]) -> None:
    if not rows:
        return
    table = Table(title="all heads missing one key", title_justify="left")
    for name in ("slice", "layer", "key", "p a head", "heads", "p^heads", "measured"):
        table.add_column(name, justify="left" if name in ("slice", "key") else "right")
    for row in rows:
        shares = [_percent(share) for share in (row.miss, row.miss_all_predicted, row.miss_all_measured)]
        table.add_row(row.slice, str(row.layer), row.target, shares[0], str(row.num_heads), *shares[1:])
    console().print(table)
    console().print(
        "%; key: nearest, each of the k nearest by the distance over all heads together; answer, where the task's "
        "answer stands; of queries that see more than k keys. p^heads: the paper's, if heads were independent",
        soft_wrap=True,
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"

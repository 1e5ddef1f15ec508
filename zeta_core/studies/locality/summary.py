"""What the rows say together: mean and spread over seeds, and a checkpoint's recall beside the paper's claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from zeta_core.records import LocalityRow

from .. import paper


@dataclass(frozen=True)
class Overlap:
    """Of random points, over seeds. spread: the standard deviation; None of a single seed."""

    points: str
    d_k: int
    seq_len: int
    curves: int
    bits: int
    num_neighbours: int
    mean: float
    spread: float | None
    seeds: int

    @property
    def paper(self) -> tuple[float, float] | None:
        """The paper's figure at this d_K and number of points, from and to; None where it has none."""
        if self.num_neighbours != paper.LOCALITY_NEIGHBOURS:
            return None
        return paper.LOCALITY_OVERLAP.get(self.d_k, {}).get(self.seq_len)


def overlaps(rows: Sequence[LocalityRow]) -> list[Overlap]:
    """The rows of random points, one for all seeds of a setting, in order."""
    groups: dict[tuple[str, int, int, int, int, int], list[float]] = {}
    for row in rows:
        if not row.checkpoint and row.overlap is not None:
            setting = (row.points, row.d_k, row.seq_len, row.curves, row.bits, row.num_neighbours)
            groups.setdefault(setting, []).append(row.overlap)
    return [
        Overlap(*setting, mean(values), stdev(values) if len(values) > 1 else None, len(values))
        for setting, values in groups.items()
    ]


def mean_recall(rows: Sequence[LocalityRow], column: str = "recall") -> float | None:
    """The mean over all layers, heads and kinds of examples; None if no query sees a key, or has a choice."""
    values = [value for row in rows if row.head is not None and (value := getattr(row, column)) is not None]
    return mean(values) if values else None

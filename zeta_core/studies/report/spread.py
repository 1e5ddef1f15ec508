"""Scores of one setting over its seeds, and when two of them differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..ablate.summary import bootstrap

POINT = 0.01
"""One point of accuracy: differences up to this are none."""


@dataclass(frozen=True)
class Spread:
    """n scores: mean, standard deviation, and the bootstrap's 95 % interval of the mean (None for fewer than two).

    others: how many runs ended in each status that has no score."""

    n: int
    mean: float | None
    std: float | None
    low: float | None
    high: float | None
    others: tuple[tuple[str, int], ...]

    @property
    def missing(self) -> str:
        """Runs without a score, as `1 failed, 2 oom`; empty if there are none."""
        return ", ".join(f"{number} {status}" for status, number in self.others)

    def cells(self, scale: float = 1, digits: int = 4) -> tuple[str, ...]:
        """mean, std, interval's ends, n and runs without a score, as text."""
        numbers = (self.mean, self.std, self.low, self.high)
        shown = ["-" if value is None else f"{scale * value:.{digits}f}" for value in numbers]
        return (*shown, str(self.n), self.missing)


HEAD = ("mean", "std", "95 % from", "to", "n", "without a score")
"""What `Spread.cells` gives."""


def spread(scores: Iterable[tuple[str, float | None]]) -> Spread:
    """Of pairs of a status and a value, None where the status is not `ok`."""
    pairs = list(scores)
    values = np.array([value for status, value in pairs if status == "ok" and value is not None])
    low, high = bootstrap(values)
    return Spread(
        n=len(values),
        mean=float(values.mean()) if len(values) else None,
        std=float(values.std(ddof=1)) if len(values) > 1 else None,
        low=low,
        high=high,
        others=tuple(Counter(status for status, _ in pairs if status != "ok").items()),
    )


Order = Literal["above", "equal", "below", "unclear"]


def compare(one: Spread, other: Spread) -> Order:
    """Whether accuracies differ: `equal` up to one point between the means; `above` and `below` beyond that if the
    intervals do not overlap either; else, and for fewer than two seeds, `unclear`."""
    if one.mean is None or other.mean is None or min(one.n, other.n) < 2:
        return "unclear"
    if abs(one.mean - other.mean) <= POINT:
        return "equal"
    assert one.low is not None and one.high is not None and other.low is not None and other.high is not None
    if one.low > other.high:
        return "above"
    return "below" if one.high < other.low else "unclear"


def counted(number: int, what: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{number:,} {what}" + ("s" if number != 1 else "")


def means(spreads: Sequence[Spread]) -> list[float]:
    """The means of those that have one."""
    return [found.mean for found in spreads if found.mean is not None]

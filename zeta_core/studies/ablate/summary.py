"""What a sweep's rows say: mean, spread and interval of each value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..text_scores import DERIVED

RESAMPLES = 10_000
"""Of the bootstrap; seeded, so that a table is the same twice."""


@dataclass(frozen=True)
class Cell:
    """One value of an axis. part: which examples, `all` or one kind of them. n: runs with a score; failed: runs
    without. low, high: the bootstrap's 95 % interval of the mean, None for fewer than two runs. majority: the share
    of the test examples' commonest class. parameters: trained ones without those of embeddings."""

    axis_value: str
    system: str
    part: str
    metric: str
    n: int
    failed: int
    mean: float | None
    std: float | None
    low: float | None
    high: float | None
    reachable: float | None
    majority: float | None
    examples: int | None
    parameters: int | None


def summarise(rows: Sequence[dict[str, str]], slices: Sequence[str] = ("all",)) -> list[Cell]:
    """The scores of some slices by value and system, in the order of the rows; a run without a score is in `all`."""
    groups: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for row in rows:
        if row["slice"] in slices and row["metric"] not in DERIVED:
            groups.setdefault((row["axis_value"], row["system"], row["slice"]), []).append(row)
    return [_cell(*key, found) for key, found in groups.items()]


def _cell(axis_value: str, system: str, part: str, rows: Sequence[dict[str, str]]) -> Cell:
    values = np.array([float(row["value"]) for row in rows if row["status"] == "ok"])
    low, high = bootstrap(values)
    least = {
        name: min((float(row[name]) for row in rows if row.get(name)), default=None)
        for name in ("reachable", "majority", "examples", "parameters")
    }
    return Cell(
        axis_value=axis_value,
        system=system,
        part=part,
        metric=rows[0]["metric"],
        n=len(values),
        failed=sum(row["status"] != "ok" for row in rows),
        mean=float(values.mean()) if len(values) else None,
        std=float(values.std(ddof=1)) if len(values) > 1 else None,
        low=low,
        high=high,
        reachable=least["reachable"],
        majority=least["majority"],
        examples=None if least["examples"] is None else int(least["examples"]),
        parameters=None if least["parameters"] is None else int(least["parameters"]),
    )


def bootstrap(values: np.ndarray) -> tuple[float | None, float | None]:
    """The percentile bootstrap's 95 % interval of the mean."""
    if len(values) < 2:
        return None, None
    draws = np.random.default_rng(0).choice(values, size=(RESAMPLES, len(values))).mean(axis=1)
    low, high = np.quantile(draws, (0.025, 0.975))
    return float(low), float(high)

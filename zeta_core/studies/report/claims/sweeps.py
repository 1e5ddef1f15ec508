"""What claims on accuracy share: sweeps of ablate.csv, and when a sweep cannot tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from zeta_core.records import TrainRow

from ...ablate.config import SEPARATOR
from ..ablate import ABLATE, sweeps, values
from ..claim import Finding, Verdict
from ..sections import Results
from ..spread import Spread, counted, means

PERFECT = 0.999
"""Where every value of a sweep is above this, the task is too easy to tell them apart."""
LEARNED = 0.5
"""Where every value is below this, nothing was learned."""
Rule = Callable[[Mapping[str, Spread]], Verdict | None]
"""From each value's scores to a verdict; None if the sweep lacks the values that the claim is about."""


def tells(found: Iterable[Spread]) -> bool:
    """Whether a sweep can show a difference at all: something was learned, and not everything is perfect."""
    scores = means(list(found))
    return bool(scores) and max(scores) >= LEARNED and min(scores) < PERFECT


def enough(found: Iterable[Spread]) -> bool:
    """Whether each has two seeds or more."""
    return all(spread.n >= 2 for spread in found)


def setting_of(row: TrainRow) -> str:
    """The sizes in short; the table of the sweep has everything."""
    return f"{row.task}, {row.seq_len} tokens, width {row.d_model}, {row.steps:,} steps"


def seeds(found: Iterable[Spread]) -> str:
    """How many runs are behind each mean, and how many have no score."""
    spreads = list(found)
    numbers = {spread.n for spread in spreads}
    ended = sum(number for spread in spreads for _, number in spread.others)
    text = counted(min(numbers), "seed") if len(numbers) == 1 else f"{min(numbers)} to {max(numbers)} seeds"
    return text + (f", {counted(ended, 'run')} without a score" if ended else "")


def shown(found: Mapping[str, Spread]) -> str:
    """Each value and its mean."""
    return ", ".join(
        f"{name.replace(SEPARATOR, ' ')}: {'-' if spread.mean is None else f'{spread.mean:.3f}'}"
        for name, spread in found.items()
    )


def in_sweeps(
    axis: str, system: Literal["zeta", "transformer"], rule: Rule, task: str = "mqar"
) -> Callable[[Results], list[Finding]]:
    """One finding a sweep of an axis. A sweep that cannot tell is `not shown` whatever the rule says."""

    def find(results: Results) -> list[Finding]:
        rows = [row for row in results.of(ABLATE) if (row.axis, row.system, row.task) == (axis, system, task)]
        found = []
        for sweep in sweeps(rows):
            spreads = values(sweep)
            verdict = rule(spreads)
            if verdict is None:
                continue
            if not tells(spreads.values()):
                verdict = "not shown"
            setting = setting_of(sweep[0])
            found.append(Finding(verdict, shown(spreads), setting, sweep[0].device, seeds(spreads.values())))
        return found

    return find

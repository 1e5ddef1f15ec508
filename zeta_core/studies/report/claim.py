"""A claim of the paper, and what rows say to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from .sections import Results

Verdict = Literal["reproduced", "partly", "not reproduced", "not shown", "not run"]
MEANING: dict[Verdict, str] = {
    "reproduced": "the rule below is met",
    "partly": "it is met in part, or under some of the settings measured",
    "not reproduced": "it is not met",
    "not shown": "there are rows that cannot tell: every value is perfect, none learned anything, or there are too "
    "few seeds or examples",
    "not run": "there are no rows; the command makes them",
}


@dataclass(frozen=True)
class Finding:
    """What one device and setting say. n: seeds, calls or heads, as text."""

    verdict: Verdict
    figure: str
    setting: str
    device: str
    n: str


def nothing(results: Results) -> list[Finding]:
    """Of a claim that no row can answer yet."""
    return []


@dataclass(frozen=True)
class Claim:
    """text: what the paper says. source: where. paper: its value. rule: when it counts as reproduced. command: what
    makes the rows, or why nothing does. find: from rows to findings; [] if there are none for it."""

    text: str
    source: str
    paper: str
    rule: str
    command: str
    find: Callable[[Results], Sequence[Finding]] = nothing


@dataclass(frozen=True)
class Judged:
    """A claim with the findings of one folder, the decisive ones first."""

    verdict: Verdict
    findings: tuple[Finding, ...]


def judge(claim: Claim, results: Results) -> Judged:
    """One verdict from all settings: theirs if they agree, `partly` if they do not. Rows that cannot tell count only
    where there are no others; a GPU's come first."""
    found = sorted(
        claim.find(results), key=lambda finding: (finding.verdict == "not shown", "threads" in finding.device)
    )
    verdicts = {finding.verdict for finding in found if finding.verdict != "not shown"}
    if not found:
        return Judged("not run", ())
    if not verdicts:
        return Judged("not shown", tuple(found))
    return Judged(verdicts.pop() if len(verdicts) == 1 else "partly", tuple(found))

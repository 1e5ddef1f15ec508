"""REPORT.md: the paper's claims, one row each, then every table and figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .claim import MEANING, Claim, Finding, Judged, Verdict
from .spread import counted
from .table import Section, Table, markdown

HEAD = ("verdict", "claim", "paper", "committed evidence", "this machine", "made on", "command")
SAME = "the same rows"
SHOWN = 4
"""Findings of one claim in one cell; the rest is counted."""


@dataclass(frozen=True)
class Line:
    """A claim, and what both folders say to it; `here` is None where they are the same folder."""

    claim: Claim
    evidence: Judged
    here: Judged | None

    @property
    def verdict(self) -> Verdict:
        """The committed rows' if they can tell, else this machine's."""
        if self.here is None or self.evidence.verdict not in ("not run", "not shown"):
            return self.evidence.verdict
        return self.here.verdict if self.here.verdict != "not run" else self.evidence.verdict


def summary(lines: Sequence[Line]) -> str:
    """How many claims have which verdict."""
    counts = {verdict: sum(line.verdict == verdict for line in lines) for verdict in MEANING}
    return ", ".join(f"{number} {verdict}" for verdict, number in counts.items() if number)


def figures(judged: Judged | None, most: int = SHOWN) -> str:
    """What was found, each with its setting; a verdict is added where findings differ in it. most: findings shown."""
    if judged is None:
        return SAME
    several = len({finding.verdict for finding in judged.findings}) > 1
    shown = [_words(finding, several) for finding in judged.findings[:most]]
    if (rest := len(judged.findings) - most) > 0:
        shown.append(f"and {counted(rest, 'more setting')}")
    return "<br>".join(shown) or "-"


def _words(finding: Finding, several: bool) -> str:
    behind = ", ".join(part for part in (finding.setting, finding.n) if part)
    return f"{finding.figure} [{behind}]" + (f": {finding.verdict}" if several else "")


def devices(*found: Judged | None) -> str:
    """The machines that the findings come from."""
    names = [finding.device.split(",")[0] for judged in found if judged is not None for finding in judged.findings]
    return ", ".join(dict.fromkeys(names)) or "-"


def cells(line: Line) -> tuple[str, ...]:
    """A claim's row."""
    here = figures(line.here)
    if line.here is not None and line.here.findings:
        here = f"**{line.here.verdict}**: {here}"
    claim = f"{line.claim.text} ({line.claim.source})"
    return (
        f"**{line.verdict}**", claim, line.claim.paper, figures(line.evidence), here,
        devices(line.evidence, line.here), line.claim.command,
    )  # fmt: skip


def page(
    lines: Mapping[str, Sequence[Line]],
    sections: Sequence[tuple[Section[Any], list[Table]]],
    command: str,
) -> str:
    """The whole page. lines: by heading. command: the one that makes it."""
    everything = [line for group in lines.values() for line in group]
    text = [
        "# Report",
        f"Made by `{command}` from the rows of `results/*.csv`, which name their device, versions and commit; "
        "nothing here is typed by hand. The paper: ZETA, ICLR 2025, [arXiv 2501.14577](https://arxiv.org/abs/2501.14577).",
        f"Of {len(everything)} claims: {summary(everything)}.",
        "`zeta report --out OUT` sets the rows of a machine of yours, as `make reproduce-paper` leaves them in OUT, "
        "beside the committed ones.",
        "\n".join(f"- **{verdict}**: {meaning}." for verdict, meaning in MEANING.items()),
        "In brackets: the setting, and how many seeds, calls or heads are behind a figure. One claim may be measured "
        "under several settings or on several machines; nothing is averaged over them.",
    ]
    for heading, group in lines.items():
        text += [f"## {heading}", markdown(HEAD, [cells(line) for line in group])]
    rules = [(line.claim.text, line.claim.rule) for line in everything]
    text += ["## When a claim counts as reproduced", markdown(("claim", "reproduced if"), rules)]
    for section, tables in sections:
        if tables:
            text += [f"## {section.title}", f"Rows of `results/{section.csv}`."]
            for table in tables:
                text += _table(table)
    return "\n\n".join(text) + "\n"


def _table(table: Table) -> list[str]:
    parts = [f"### {table.title}"]
    parts += [markdown(table.head, table.rows)] if table.head else []
    parts += ["\n".join(f"{note}  " for note in table.notes).rstrip()] if table.notes else []
    if table.figure is not None:
        parts.append(f"![{table.title}](results/figures/{table.figure.stem}.png)")
    return parts

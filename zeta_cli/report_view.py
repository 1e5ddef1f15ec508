"""How `zeta report` shows itself: the claims with their verdicts, then every table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from .console import console

if TYPE_CHECKING:
    from zeta_core.studies.report.study import Report

STYLES = {"reproduced": "green", "partly": "yellow", "not reproduced": "red", "not shown": "dim", "not run": "dim"}


def show(report: Report, figures: Sequence[Path]) -> None:
    """Everything that the page has, but of each claim the first setting, and no rules of verdicts."""
    from zeta_core.studies.report.page import devices, summary
    from zeta_core.studies.report.page import figures as found

    out = console()
    for heading, lines in report.lines.items():
        table = Table(title=heading, title_justify="left", show_lines=True)
        for name in ("verdict", "claim", "paper", "committed evidence", "this machine", "made on"):
            table.add_column(name)
        for line in lines:
            cells = (line.claim.text, line.claim.paper, found(line.evidence, 1), found(line.here, 1))
            texts = [Text(cell.replace("<br>", "\n")) for cell in (*cells, devices(line.evidence, line.here))]
            table.add_row(Text(line.verdict, style=STYLES[line.verdict]), *texts)
        out.print(table)
    for _, tables in report.sections:
        for shown in tables:
            if not shown.head:
                continue
            table = Table(title=Text(shown.title), title_justify="left")
            filled = [number for number in range(len(shown.head)) if any(row[number] for row in shown.rows)]
            for number in filled:
                first = number == 0
                table.add_column(Text(shown.head[number]), justify="left" if first else "right", no_wrap=first)
            for row in shown.rows:
                table.add_row(*(Text(row[number]) for number in filled))
            out.print(table)
            for note in shown.notes:
                out.print(note, markup=False, soft_wrap=True)
    lines = [line for group in report.lines.values() for line in group]
    out.print(f"of {len(lines)} claims: {summary(lines)}", soft_wrap=True)
    if not_run := sorted({line.claim.command for line in lines if line.verdict == "not run"}):
        out.print("not run yet; what makes the rows:", soft_wrap=True)
        for command in not_run:
            out.print(f"  {command.replace('`', '')}", markup=False, soft_wrap=True)
    out.print(f"page in {report.page}, {len(figures)} figures in {report.figures}", soft_wrap=True)

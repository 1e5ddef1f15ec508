"""`zeta report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options as o
from .app import app


@app.command()
def report(
    out: o.Out = o.OUT,
    evidence: Annotated[
        Path | None,
        typer.Option(
            "--evidence", metavar="DIR", help="Committed rows to set beside (default: ./results, if there)."
        ),
    ] = None,
) -> int:
    """Set the rows of OUT/results beside the paper: a verdict on each claim, tables, figures, OUT/REPORT.md.

    For example: zeta report --out out"""
    from zeta_core.studies.report.study import make_report, write_report

    from .progress import quiet_imports
    from .report_view import show

    quiet_imports()
    found = make_report(out, evidence)
    figures = write_report(found)
    show(found, figures)
    return 0

"""`zeta report`: the rows of two folders of results, judged against the paper and written as a page with figures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zeta_core.errors import RequestError, StorageError
from zeta_core.run_folder import check_writable

from .claim import judge
from .claims import CLAIMS
from .page import Line, page
from .sections import SECTIONS, Results, load
from .table import Section, Table

PAGE = "REPORT.md"
EVIDENCE = Path("results")
"""The committed rows, in the repository's root."""


@dataclass(frozen=True)
class Report:
    """lines: the claims by heading. sections: tables of this machine's rows. text: REPORT.md. page: where it goes."""

    lines: dict[str, list[Line]]
    sections: list[tuple[Section[Any], list[Table]]]
    text: str
    page: Path
    figures: Path


def make_report(out: Path, evidence: Path | None = None) -> Report:
    """Read and judge; nothing is written. evidence: committed rows; None: ./results, if it is there.

    Raises: RequestError, one line, if there are no rows in OUT/results, a CSV is off, or `evidence` is not there."""
    if evidence is not None and not evidence.is_dir():
        raise RequestError(f"--evidence {evidence}: is not a folder; give one that holds CSVs, or leave it out")
    folder = out / "results"
    here = load(folder)
    if not here:
        commands = "; ".join(f"zeta {section.command.removeprefix('zeta ')} --out {out}" for section in SECTIONS[:1])
        raise RequestError(
            f"{folder} holds no rows to report; `{commands}` makes some, `make reproduce-paper OUT={out}` all of them"
        )
    known = evidence or EVIDENCE
    same = known.is_dir() and folder.resolve() == known.resolve()
    committed = here if same else load(known) if known.is_dir() else Results({})
    lines = {
        heading: [Line(claim, judge(claim, committed), None if same else judge(claim, here)) for claim in claims]
        for heading, claims in CLAIMS.items()
    }
    sections = _named([(section, section.tables(here.of(section))) for section in SECTIONS])
    command = "make report" if same else f"zeta report --out {out}"
    return Report(lines, sections, page(lines, sections, command), out / PAGE, folder / "figures")


def _named(sections: list[tuple[Section[Any], list[Table]]]) -> list[tuple[Section[Any], list[Table]]]:
    """The same, each figure with a name of its own."""
    seen: dict[str, int] = {}

    def named(table: Table) -> Table:
        if table.figure is None:
            return table
        stem = table.figure.stem
        seen[stem] = seen.get(stem, 0) + 1
        return table if seen[stem] == 1 else replace(table, figure=replace(table.figure, stem=f"{stem}-{seen[stem]}"))

    return [(section, [named(table) for table in tables]) for section, tables in sections]


def write_report(report: Report) -> list[Path]:
    """Write the page and its figures, each whole. Returns: the figures. Raises: StorageError."""
    check_writable(report.page.parent)
    written = []
    try:
        for _, tables in report.sections:
            for table in tables:
                if table.figure is not None:
                    written.append(report.figures / f"{table.figure.stem}.png")
                    table.figure.draw(written[-1])
        partial = report.page.with_name(f".{report.page.name}")
        partial.write_text(report.text)
        partial.replace(report.page)
    except OSError as error:
        raise StorageError(f"{report.page}: the report could not be written: {error.strerror or error}") from error
    return written

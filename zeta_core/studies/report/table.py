"""What a section of the report is made of: tables, each with notes and perhaps a figure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from zeta_core.records import Row

R = TypeVar("R", bound=Row)


@dataclass(frozen=True)
class Figure:
    """A picture: the stem of its file's name, and what draws it there."""

    stem: str
    draw: Callable[[Path], None]


@dataclass(frozen=True)
class Table:
    """A title, cells as text, and lines below: the setting, the paper's words, where it was made."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: tuple[str, ...] = ()
    figure: Figure | None = None


@dataclass(frozen=True)
class Section(Generic[R]):
    """A CSV of results/: its rows' type, the command that makes it, and what the report shows of its rows."""

    csv: str
    title: str
    row_type: type[R]
    command: str
    tables: Callable[[Sequence[R]], list[Table]]
    older: Mapping[str, str] = field(default_factory=dict)
    """What columns that were added later hold in rows of files that lack them."""


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown. A bar or a line break in a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in line] for line in lines]
    return (
        "\n".join(f"| {' | '.join(line)} |" for line in cells).replace("| --- |", "|---|").replace(" --- |", "---|")
    )


def made_on(rows: Sequence[Row]) -> str:
    """Where rows were made, and from which commits."""
    places = {f"{row.device}, {row.dtype}, torch {row.torch}" for row in rows if row.status != "skipped"}
    commits = sorted({row.commit for row in rows if row.commit})
    return f"Made on {'; '.join(sorted(places))}" + (f" (commit {', '.join(commits)})." if commits else ".")


def slug(*words: object) -> str:
    """A file's name from words."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(map(str, words)).lower()).strip("-")

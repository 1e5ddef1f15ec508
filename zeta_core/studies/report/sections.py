"""The studies that the report knows. One more: a file with its Section, and a place in this tuple."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from zeta_core.records import Row

from .ablate import ABLATE
from .bench import BENCH, OPERATOR
from .locality import LOCALITY
from .rows import read
from .scaling import SCALING
from .table import Section
from .train import TRAIN
from .zero_shot import ZERO_SHOT

R = TypeVar("R", bound=Row)
SECTIONS: tuple[Section[Any], ...] = (TRAIN, ABLATE, LOCALITY, BENCH, OPERATOR, ZERO_SHOT, SCALING)


@dataclass(frozen=True)
class Results:
    """The rows of a folder of results, by CSV."""

    rows: dict[str, list[Any]]

    def of(self, section: Section[R]) -> list[R]:
        """The rows of a study; [] if there are none."""
        return self.rows.get(section.csv, [])

    def __bool__(self) -> bool:
        return any(self.rows.values())


def load(folder: Path) -> Results:
    """The rows of every known CSV in a folder. Raises: RequestError, one line, for a file that is off."""
    return Results({section.csv: read(folder / section.csv, section.row_type, section.older) for section in SECTIONS})

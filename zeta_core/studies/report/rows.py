"""The rows of a results folder, typed; whatever is wrong with a file is one line that names it and the column."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from zeta_core.errors import RequestError, StorageError
from zeta_core.records import Row, read_rows
from zeta_core.wording import shorten

R = TypeVar("R", bound=Row)


def read(path: Path, row_type: type[R], older: Mapping[str, str] | None = None) -> list[R]:
    """The rows of a CSV; [] if it is not there or has none. A last line that a kill cut short is left out.

    Columns that an older file lacks have what `older` says, their default, or None. Raises: RequestError for a file
    that cannot be read, a column that is needed and not there, a row of another length, a value of another type."""
    try:
        rows = read_rows(path)
        header = _header(path) if not rows else [name for name in rows[0] if name is not None]
    except (StorageError, csv.Error) as error:
        raise RequestError(str(error) if isinstance(error, StorageError) else f"{path}: {error}") from None
    if not header:
        return []
    hints = get_type_hints(row_type)
    nullable = {name for name, hint in hints.items() if NoneType in get_args(hint)}
    fill = dict.fromkeys(nullable) | dict(older or {})
    defaults = {field.name for field in fields(row_type) if field.default is not MISSING}
    if missing := [name for name in hints if name not in header and name not in {*fill, *defaults}]:
        some = f"{missing[0]} (and {len(missing) - 1} more)" if len(missing) > 1 else missing[0]
        raise RequestError(f"{path}: has no column {some}, so no report can be made of it; move it away")
    adapter = TypeAdapter(row_type)
    return [_typed(path, number, row, adapter, nullable, fill) for number, row in enumerate(rows, 1)]


def _header(path: Path) -> list[str]:
    """The first line of a file without rows; [] of an empty or missing one."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return next(csv.reader(file), [])


def _typed(
    path: Path,
    number: int,
    row: dict[str, str],
    adapter: TypeAdapter[R],
    nullable: set[str],
    fill: Mapping[str, str | None],
) -> R:
    if None in row or None in row.values():
        raise RequestError(f"{path}: row {number} is not as long as the header; move the file away")
    values: dict[str, Any] = dict(fill) | {
        name: None if text == "" and name in nullable else text for name, text in row.items()
    }
    try:
        return adapter.validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        column = str(first["loc"][-1])
        what = first["msg"].replace("Input should", "must").partition(",")[0]
        raise RequestError(f"{path}: row {number}: {column}={shorten(first['input'])}: {what}") from None


def by(rows: Sequence[R], *columns: str) -> dict[tuple[Any, ...], list[R]]:
    """Rows with equal values in some columns together, in order."""
    groups: dict[tuple[Any, ...], list[R]] = {}
    for row in rows:
        groups.setdefault(tuple(getattr(row, name) for name in columns), []).append(row)
    return groups

"""Whether results may be added to the CSV that is there: asked before hours are spent on them."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from .errors import RequestError
from .records import Row


def check_table(path: Path, row_type: type[Row], needed: Sequence[str]) -> None:
    """Raises: RequestError unless rows can be added to the CSV at `path`, or nothing is there yet.

    needed: columns without which its rows mean something else; other columns that it lacks are added later."""
    if reason := _reason(path, [field.name for field in fields(row_type)], needed):
        raise RequestError(f"{path}: rows cannot be added to it: {reason}; move it away or choose another --out")


def _reason(path: Path, columns: Sequence[str], needed: Sequence[str]) -> str | None:
    try:
        with path.open("r+b") as file:
            text = file.read().decode()
        reader = csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1]))
        header, rows = list(reader.fieldnames or []), list(reader)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        return f"byte {error.start} is not UTF-8"
    except OSError as error:
        return error.strerror or str(error)
    except csv.Error as error:
        return str(error)
    if not header and ",".join(columns).startswith(text.rstrip("\r\n")):
        return None  # empty, or a header that a kill cut short
    if missing := [name for name in needed if name not in header]:
        return f"it has no column {', '.join(missing)}"
    longer = [number for number, row in enumerate(rows, 1) if None in row]
    return f"row {longer[0]} is longer than the header" if longer else None

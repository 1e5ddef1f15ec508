"""Files of JSON lines, packed or not, read so that what is wrong is said with its file and line."""

from __future__ import annotations

import gzip
import json
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from zeta_core.errors import DataError

ENDS = (".jsonl", ".jsonl.gz", ".jsonl.xz")
UNPACKED = {".gz": 3.0, ".xz": 4.5}
"""About how many times as long as a packed file its content is."""


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """The objects of a file, one a line, each with its place `file:line`; empty lines are passed over.

    Raises: DataError naming the line that is no object or no UTF-8, or a file that cannot be read or unpacked."""
    number = 0
    try:
        with _opened(path) as file:
            for number, line in enumerate(file, 1):
                place = f"{path}:{number}"
                if not line.strip():
                    continue
                try:
                    values = json.loads(line.decode())
                except UnicodeDecodeError as error:
                    raise DataError(f"{place}: byte {error.start} of the line is not UTF-8") from None
                except ValueError as error:
                    raise DataError(f"{place}: is not JSON ({error}); each line must be an object") from None
                if not isinstance(values, dict):
                    raise DataError(f"{place}: is not an object; each line must be one")
                yield place, values
    except (lzma.LZMAError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path}: cannot be unpacked after line {number} ({error})") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def encoded(text: str, place: str) -> bytes:
    """A text's UTF-8 bytes. Raises: DataError naming its place if it has half of a character, as JSON can."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise DataError(f"{place}: the text has half of a surrogate pair, which is no character") from None


def _opened(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    return cast(BinaryIO, lzma.open(path, "rb")) if path.suffix == ".xz" else path.open("rb")

"""Other people's text files, read so that what is wrong is said with its file and line, or byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from zeta_core.errors import DataError


def read_bytes(path: Path) -> bytes:
    """A file's content. Raises: DataError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def read_utf8(path: Path) -> bytes:
    """A text file's bytes. Raises: DataError naming the first byte that is not UTF-8, counted from 0."""
    content = read_bytes(path)
    _decoded(content, path, 0)
    return content


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file without their ends, with their numbers from 1; lines end with \\n alone.

    Raises: DataError if it cannot be read, or naming the first byte that is not UTF-8."""
    try:
        with path.open("rb") as file:
            start = 0
            for number, line in enumerate(file, 1):
                yield number, _decoded(line, path, start).removesuffix("\n").removesuffix("\r")
                start += len(line)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def table_rows(path: Path, columns: tuple[str, ...], *, has_header: bool = False) -> Iterator[tuple[int, list[str]]]:
    """The rows of a file of tab-separated columns, with their lines' numbers from 1; quotes mean nothing.

    has_header: whether its first line names the columns. Raises: DataError naming the line that has more or fewer, a
    header that is another, or a file without rows."""
    number = 0
    for number, line in text_lines(path):
        cells = line.split("\t")
        if has_header and number == 1:
            if tuple(cells) != columns:
                raise DataError(f"{path}:1: must be the header {', '.join(columns)}, separated by tabs")
            continue
        if len(cells) != len(columns):
            raise DataError(
                f"{path}:{number}: has {len(cells)} columns instead of {len(columns)} ({', '.join(columns)}), "
                "separated by tabs"
            )
        yield number, cells
    if number <= has_header:
        raise DataError(f"{path}: holds no rows")


def _decoded(content: bytes, path: Path, start: int) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {start + error.start} is not UTF-8; save the file as UTF-8 text") from None

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


def table_rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    """The rows of a file of tab-separated columns without a header, with their lines' numbers; quotes mean nothing.

    Raises: DataError naming the line that has more or fewer columns."""
    for number, line in text_lines(path):
        cells = line.split("\t")
        if len(cells) != len(columns):
            raise DataError(
                f"{path}:{number}: has {len(cells)} columns instead of {len(columns)} ({', '.join(columns)}), "
                "separated by tabs"
            )
        yield number, cells


def _decoded(content: bytes, path: Path, start: int) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {start + error.start} is not UTF-8; save the file as UTF-8 text") from None

"""A CSV that several processes write: locked, in whole lines, and as it was where the disk is full."""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[io.BufferedRandom]:
    """The file opened for reading and writing, locked against other processes."""
    while True:
        with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # Another process may have put a new file in its place while this one waited.
            if os.fstat(file.fileno()).st_ino == os.stat(path).st_ino:
                yield file
                return


def read_lines(file: io.BufferedIOBase) -> tuple[list[str], list[dict[str, str]]]:
    """Its columns and its rows; a last line cut short is left out."""
    file.seek(0)
    try:
        text = file.read().decode()
    except UnicodeDecodeError as error:
        raise OSError(f"byte {error.start} is not UTF-8; move the file away") from None
    reader = csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1]))
    return list(reader.fieldnames or []), list(reader)


def ends_with_newline(file: io.BufferedIOBase, size: int) -> bool:
    """Whether the last line is whole."""
    file.seek(size - 1)
    return file.read(1) == b"\n"


def to_bytes(columns: Sequence[str], rows: Iterable[dict[str, str]], *, with_header: bool) -> bytes:
    """Rows as lines; a column that a row lacks is empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
    if with_header:
        writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def append_bytes(file: io.BufferedRandom, size: int, text: bytes) -> None:
    """Write after so many bytes; where that fails the file is as it was."""
    try:
        file.seek(size)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            os.ftruncate(file.fileno(), size)
        raise


def replace_file(path: Path, text: bytes) -> None:
    """Put a new file in this one's place, or leave it as it was."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise

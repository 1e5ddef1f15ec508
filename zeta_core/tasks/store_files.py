"""Files of the store: written whole or not at all, by one process at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zeta_core.errors import StorageError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time makes a folder. The lock's file lies beside it."""
    path = folder.with_name(f".{folder.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("w")
    except OSError as error:
        raise StorageError(f"{path.parent}: cannot be written: {error.strerror or error}") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and see it to the disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all; its folder is made. Raises: StorageError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_synced(partial, content)
        os.replace(partial, path)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror or error}") from error


def removed(path: Path) -> None:
    """Delete a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

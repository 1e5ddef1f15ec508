"""Files of the store: written whole or not at all, by one process at a time, and mapped when they are read."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

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


def mapped(path: Path) -> np.ndarray:
    """The array of an .npy file, mapped into memory and read-only.

    numpy's own mapping holds the file open for as long as the array lives, and a process may have no more than 1,024
    open files as a rule: fewer than a large folder has. torch's does not."""
    array = np.load(path, mmap_mode="r")
    content = torch.from_file(str(path), shared=False, size=path.stat().st_size, dtype=torch.uint8).numpy()
    content.flags.writeable = False
    found: np.ndarray = content[array.offset :].view(array.dtype).reshape(array.shape)
    return found

"""Documents between their source and the shards: read once, put in splits, and open to several processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from zeta_core.errors import DataError, StorageError

from .language_sources import MIN_DOCUMENTS, Document
from .store_files import removed
from .task import SPLITS, Split

TEXTS, INDEX = "documents.bin", "index.npz"
HELD_OUT = 20
"""One document in so many is for testing, and as many for validation."""


@dataclass(frozen=True)
class Spool:
    """Documents on disk. orders: the documents of each split, in the order they are packed. offsets: [documents + 1]
    int64 bytes. sizes: [documents, 2] int64 words and bytes. empty: how many blank documents were left out."""

    folder: Path
    orders: Mapping[Split, np.ndarray]
    offsets: np.ndarray
    sizes: np.ndarray
    empty: int

    def texts(self, split: Split, start: int, stop: int) -> Iterable[str]:
        """Documents start..stop-1 of a split."""
        with (self.folder / TEXTS).open("rb") as file:
            for index in self.orders[split][start:stop]:
                file.seek(self.offsets[index])
                yield file.read(self.offsets[index + 1] - self.offsets[index]).decode()


def spooled(
    folder: Path,
    documents: Callable[[], Iterable[Document]],
    *,
    whole: bool,
    where: str,
    reading: Callable[[int], None] = lambda number: None,
) -> Spool:
    """The documents in a folder; written there first if they are not, whole or not at all.

    whole: those without a split of their own are all for testing. where: the corpus, for messages. reading: is told
    how many were read. Raises: DataError, above all if there are too few for three splits; StorageError."""
    if (folder / INDEX).exists():
        return open_spool(folder)
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    try:
        partial.mkdir(parents=True)
        with (partial / TEXTS).open("wb") as file:
            offsets, sizes, keys, splits, empty = [0], [], [], [], 0
            for number, one in enumerate(documents(), 1):
                reading(number)
                if not one.content.strip():
                    empty += 1
                    continue
                file.write(one.content)
                offsets.append(offsets[-1] + len(one.content))
                sizes.append((len(one.content.decode().split()), len(one.content)))
                keys.append(one.key)
                splits.append("test" if whole and one.split is None else one.split)
        arrays: dict[str, Any] = {"offsets": offsets, "sizes": sizes, "empty": empty}
        arrays |= {str(split): order for split, order in in_splits(keys, splits, where).items()}
        np.savez(partial / INDEX, **arrays)
        os.replace(partial, folder)
        open_spool.cache_clear()
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written: {error.strerror or error}") from error
    finally:
        removed(partial)
    return open_spool(folder)


@lru_cache(maxsize=2)
def open_spool(folder: Path) -> Spool:
    """What `spooled` has written."""
    with np.load(folder / INDEX) as found:
        orders = {split: found[split] for split in SPLITS}
        return Spool(folder, orders, found["offsets"], found["sizes"], int(found["empty"]))


def in_splits(keys: list[bytes], splits: list[Split | None], where: str) -> dict[Split, np.ndarray]:
    """The indices of each split's documents, in order, int64.

    Documents with a split of their own keep it and their order. Others are ordered by their keys, which are hashes:
    the first twentieth of the different keys is for testing, the next for validation, the rest for training. So
    documents with one key stay together, and the beginning of a split is a sample of it.
    Raises: DataError if there are documents, but too few."""
    found: dict[Split, list[int]] = {split: [] for split in SPLITS}
    for index, split in enumerate(splits):
        if split is not None:
            found[split].append(index)
    drawn = sorted(
        (index for index, split in enumerate(splits) if split is None), key=lambda index: (keys[index], index)
    )
    different = sorted({keys[index] for index in drawn})
    if not keys:
        raise DataError(f"{where}: has no documents, or blank ones alone")
    if drawn and len(different) < MIN_DOCUMENTS:
        raise DataError(
            f"{where}: has {len(different)} different documents, and needs {MIN_DOCUMENTS} at least, one a split"
        )
    if drawn:
        number = max(1, round(len(different) / HELD_OUT))
        last_test, last_validation = different[number - 1], different[2 * number - 1]
        for index in drawn:
            key = keys[index]
            found["test" if key <= last_test else "validation" if key <= last_validation else "train"].append(index)
    return {split: np.array(indices, dtype=np.int64) for split, indices in found.items()}

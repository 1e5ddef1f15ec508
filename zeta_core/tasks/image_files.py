"""CIFAR-10 in the forms that it comes in, and in gray."""

from __future__ import annotations

import codecs
import io
import pickle
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zeta_core.errors import DataError

from .imported import held_out
from .lines import read_bytes
from .store_write import Row
from .task import Split

WIDTH = 32
"""Pixels of a side."""
NUM_CLASSES = 10
GRAY = np.array([0.2989, 0.5870, 0.1140])
"""Weights of red, green and blue."""
TRAIN_FILES = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST_FILE = "test_batch"
INNER = "cifar-10-batches-py"
"""The folder that the official archive unpacks to."""
AXES = {(WIDTH, WIDTH, 3): (0, 1, 2, 3), (3, WIDTH, WIDTH): (0, 2, 3, 1)}
"""A picture's shape, and the order of axes that puts colours last."""


class Pictures(NamedTuple):
    """colours: [n, 32, 32, 3] uint8; labels: [n] int64."""

    colours: np.ndarray
    labels: np.ndarray


def read_batches(path: Path, wants: str) -> dict[str, Pictures]:
    """The official python batches in a folder, or in the one that their archive unpacks to: `train` and `test`.

    Raises: DataError naming the file that is missing, or what is wrong with it."""
    folder = path / INNER if (path / INNER).is_dir() else path
    names = (*TRAIN_FILES, TEST_FILE)
    if not any((folder / name).is_file() for name in names):
        raise DataError(f"{path}: does not have {wants}")
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise DataError(f"{folder}: has no {', '.join(missing)}; unpack the whole archive")
    batches = {name: _batch(folder / name) for name in names}
    train = Pictures(*(np.concatenate(arrays) for arrays in zip(*(batches[n] for n in TRAIN_FILES), strict=True)))
    return {"train": train, "test": batches[TEST_FILE]}


def read_npz(path: Path) -> dict[str, Pictures]:
    """An npz file with train_x, train_y, test_x, test_y: pictures uint8 [n, 32, 32, 3], [n, 3, 32, 32] or [n, 3072]
    (as the batches have them), labels [n] or [n, 1]. Raises: DataError naming the array that is missing or wrong."""
    try:
        with np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError, EOFError, AttributeError, TypeError, zipfile.BadZipFile):
        # numpy's own words would have the file unpickled, which may run anything
        raise DataError(
            f"{path}: is not an npz file of plain arrays; numpy.savez(PATH, train_x=..., train_y=..., test_x=..., "
            "test_y=...) makes one"
        ) from None
    wanted = [f"{split}_{part}" for split in ("train", "test") for part in "xy"]
    if missing := [name for name in wanted if name not in found]:
        raise DataError(f"{path}: has no array {', '.join(missing)}; it needs {', '.join(wanted)}")
    return {
        split: _pictures(found[f"{split}_x"], found[f"{split}_y"], f"{path}, {split}_x", f"{path}, {split}_y")
        for split in ("train", "test")
    }


def gray_rows(found: Mapping[str, Pictures]) -> dict[Split, Iterator[Row]]:
    """Gray pictures as rows; a tenth of train is for validation."""
    train, test = (gray(found[split].colours) for split in ("train", "test"))
    labels = found["train"].labels
    out = held_out([picture.tobytes() for picture in train])
    return {
        "train": _rows(train[~out], labels[~out]),
        "validation": _rows(train[out], labels[out]),
        "test": _rows(test, found["test"].labels),
    }


def gray(colours: np.ndarray) -> np.ndarray:
    """[n, 32, 32, 3] uint8 to [n, 1024] uint8: the weighted sum of the colours, rounded to the nearest."""
    out = np.empty((len(colours), WIDTH * WIDTH), dtype=np.uint8)
    for start in range(0, len(colours), 1000):
        out[start : start + 1000] = np.rint(colours[start : start + 1000] @ GRAY).reshape(-1, WIDTH * WIDTH)
    return out


def _rows(pictures: np.ndarray, labels: np.ndarray) -> Iterator[Row]:
    for picture, label in zip(pictures, labels.tolist(), strict=True):
        yield (picture,), label


def _pictures(values: Any, labels: Any, where: str, where_labels: str) -> Pictures:
    """Checked pictures and labels. where, where_labels: what to call them in messages."""
    values, labels = np.asarray(values), np.asarray(labels)
    if values.ndim == 2 and values.shape[1] == 3 * WIDTH * WIDTH:
        values = values.reshape(-1, 3, WIDTH, WIDTH)
    if values.shape[1:] not in AXES or values.dtype != np.uint8:
        raise DataError(
            f"{where}: pictures are {values.dtype} {list(values.shape[1:])}; they must be uint8 [32, 32, 3], "
            "[3, 32, 32] or [3072]"
        )
    labels = labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.shape != (len(values),) or labels.dtype.kind not in "iu":
        raise DataError(f"{where_labels}: must be a whole number for each of the {len(values)} pictures")
    if not len(values):
        raise DataError(f"{where}: holds no pictures")
    if len(wrong := np.flatnonzero((labels < 0) | (labels >= NUM_CLASSES))):
        raise DataError(f"{where_labels}: label={labels[wrong[0]]} of picture {wrong[0]} is none of the classes 0..9")
    return Pictures(values.transpose(AXES[values.shape[1:]]), labels.astype(np.int64))


def _batch(path: Path) -> Pictures:
    """One of the official files: a pickled dictionary with b"data" [n, 3072] and b"labels"."""
    try:
        values = PlainUnpickler(io.BytesIO(read_bytes(path)), encoding="bytes").load()
    except DataError:
        raise
    except Exception as error:  # a broken pickle may raise anything
        words = " ".join(str(error).split())
        raise DataError(f"{path}: is not one of CIFAR-10's python batches ({words})") from None
    if not isinstance(values, dict) or b"data" not in values or b"labels" not in values:
        raise DataError(f"{path}: has no data and labels; it is not one of CIFAR-10's python batches")
    return _pictures(values[b"data"], values[b"labels"], str(path), f"{path}, labels")


_ALLOWED: dict[tuple[str, str], object] = {
    (module, "_reconstruct"): np.zeros(0).__reduce__()[0]
    for module in ("numpy.core.multiarray", "numpy._core.multiarray")
} | {("numpy", "ndarray"): np.ndarray, ("numpy", "dtype"): np.dtype, ("_codecs", "encode"): codecs.encode}
"""All that a pickle of arrays and bytes needs to name."""


class PlainUnpickler(pickle.Unpickler):
    """Reads arrays, bytes and plain containers, and refuses to import or call anything else."""

    def find_class(self, module: str, name: str) -> Any:
        """What a pickle asks for by name. Raises: UnpicklingError if it is not of an array."""
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is neither an array nor bytes")
        return _ALLOWED[module, name]

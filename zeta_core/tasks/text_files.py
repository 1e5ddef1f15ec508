"""Film reviews in the forms that they come in."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from zeta_core.errors import DataError

from .imported import Document
from .json_lines import encoded, json_lines
from .lines import read_utf8
from .task import Split

CLASSES = {"neg": 0, "pos": 1}
UNLABELLED = "unsup"
"""IMDB's folder of reviews without a label; it is left out, and counted."""
LABELS: dict[str | int, int] = {0: 0, 1: 1, "neg": 0, "pos": 1}


def read_folder(path: Path, notes: dict[str, object]) -> dict[Split, list[Document]]:
    """The official tree: train/pos/*.txt, train/neg/*.txt, and the same of test, in order of their names.

    notes: gets the number of unlabelled reviews left out. Raises: DataError naming the folder that is missing, empty
    or of no class, or the file that is not UTF-8."""
    found: dict[Split, list[Document]] = {}
    for split in ("train", "test"):
        folder = path / split
        if not folder.is_dir():
            raise DataError(
                f"{folder}: there is no such folder; a split needs {split}/pos/*.txt and {split}/neg/*.txt"
            )
        for other in sorted(folder.iterdir()):
            if other.is_dir() and other.name not in (*CLASSES, UNLABELLED):
                raise DataError(f"{other}: is none of the classes {', '.join(CLASSES)}; move it away")
        rows = []
        for name, label in CLASSES.items():
            files = sorted((folder / name).glob("*.txt"))
            if not files:
                raise DataError(f"{folder / name}: holds no *.txt, and a split needs reviews of both classes")
            rows += [Document(read_utf8(file), label, str(file)) for file in files]
        if number := len(list((folder / UNLABELLED).glob("*.txt"))):
            notes["unlabelled_left_out"] = number
        found["train" if split == "train" else "test"] = rows
    return found


def read_lines(path: Path, files: Mapping[Split, str], wants: str) -> dict[Split, list[Document]]:
    """JSON lines with `text` and `label` (0, 1, neg or pos), a file a split: train.jsonl, test.jsonl and, if there is
    one, validation.jsonl. files: other names.

    Raises: DataError naming the file that is missing, or the line that is wrong."""
    names: dict[Split, str] = {"train": "train.jsonl", "validation": "validation.jsonl", "test": "test.jsonl"}
    names |= files
    if not path.is_dir() or not any((path / name).exists() for name in names.values()):
        raise DataError(f"{path}: does not have {wants}")
    found: dict[Split, list[Document]] = {}
    for split, name in names.items():
        file = path / name
        if file.exists():
            found[split] = list(_lines(file))
        elif split != "validation" or split in files:
            raise DataError(f"{file}: there is no such file, so no {split} split; --split {split}=NAME names another")
        if split in found and not found[split]:
            raise DataError(f"{file}: holds no lines")
    return found


def _lines(file: Path) -> Iterator[Document]:
    for place, values in json_lines(file):
        text = values.get("text")
        if not isinstance(text, str) or "label" not in values:
            raise DataError(f"{place}: must be an object with `text` (text) and `label`")
        yield _document(text, values["label"], place)


def read_datasets(name: str) -> dict[Split, list[Document]]:
    """What the `datasets` package finds (and downloads, if it must) under a name: its splits train and test.

    Raises: DataError if the package is not installed, or it does not find them."""
    try:
        package = importlib.import_module("datasets")
    except ImportError:
        raise DataError(
            f"datasets:{name} needs the datasets package; install it with: pip install 'zeta-attention[datasets]'"
        ) from None
    found: dict[Split, list[Document]] = {}
    splits: tuple[Split, ...] = ("train", "test")
    for split in splits:
        try:
            rows: Any = package.load_dataset(name, split=split)
        except Exception as error:  # its own and those of the network beneath it
            words = " ".join(str(error).split())
            raise DataError(f"datasets:{name}: the {split} split was not found ({words})") from None
        found[split] = []
        for number, values in enumerate(rows):
            place = f"datasets:{name}, {split}, row {number}"
            if not isinstance(values.get("text"), str) or "label" not in values:
                raise DataError(f"{place}: has no `text` and `label`")
            found[split].append(_document(values["text"], values["label"], place))
        if not found[split]:
            raise DataError(f"datasets:{name}: the {split} split is empty")
    return found


def _document(text: str, label: object, place: str) -> Document:
    if not isinstance(label, str | int) or isinstance(label, bool) or label not in LABELS:
        raise DataError(f"{place}: label={label!r} is none of the classes 0 (neg), 1 (pos)")
    return Document(encoded(text, place), LABELS[label], place)

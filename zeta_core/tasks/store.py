"""Examples on disk: where they lie, what a manifest says of them, and how they are read.

Data live under $ZETA_DATA, or ~/.cache/zeta, in a folder for each task and its parameters:

    listops-small-0a1b2c3d4e/manifest.json                 written last: without it nothing is read
                             train/00000/labels.npy        [examples] classes
                                         tokens.npy        [tokens] all sequences, one behind the other
                                         offsets.npy       [examples + 1] int64: sequence i is tokens[o[i]:o[i+1]]
                                         tokens2.npy offsets2.npy   the second documents, if there are two

Shards hold a fixed number of examples and nothing of when or by how many processes they were made, so that the same
parameters give the same bytes anywhere. They are mapped into memory, not loaded."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from zeta_core.errors import DataError, DataMissing

from .store_files import mapped
from .task import SPLITS, Split

FORMAT = 1
"""Of the files; a folder of another one is refused."""
MANIFEST = "manifest.json"
DIGITS = 10


class Ragged(NamedTuple):
    """Sequences of several lengths: sequence i is tokens[offsets[i]:offsets[i + 1]].

    tokens: [all tokens] unsigned; offsets: [sequences + 1] int64."""

    tokens: np.ndarray
    offsets: np.ndarray


class Examples(NamedTuple):
    """Some examples: labels [n], and for each document of an example its sequences."""

    labels: np.ndarray
    documents: tuple[Ragged, ...]


def pack(sequences: Sequence[np.ndarray]) -> Ragged:
    """Sequences laid end to end."""
    lengths = np.fromiter((len(sequence) for sequence in sequences), dtype=np.int64, count=len(sequences))
    tokens = np.concatenate(sequences) if sequences else np.zeros(0, dtype=np.uint8)
    return Ragged(tokens, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


@dataclass(frozen=True)
class Spec:
    """What a folder of examples is of.

    parameters: everything that decides the examples, as JSON, the numbers of examples included if they are asked for.
    label: a readable part of the folder's name. again: the command that makes the folder. num_documents: 1 or 2."""

    task: str
    label: str
    parameters: Mapping[str, object]
    vocab_size: int
    num_classes: int
    again: str
    num_documents: int = 1
    shard_size: int = 1024

    @property
    def folder(self) -> Path:
        """Where these examples lie, made or not."""
        text = json.dumps([self.task, self.parameters], sort_keys=True)
        return data_root() / f"{self.task}-{self.label}-{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"

    @property
    def token_type(self) -> np.dtype[Any]:
        """The smallest unsigned type that holds every token."""
        return np.min_scalar_type(self.vocab_size - 1)


@dataclass(frozen=True)
class ShardRecord:
    """examples: how many. classes: how many of each class. files: each file's [bytes, sha256]."""

    examples: int
    classes: list[int]
    files: dict[str, list[Any]]


@dataclass(frozen=True)
class SplitRecord:
    """examples: how many. classes: how many of each class. fingerprint: sha256 of the shards' own."""

    examples: int
    classes: list[int]
    fingerprint: str
    shards: list[ShardRecord] = field(default_factory=list)

    @classmethod
    def of(cls, shards: Sequence[ShardRecord], num_classes: int) -> Self:
        """The record of a split made of these shards."""
        digest = hashlib.sha256()
        for shard in shards:
            for name in sorted(shard.files):
                digest.update(f"{name} {shard.files[name][1]}\n".encode())
        classes = [sum(shard.classes[one] for shard in shards) for one in range(num_classes)]
        return cls(sum(shard.examples for shard in shards), classes, digest.hexdigest(), list(shards))


@dataclass(frozen=True)
class Manifest:
    """What manifest.json says; `notes` is for what an importer wants to keep, such as counts of what it left out."""

    task: str
    parameters: Mapping[str, object]
    vocab_size: int
    num_classes: int
    num_documents: int
    shard_size: int
    splits: dict[Split, SplitRecord]
    notes: Mapping[str, object] = field(default_factory=dict)
    format: int = FORMAT

    @property
    def fingerprint(self) -> str:
        """sha256 of the parameters and of every example, as 16 hexadecimal digits."""
        parts: list[object] = [self.task, self.parameters]
        parts += [[split, self.splits[split].fingerprint] for split in SPLITS if split in self.splits]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def size(self) -> int:
        """Bytes of all shards."""
        return sum(
            int(size) for split in self.splits.values() for shard in split.shards for size, _ in shard.files.values()
        )

    def text(self) -> str:
        """The file's text."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def read(cls, folder: Path, again: str) -> Self:
        """A folder's manifest. again: the command that makes the folder. Raises: DataMissing, DataError."""
        path = folder / MANIFEST
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if values["format"] != FORMAT:
                raise DataError(
                    f"{folder}: is in format {values['format']}, and this version reads {FORMAT}; "
                    f"make it again with: {again}"
                )
            splits = {
                split: SplitRecord(**{**record, "shards": [ShardRecord(**shard) for shard in record["shards"]]})
                for split, record in values["splits"].items()
            }
            return cls(**{**values, "splits": splits})
        except (FileNotFoundError, NotADirectoryError):
            raise DataMissing(
                f"{folder}: has no {MANIFEST}, so no finished examples; make them with: {again}"
            ) from None
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{path}: is not a manifest of examples; make the folder again with: {again}") from None


def data_root() -> Path:
    """Where data live: $ZETA_DATA, or ~/.cache/zeta."""
    given = os.environ.get("ZETA_DATA")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "zeta"


def shard_folder(folder: Path, split: Split, number: int) -> Path:
    """Where a shard's files lie."""
    return folder / split / f"{number:05d}"


def file_names(num_documents: int) -> tuple[str, ...]:
    """The files of a shard."""
    return ("labels.npy", "tokens.npy", "offsets.npy", "tokens2.npy", "offsets2.npy")[: 1 + 2 * num_documents]


class Stored:
    """A split on disk. labels: [n] int64."""

    def __init__(self, folder: Path, split: Split, manifest: Manifest) -> None:
        names = file_names(manifest.num_documents)
        self.shard_size = manifest.shard_size
        self.shards: list[Examples] = []
        for number in range(len(manifest.splits[split].shards)):
            labels, *arrays = (mapped(shard_folder(folder, split, number) / name) for name in names)
            pairs = zip(arrays[::2], arrays[1::2], strict=True)
            self.shards.append(Examples(labels, tuple(Ragged(tokens, offsets) for tokens, offsets in pairs)))
        self.labels = np.concatenate(
            [np.zeros(0, np.int64), *(shard.labels.astype(np.int64) for shard in self.shards)]
        )
        self.classes = manifest.splits[split].classes

    def __len__(self) -> int:
        return len(self.labels)

    def sequence(self, index: int, document: int = 0) -> np.ndarray:
        """The tokens of one example's document: [tokens] unsigned, mapped."""
        shard, place = divmod(int(index), self.shard_size)
        tokens, offsets = self.shards[shard].documents[document]
        found: np.ndarray = tokens[offsets[place] : offsets[place + 1]]
        return found

    def sequences(self, indices: np.ndarray, document: int = 0) -> list[np.ndarray]:
        """The tokens of these examples."""
        return [self.sequence(index, document) for index in indices]

    def lengths(self, document: int = 0) -> np.ndarray:
        """How many tokens each example has: [n] int64."""
        found = [np.diff(shard.documents[document].offsets) for shard in self.shards]
        return np.concatenate([np.zeros(0, np.int64), *found])


@dataclass(frozen=True)
class Dataset:
    """A folder that was found whole."""

    folder: Path
    manifest: Manifest

    def split(self, split: Split) -> Stored:
        """The examples of a split."""
        return Stored(self.folder, split, self.manifest)

    @cached_property
    def majority(self) -> float | None:
        """The share of the commonest class in the test split; None if that is empty."""
        classes = self.manifest.splits["test"].classes if "test" in self.manifest.splits else []
        return max(classes) / sum(classes) if sum(classes) else None


def open_spec(spec: Spec) -> Dataset:
    """The examples of these parameters. Raises: DataMissing; DataError if the folder is not what it should be."""
    return open_folder(spec.folder, spec.again, task=spec.task, parameters=spec.parameters)


def open_folder(folder: Path, again: str, *, task: str, parameters: Mapping[str, object] | None = None) -> Dataset:
    """The examples in a folder, its sizes checked against its manifest.

    again: the command that makes it. task, parameters: what it must be of; None: of any parameters.
    Raises: DataMissing; DataError if the folder is of another task or other parameters, or a shard was cut short."""
    manifest = Manifest.read(folder, again)
    if manifest.task != task:
        raise DataError(f"{folder}: holds the task {manifest.task}, not {task}; make that with: {again}")
    if parameters is not None and manifest.parameters != parameters:
        names = [*parameters, *(name for name in manifest.parameters if name not in parameters)]
        name = next(name for name in names if manifest.parameters.get(name) != parameters.get(name))
        raise DataError(
            f"{folder}: was made with {name}={manifest.parameters.get(name)!r}, not {parameters.get(name)!r}; "
            f"make what is wanted with: {again}"
        )
    for split, record in manifest.splits.items():
        for number, shard in enumerate(record.shards):
            for name, (size, _) in shard.files.items():
                path = shard_folder(folder, split, number) / name
                found = path.stat().st_size if path.is_file() else None
                if found != size:
                    state = "is missing" if found is None else f"has {found} bytes instead of {size}"
                    raise DataError(f"{path}: {state}; make the examples again with: {again}")
    return Dataset(folder, manifest)

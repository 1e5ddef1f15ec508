"""Tasks whose examples come from files that the user has: what they share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from pydantic import PositiveInt

from zeta_core.config import identity
from zeta_core.errors import DataError, DataMissing

from .store import Dataset, Spec, Stored, open_spec
from .store_write import Row
from .stored import pad
from .task import SPLITS, Batch, Part, Split, TaskConfigBase, TaskData

PADDING = 256
"""The token behind a document's bytes 0..255."""
DROPPED = "empty_left_out"
"""The note that counts examples with an empty document."""
HELD_OUT = 10
"""One training example in so many is held out for validation where the files have no validation split."""


@dataclass(frozen=True)
class Reading:
    """An import that has been looked at and not yet read.

    spec: what its folder will be of. splits: its examples, read as they are asked for. source: what kind of files
    they come from. notes: for the manifest; counts of what was left out are there once all is read."""

    spec: Spec
    splits: Mapping[Split, Iterable[Row]]
    source: str
    notes: dict[str, object] = field(default_factory=dict)


class ImportedTask(TaskConfigBase):
    """A task whose files are the user's. `zeta data import` brings them into the store, whole; a run may take fewer.

    Which examples a subset has depends on the number of examples alone."""

    num_train: PositiveInt | None = None
    """How many of the imported examples to take; None: all."""
    num_validation: PositiveInt | None = None
    num_test: PositiveInt | None = None
    wants: ClassVar[str]
    """The files to import, in words."""
    padding: ClassVar[int] = PADDING
    """The token that fills up shorter examples."""
    vocab_size: ClassVar[int] = PADDING + 1
    stands_for: ClassVar[str] = ""
    """The generated task whose official files these are; `zeta data import` takes that name too."""

    @classmethod
    def reading(cls, path: Path, files: Mapping[Split, str], *, drop_empty: bool = False) -> Reading:
        """Files to import, looked at.

        path: a file or folder. files: the names of splits' files there, where they are others than the usual.
        drop_empty: leave out examples with an empty document. Raises: DataError."""
        raise NotImplementedError

    def specs(self) -> Sequence[Spec]:
        """The folders that hold this task's examples, the one to prefer first."""
        raise NotImplementedError

    def source_of(self, data: Dataset) -> str:
        """What the examples are, for rows."""
        return str(data.manifest.notes.get("source", ""))

    def dataset(self) -> Dataset:
        """The imported examples. Raises: DataMissing naming the files to import; DataError if they are broken."""
        for spec in self.specs():
            if spec.folder.exists():
                return open_spec(spec)
        kind = self.specs()[0].task
        raise DataMissing(f"{kind}: needs {self.wants}; import them with: zeta data import {kind} PATH")

    def parts(self, data: Dataset, split: Split, number: int | None) -> tuple[Part, ...]:
        """A split's examples, `number` of them at most."""
        stored = data.split(split)
        if not len(stored):
            raise DataError(f"{data.folder}: the {split} split has no examples; import the files again")
        chosen = subset(len(stored), number)
        name = self.source_of(data)
        two = data.manifest.num_documents == 2
        part = PairPart if two else ImportedPart
        return (part(stored, chosen, name=name, seq_len=self.longest, padding=self.padding),)

    def build(self) -> TaskData:
        """The imported examples, mapped. Raises: DataMissing, DataError."""
        data = self.dataset()
        numbers = {"train": self.num_train, "validation": self.num_validation, "test": self.num_test}
        parts = {split: self.parts(data, split, numbers[split]) for split in SPLITS}
        test = np.concatenate([part.labels for part in parts["test"] if isinstance(part, ImportedPart)])
        text = json.dumps([identity(self), data.manifest.fingerprint, self.source_of(data)], sort_keys=True)
        return TaskData(
            parts=parts,
            vocab_size=self.vocab_size,
            max_len=self.longest,
            num_classes=data.manifest.num_classes,
            metric="accuracy",
            fingerprint=hashlib.sha256(text.encode()).hexdigest()[:16],
            majority=float(np.bincount(test).max() / len(test)),
            num_documents=2 if data.manifest.num_documents == 2 else 1,
            source=self.source_of(data),
        )


class ImportedPart(Part):
    """Some of a stored split's examples, cut to the first seq_len tokens.

    chosen: their indices in the split. padding: the token that fills up."""

    def __init__(self, stored: Stored, chosen: np.ndarray, *, name: str, seq_len: int, padding: int) -> None:
        self.stored, self.chosen, self.name, self.seq_len, self.padding = stored, chosen, name, seq_len, padding
        self.labels = stored.labels[chosen]

    def __len__(self) -> int:
        return len(self.chosen)

    def documents(self, indices: np.ndarray, document: int) -> list[np.ndarray]:
        """One document of each of these examples, cut."""
        found = self.stored.sequences(self.chosen[indices], document)
        return [sequence[: self.seq_len] for sequence in found]

    def batch(self, indices: np.ndarray) -> Batch:
        """Tokens, classes and padding mask of these examples."""
        tokens, mask = pad(self.documents(indices, 0), padding=self.padding, longest=self.seq_len)
        return Batch(tokens, torch.from_numpy(self.labels[indices]), mask)


class PairPart(ImportedPart):
    """The same of pairs of documents, all padded to the longest of them."""

    num_documents = 2

    def batch(self, indices: np.ndarray) -> Batch:
        """Both documents, classes and padding masks of these examples."""
        both = [*self.documents(indices, 0), *self.documents(indices, 1)]
        tokens, mask = pad(both, padding=self.padding, longest=self.seq_len)
        masks = (None, None) if mask is None else mask.chunk(2)
        first, second = tokens.chunk(2)
        return Batch(first, torch.from_numpy(self.labels[indices]), masks[0], second, masks[1])


def subset(total: int, number: int | None) -> np.ndarray:
    """Indices of `number` of `total` examples, in order, drawn by a counter: [number] int64; all if that is None.

    A smaller subset lies within a larger one."""
    if number is None or number >= total:
        return np.arange(total)
    order = np.argsort(np.random.Philox(key=total).random_raw(total), kind="stable")
    return np.sort(order[:number])


def held_out(contents: Sequence[bytes]) -> np.ndarray:
    """Which training examples are for validation: bool [examples], true for a tenth of them.

    Those whose sha256 is smallest, so that it depends on the examples and not on their order, and equal ones stay
    together (but for one at the border)."""
    digests = [hashlib.sha256(content).digest() for content in contents]
    order = sorted(range(len(contents)), key=lambda index: (digests[index], index))
    mask = np.zeros(len(contents), dtype=bool)
    mask[order[: round(len(contents) / HELD_OUT)]] = True
    return mask


class Document(NamedTuple):
    """A text with its class, and where it stands."""

    content: bytes
    label: int
    place: str


def with_validation(found: Mapping[Split, list[Document]]) -> dict[Split, list[Document]]:
    """The splits with a validation split: the files' own, or a tenth of train by `held_out`."""
    if "validation" in found:
        return dict(found)
    train = found["train"]
    mask = held_out([document.content for document in train])
    kept: dict[bool, list[Document]] = {False: [], True: []}
    for document, out in zip(train, mask, strict=True):
        kept[bool(out)].append(document)
    return {"train": kept[False], "validation": kept[True], "test": found["test"]}


def rows_of(documents: Iterable[Document], notes: dict[str, object], *, drop_empty: bool) -> Iterator[Row]:
    """Documents as rows. Raises: DataError naming an empty one, unless those are dropped and counted in notes."""
    for document in documents:
        if not is_empty((document.content,), document.place, notes, drop_empty=drop_empty):
            yield (tokens_of(document.content),), document.label


def is_empty(contents: Sequence[bytes], place: str, notes: dict[str, object], *, drop_empty: bool) -> bool:
    """Whether a document of an example is empty, and it is to be left out.

    Raises: DataError naming its place if it is not to be left out."""
    names = ("the document",) if len(contents) == 1 else ("text1", "text2")
    for name, content in zip(names, contents, strict=True):
        if not content.strip():
            if not drop_empty:
                raise DataError(f"{place}: {name} is empty; --drop-empty leaves such examples out")
            dropped = notes.get(DROPPED, 0)
            assert isinstance(dropped, int)
            notes[DROPPED] = dropped + 1
            return True
    return False


def tokens_of(content: bytes) -> np.ndarray:
    """Bytes as tokens 0..255: uint8."""
    return np.frombuffer(content, dtype=np.uint8)

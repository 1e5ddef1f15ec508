"""Tasks whose examples are made here, from parameters alone, and kept on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import NonNegativeInt, PositiveInt

from zeta_core.config import identity

from .made import MadeConfig
from .store import Dataset, Spec, open_spec
from .store_write import Producer, Report, make
from .stored import classifying
from .task import Split, TaskData


class GeneratedConfig(MadeConfig):
    """Parameters that decide every example: example i of a split is the same whatever else is made."""

    num_train: PositiveInt
    num_validation: PositiveInt
    num_test: PositiveInt
    data_seed: NonNegativeInt = 0

    generator: ClassVar[int] = 1
    """Raised when the same parameters give other examples than before."""
    num_classes: ClassVar[int]
    vocab_size: ClassVar[int]
    filler: ClassVar[int] = 0
    """The token that fills up shorter sequences."""
    shard_size: ClassVar[int] = 1024

    @property
    def label(self) -> str:
        """A readable part of the folder's name."""
        raise NotImplementedError

    @property
    def producer(self) -> Producer:
        """Makes the examples; can be sent to other processes."""
        raise NotImplementedError

    @property
    def seconds_each(self) -> float:
        """About how long one example takes on one core."""
        raise NotImplementedError

    @property
    def counts(self) -> dict[Split, int]:
        """How many examples each split has."""
        return {"train": self.num_train, "validation": self.num_validation, "test": self.num_test}

    @property
    def seconds(self) -> float:
        """About how long all examples take on one core."""
        return self.seconds_each * self.total

    @property
    def total(self) -> int:
        """How many examples there are, over all splits."""
        return sum(self.counts.values())

    @property
    def amount(self) -> str:
        """What is made, in words."""
        return f"{self.total:,} examples"

    @property
    def folder(self) -> Path:
        """Where the examples lie, made or not."""
        return self.spec.folder

    @property
    def spec(self) -> Spec:
        """What the folder of these examples is of."""
        return Spec(
            task=self.kind,
            label=self.label,
            parameters={"generator": self.generator, **identity(self)},
            vocab_size=self.vocab_size,
            num_classes=self.num_classes,
            again=self.command,
            shard_size=self.shard_size,
        )

    def make(
        self,
        *,
        workers: int = 1,
        report: Report = lambda split, done, total, made: None,
        reading: Callable[[int], None] = lambda number: None,
    ) -> Dataset:
        """Make the examples, or the rest of them."""
        return make(self.spec, self.producer, self.counts, workers=workers, report=report)

    def dataset(self) -> Dataset:
        """The examples on disk. Raises: DataMissing if they are not made; DataError if they are broken."""
        return open_spec(self.spec)

    def build(self) -> TaskData:
        """Open the examples. Raises: DataMissing, DataError."""
        data = self.dataset()
        return classifying(data, name=self.label, longest=self.longest, padding=self.filler)


def stream_key(config: GeneratedConfig, split: Split, *fields: str) -> int:
    """The Philox key of a split, 128 bits: a hash of the parameters that decide its examples.

    fields: those beside the seed; the numbers of examples are none of them."""
    defining = [config.kind, config.generator, split, config.data_seed, *(getattr(config, name) for name in fields)]
    return int.from_bytes(hashlib.sha256(json.dumps(defining).encode()).digest()[:16], "little")


def words_of(key: int, index: int) -> np.random.Philox:
    """The stream of an index: 2^128 words that no other index has."""
    return np.random.Philox(key=key, counter=index << 128)

"""Tasks whose examples are made here, from parameters alone, and kept on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from pydantic import NonNegativeInt, PositiveInt

from zeta_core.config import identity

from .store import Dataset, Spec, open_spec
from .store_write import Producer, Report, make
from .stored import classifying
from .task import Split, TaskConfigBase, TaskData

COUNTS = {"train": "num_train", "validation": "num_validation", "test": "num_test"}
"""Each split's field."""
SMALL_SECONDS = 60.0
"""What takes at most about so long on one core is made without being asked for."""


class GeneratedConfig(TaskConfigBase):
    """Parameters that decide every example: example i of a split is the same whatever else is made."""

    num_train: PositiveInt
    num_validation: PositiveInt
    num_test: PositiveInt
    data_seed: NonNegativeInt = 0

    kind: str
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
        return self.seconds_each * sum(self.counts.values())

    @property
    def is_small(self) -> bool:
        """Whether training may make the examples without being asked for."""
        return self.seconds <= SMALL_SECONDS

    @property
    def command(self) -> str:
        """The command that makes these examples."""
        words, rest = min((self._from_preset(name) for name in self.presets), key=lambda found: len(found[1]))
        return " ".join(["zeta data make", self.kind, *words, *rest])

    def _from_preset(self, name: str) -> tuple[list[str], list[str]]:
        """The words that choose a preset, and those that set what differs from it."""
        part = self.presets[name].get("task", {})
        assert isinstance(part, Mapping)
        base = type(self).model_validate({"kind": self.kind, **part})
        options = []
        for field in type(self).model_fields:
            value = getattr(self, field)
            if value != getattr(base, field):
                split = next((split for split, count in COUNTS.items() if count == field), None)
                options.append(f"--examples {split}={value}" if split else f"--set {field}={json.dumps(value)}")
        return ([] if name == self.default_preset else [f"--preset {name}"]), options

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

    def make(self, *, workers: int = 1, report: Report = lambda split, done, total, made: None) -> Dataset:
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

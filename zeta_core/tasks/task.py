"""What every task is: a configuration that builds data in three splits, each in parts of one kind of example."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from zeta_core.config import Config, identity
from zeta_core.errors import ConfigError
from zeta_core.wording import did_you_mean

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
IGNORED = -100
"""The label of a position that is not scored."""
FINGERPRINT_EXAMPLES = 16


@dataclass(frozen=True)
class Batch:
    """Some examples of one part.

    tokens: [batch, seq_len] int64. labels: [batch, seq_len] int64 with -100 where nothing is asked, or [batch]
    classes. key_padding_mask: [batch, seq_len] bool, True = ignore; None if nothing is padded. What is padded is so
    at the end. second, second_padding_mask: the same of the other document, where an example has two."""

    tokens: Tensor
    labels: Tensor
    key_padding_mask: Tensor | None = None
    second: Tensor | None = None
    second_padding_mask: Tensor | None = None

    @property
    def num_labels(self) -> int:
        """How many answers are scored."""
        return int((self.labels != IGNORED).sum())

    def to(self, device: torch.device) -> Batch:
        """The same on another device; a GPU is not waited for."""
        optional = (self.key_padding_mask, self.second, self.second_padding_mask)
        moved = (None if tensor is None else sent(tensor, device) for tensor in optional)
        return Batch(sent(self.tokens, device), sent(self.labels, device), *moved)

    def unpadded(self) -> Tensor:
        """The tokens cut to the shortest example, so that none is padded; at least one token each."""
        if self.key_padding_mask is None:
            return self.tokens
        shortest = int((~self.key_padding_mask).sum(1).min())
        return self.tokens[:, : max(1, shortest)]


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on this device; from a CPU to a GPU through pinned memory, so that the host need not wait."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


class TextSize(NamedTuple):
    """How long the text of some examples is, before it is tokenised: words between white space, and UTF-8 bytes.

    bytes: None if the tokens do not give the text back, so that nats of theirs are none of its bytes."""

    words: int
    bytes: int | None


class Part(ABC):
    """Examples of one kind in a split, scored as one slice; a batch never mixes parts."""

    name: str
    seq_len: int
    num_documents: Literal[1, 2] = 1
    vocab_size: int | None = None
    apart: bool = False
    """Whether it is a slice of its own alone, as text of another domain is, and none of those that `all` is of."""
    """How many scores a token has, where they are what fills the memory."""
    text: TextSize | None = None
    """Of what is scored, if that is running text."""

    @abstractmethod
    def __len__(self) -> int:
        """How many examples there are."""

    @abstractmethod
    def batch(self, indices: np.ndarray) -> Batch:
        """The examples at these indices."""

    def lookups(self) -> tuple[Tensor, Tensor] | None:
        """Positions (of queries, of what each must find), int64, if the task is a matter of finding."""
        return None

    def guessing(self, reachable: float) -> float:
        """The accuracy to expect if the share `reachable` is found and the rest guessed as well as can be."""
        return reachable


@dataclass(frozen=True)
class TaskData:
    """A task's examples.

    num_classes: None if tokens are labelled. metric: what is reported as the score, `accuracy` (a fraction,
    higher is better) or `loss` (nats a token). fingerprint: of the parameters and the first examples.
    majority: the share of the commonest class in the test split; None if tokens are labelled. num_documents: 2 if an
    example is a pair of them. source: where imported examples come from, and whether they stand in for others."""

    parts: Mapping[Split, tuple[Part, ...]]
    vocab_size: int
    max_len: int
    num_classes: int | None
    metric: Literal["accuracy", "loss"]
    fingerprint: str
    majority: float | None = None
    num_documents: Literal[1, 2] = 1
    source: str = ""


class TaskConfigBase(Config):
    """A task's parameters. Presets are layers of values for a whole run that suit the task, by name.

    What a preset says of its attention holds for every mixer that has the same field."""

    presets: ClassVar[Mapping[str, Mapping[str, object]]]
    default_preset: ClassVar[str] = "small"
    about: ClassVar[Mapping[str, str]] = {}
    """What some presets are, in words: those whose scores are not the task's."""

    @classmethod
    def preset(cls, kind: str, name: str | None) -> dict[str, dict[str, Any]]:
        """A preset's values by the part of a run that they belong to; the default preset without a name.

        kind: the task's name, which the values of `task` begin with. Raises: ConfigError for an unknown name."""
        name = cls.default_preset if name is None else name
        if name not in cls.presets:
            options = list(cls.presets)
            raise ConfigError(
                f"--preset: {name!r} is not one of {kind}'s presets {', '.join(options)}{did_you_mean(name, options)}"
            )
        values = {part: dict(given) for part, given in cls.presets[name].items() if isinstance(given, Mapping)}
        return {**values, "task": {"kind": kind, **values.get("task", {})}}

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        raise NotImplementedError

    def build(self) -> TaskData:
        """Make or load the examples."""
        raise NotImplementedError


def fingerprint(config: Config, parts: Mapping[Split, tuple[Part, ...]]) -> str:
    """sha256 of a task's parameters and of the first 16 examples of every part, as 16 hexadecimal digits."""
    digest = hashlib.sha256(json.dumps(identity(config), sort_keys=True).encode())
    for split in SPLITS:
        for part in parts[split]:
            batch = part.batch(np.arange(min(FINGERPRINT_EXAMPLES, len(part))))
            for tensor in (batch.tokens, batch.labels, *(() if batch.second is None else (batch.second,))):
                digest.update(tensor.to(torch.int64).numpy().astype("<i8").tobytes())
    return digest.hexdigest()[:16]

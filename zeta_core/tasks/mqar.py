"""MQAR: multi-query associative recall (Arora et al. 2023; parameters as in HazyResearch/zoology).

An example with seq_len 16, 2 pairs and vocabulary 16 (keys 1..7, values 8..15; `.` stands for filler):

    tokens   3 12  6  9  .  .  6  .  3  .  .  .  .  .  .  .
    labels   -  -  -  -  -  -  9  - 12  -  -  -  -  -  -  -

The sequence opens with key, value pairs. Each key is asked once more at an even offset behind them, in a gap slot
i = 1, 2, ... drawn without replacement with probability ~ i^(power - 1). The label sits on the asking position, and
the value does not follow there. Filler is random but never one of the example's own keys, which would be a question
without a label."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator
from torch import Tensor

from zeta_core.config import Config
from zeta_core.errors import OptionError

from .task import IGNORED, Batch, Part, Split, TaskConfigBase, TaskData, fingerprint

SLAB = 2048
"""Examples drawn at a time."""


class MqarMix(Config):
    """So many examples of one length and number of pairs."""

    seq_len: PositiveInt
    num_pairs: PositiveInt
    num_examples: PositiveInt


class MqarConfig(TaskConfigBase):
    """Multi-query associative recall: find the value that stood behind a key."""

    kind: Literal["mqar"] = "mqar"
    seq_len: PositiveInt = 64
    num_pairs: PositiveInt = 4
    vocab_size: int = Field(default=256, ge=4, multiple_of=2)
    filler: Literal["random", "zero"] = "random"
    power: PositiveFloat = 0.01
    num_train: PositiveInt = 100_000
    num_validation: PositiveInt = 1_000
    num_test: PositiveInt = 3_000
    data_seed: NonNegativeInt = 0
    train_mix: tuple[MqarMix, ...] = ()
    """Several lengths and numbers of pairs instead of one; seq_len and num_pairs are then those of the longest."""
    test_mix: tuple[MqarMix, ...] = ()

    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "small": {
            "attention": {"kind": "zeta", "top_k": 16, "num_chunks": 8},
            "model": {"d_model": 64, "num_layers": 2, "num_heads": 2},
            "training": {
                "steps": 1000,
                "batch_size": 64,
                "learning_rate": 3e-3,
                "warmup_steps": 50,
                "eval_every": 100,
            },
        },
        "paper": {
            "task": {"seq_len": 512, "num_pairs": 64, "vocab_size": 8192},
            "attention": {"kind": "zeta", "top_k": 32, "num_chunks": 8},
            "model": {"d_model": 256, "num_layers": 2, "num_heads": 2},
            "training": {
                "steps": 50_000,
                "batch_size": 128,
                "learning_rate": 1e-3,
                "warmup_steps": 1000,
                "eval_every": 500,
                "stop_at": 0.999,
            },
        },
    }

    @model_validator(mode="before")
    @classmethod
    def _longest_of_the_mix(cls, given: object) -> object:
        mix = given.get("train_mix") if isinstance(given, dict) else None
        if isinstance(given, dict) and isinstance(mix, list | tuple) and mix:
            sizes = [size for item in mix if (size := _size(item)) is not None]
            if len(sizes) == len(mix):
                seq_len, num_pairs = max(sizes)
                return {"seq_len": seq_len, "num_pairs": num_pairs, **given}
        return given

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for mix in (MqarMix(seq_len=self.seq_len, num_pairs=self.num_pairs, num_examples=1), *self.train_mix):
            self._check(mix)
        for mix in self.test_mix:
            self._check(mix)
        longest = max(
            ((mix.seq_len, mix.num_pairs) for mix in self.train_mix), default=(self.seq_len, self.num_pairs)
        )
        if longest != (self.seq_len, self.num_pairs):
            raise OptionError(
                f"seq_len={self.seq_len}, num_pairs={self.num_pairs} and train_mix (longest part {longest[0]}, "
                f"{longest[1]}) contradict each other; leave one out"
            )
        return self

    def _check(self, mix: MqarMix) -> None:
        if 4 * mix.num_pairs > mix.seq_len:
            raise OptionError(
                f"num_pairs={mix.num_pairs} with seq_len={mix.seq_len}: 4 * num_pairs must be at most seq_len; "
                f"use num_pairs={max(1, mix.seq_len // 4)} or seq_len={4 * mix.num_pairs}"
            )
        if mix.num_pairs > self.vocab_size // 2 - 1:
            raise OptionError(
                f"num_pairs={mix.num_pairs} needs as many keys, and vocab_size={self.vocab_size} has "
                f"{self.vocab_size // 2 - 1}; use vocab_size={2 * mix.num_pairs + 2} or more"
            )

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence, trained or tested."""
        return max(self.seq_len, *(mix.seq_len for mix in (*self.train_mix, *self.test_mix)), 0)

    def mixes(self, split: Split) -> tuple[MqarMix, ...]:
        """The parts of a split; validation is drawn as training is."""
        number = {"train": self.num_train, "validation": self.num_validation, "test": self.num_test}[split]
        single = (MqarMix(seq_len=self.seq_len, num_pairs=self.num_pairs, num_examples=number),)
        if split == "test":
            return self.test_mix or (self.train_mix and self._each(number)) or single
        if split == "validation":
            return self._each(number) or single
        return self.train_mix or single

    def _each(self, number: int) -> tuple[MqarMix, ...]:
        return tuple(
            MqarMix(seq_len=mix.seq_len, num_pairs=mix.num_pairs, num_examples=-(-number // len(self.train_mix)))
            for mix in self.train_mix
        )

    def build(self) -> TaskData:
        """Draw all examples (100,000 of 64 tokens take about a second)."""
        splits: tuple[Split, ...] = ("train", "validation", "test")
        parts: dict[Split, tuple[Part, ...]] = {
            split: tuple(MqarPart(self, split, mix) for mix in self.mixes(split)) for split in splits
        }
        return TaskData(
            parts=parts,
            vocab_size=self.vocab_size,
            max_len=self.longest,
            num_classes=None,
            metric="accuracy",
            fingerprint=fingerprint(self, parts),
        )


def _size(item: object) -> tuple[int, int] | None:
    """seq_len and num_pairs of a part of a mix before it is validated; None if they are not there."""
    values = item.model_dump() if isinstance(item, MqarMix) else item
    if not isinstance(values, dict):
        return None
    seq_len, num_pairs = values.get("seq_len"), values.get("num_pairs")
    return (seq_len, num_pairs) if isinstance(seq_len, int) and isinstance(num_pairs, int) else None


class Examples(NamedTuple):
    """tokens [n, seq_len]; for each pair j the position that asks for it, asked_at [n, num_pairs]."""

    tokens: np.ndarray
    asked_at: np.ndarray


class MqarPart(Part):
    """All examples of one length and number of pairs, in memory."""

    def __init__(self, config: MqarConfig, split: Split, mix: MqarMix) -> None:
        self.name = f"pairs={mix.num_pairs}" if len(config.mixes(split)) == 1 else f"{mix.seq_len}x{mix.num_pairs}"
        self.seq_len, self.num_pairs = mix.seq_len, mix.num_pairs
        slabs = [
            draw(config, split, mix, start, min(start + SLAB, mix.num_examples))
            for start in range(0, mix.num_examples, SLAB)
        ]
        self.examples = Examples(*(np.concatenate(arrays) for arrays in zip(*slabs, strict=True)))

    def __len__(self) -> int:
        return len(self.examples.tokens)

    def batch(self, indices: np.ndarray) -> Batch:
        """Tokens and labels of these examples."""
        tokens = torch.from_numpy(self.examples.tokens[indices].astype(np.int64))
        asked_at = torch.from_numpy(self.examples.asked_at[indices].astype(np.int64))
        values = tokens[:, 1 : 2 * self.num_pairs : 2]
        return Batch(tokens, torch.full_like(tokens, IGNORED).scatter_(1, asked_at, values))

    def lookups(self) -> tuple[Tensor, Tensor]:
        """Where values are asked for, and where they stand: there a convolution binds them to their keys."""
        asked_at = torch.from_numpy(self.examples.asked_at.astype(np.int64))
        return asked_at.flatten(), (2 * torch.arange(self.num_pairs) + 1).expand_as(asked_at).flatten()

    def guessing(self, reachable: float) -> float:
        """An unseen answer is one of the example's values."""
        return reachable + (1 - reachable) / self.num_pairs


def draw(config: MqarConfig, split: Split, mix: MqarMix, start: int, stop: int) -> Examples:
    """Examples start..stop-1 of a part; each depends on the parameters, the split and its index alone.

    Every example owns a fixed stretch of a Philox counter stream, keyed by what defines the examples."""
    pairs, seq_len, half = mix.num_pairs, mix.seq_len, config.vocab_size // 2
    gaps = (seq_len - 2 * pairs) // 2
    needed = (pairs, pairs, pairs, pairs, gaps, seq_len)
    words = _words(config, split, mix, start, stop, sum(needed))
    key_words, key_order, value_words, value_order, gap_words, filler = np.split(
        words, np.cumsum(needed)[:-1], axis=1
    )
    keys = 1 + _distinct(key_words, key_order, half - 1)
    values = half + _distinct(value_words, value_order, half)
    # Without replacement with weights p: the first of exponential arrival times with rates p.
    rates = np.arange(1, gaps + 1) ** (config.power - 1)
    uniform = (gap_words >> np.uint64(11)) * 2.0**-53
    arrivals = -np.log1p(-uniform) / rates
    asked_at = 2 * pairs + 2 * np.argsort(arrivals, axis=1, kind="stable")[:, :pairs]
    if config.filler == "zero":
        tokens = np.zeros((stop - start, seq_len), dtype=np.int64)
    else:
        tokens = _other_than(keys, _below(filler, config.vocab_size - pairs))
    tokens[:, 0 : 2 * pairs : 2], tokens[:, 1 : 2 * pairs : 2] = keys, values
    np.put_along_axis(tokens, asked_at, keys, axis=1)
    small = np.int16 if config.vocab_size <= np.iinfo(np.int16).max else np.int32
    return Examples(tokens.astype(small), asked_at.astype(np.int32))


def _words(config: MqarConfig, split: Split, mix: MqarMix, start: int, stop: int, needed: int) -> np.ndarray:
    """[stop - start, needed] uniform uint64."""
    defining = [config.vocab_size, config.filler, config.power, config.data_seed, mix.seq_len, mix.num_pairs, split]
    key = hashlib.sha256(json.dumps(["mqar", *defining]).encode()).digest()[:16]
    counters = -(-needed // 4)  # Philox gives four words a counter
    bits = np.random.Philox(key=int.from_bytes(key, "little"), counter=start * counters)
    return bits.random_raw((stop - start) * counters * 4).reshape(stop - start, -1)[:, :needed]


def _below(words: np.ndarray, bound: int) -> np.ndarray:
    """Uniform integers 0..bound-1; the bias is under bound / 2^32."""
    return (((words >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)


def _distinct(words: np.ndarray, order: np.ndarray, bound: int) -> np.ndarray:
    """Rows of distinct integers 0..bound-1 in random order: Floyd's sampling, then a shuffle."""
    count = words.shape[1]
    chosen = np.empty(words.shape, dtype=np.int64)
    for j in range(count):
        last = bound - count + j
        candidate = _below(words[:, j], last + 1)
        taken = (chosen[:, :j] == candidate[:, None]).any(axis=1)
        chosen[:, j] = np.where(taken, last, candidate)
    return np.take_along_axis(chosen, np.argsort(order, axis=1, kind="stable"), axis=1)


def _other_than(keys: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """For each rank r the r-th token that is none of the row's keys."""
    gaps = np.sort(keys, axis=1) - np.arange(keys.shape[1])
    below = torch.searchsorted(torch.from_numpy(gaps), torch.from_numpy(ranks), right=True)
    found: np.ndarray = ranks + below.numpy()
    return found

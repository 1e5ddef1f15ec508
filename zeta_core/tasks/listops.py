"""ListOps: nested operations on digits (Nangia and Bowman 2018; lengths as in Long Range Arena).

    [MAX 4 [MED 1 9 3 7 ] 2 ]      tokens 11 4 12 1 9 3 7 14 2 14      class 5

MED of 1 3 7 9 is the mean of the middle two, 5; the largest of 4, 5, 2 is 5. MIN, MAX, MED (an even number's middle
two are averaged and cut to an integer) and SM, the sum modulo 10. Operators and the close are one token each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from zeta_core.errors import OptionError

from .generated import GeneratedConfig, stream_key
from .listops_trees import PADDING, Shape, trees
from .store import Examples
from .store_write import Producer
from .task import Split

EACH = 0.0003
"""Seconds a full-size tree."""


class ListOpsConfig(GeneratedConfig):
    """ListOps: the value, 0 to 9, of a nested expression."""

    kind: Literal["listops"] = "listops"
    min_length: NonNegativeInt = 10
    """A tree is kept if it is longer than this, and shorter than max_length."""
    max_length: PositiveInt = 60
    max_depth: int = Field(default=10, ge=2)
    max_arguments: int = Field(default=10, ge=2)
    operator_share: float = Field(default=0.25, gt=0, lt=1)
    num_train: PositiveInt = 2_000
    num_validation: PositiveInt = 500
    num_test: PositiveInt = 500

    num_classes: ClassVar[int] = 10
    vocab_size: ClassVar[int] = 16
    filler: ClassVar[int] = PADDING
    about: ClassVar[Mapping[str, str]] = {"small": "trees of 10 to 60 tokens, where the suite has 500 to 2,000"}
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "small": {
            "attention": {"kind": "zeta", "top_k": 16, "num_chunks": 8},
            "model": {"d_model": 64, "num_layers": 2, "num_heads": 4, "form": "encoder", "pooling": "mean"},
            "training": {
                "steps": 400,
                "batch_size": 32,
                "learning_rate": 1e-3,
                "warmup_steps": 50,
                "eval_every": 100,
            },
        },
        "paper": {
            "task": {
                "min_length": 500,
                "max_length": 2000,
                "num_train": 96_000,
                "num_validation": 2_000,
                "num_test": 2_000,
            },
            "attention": {"kind": "zeta", "top_k": 32, "num_chunks": 8},
            "model": {
                "d_model": 512,
                "num_layers": 4,
                "num_heads": 8,
                "d_mlp": 1024,
                "form": "encoder",
                "pooling": "cls",
            },
            "training": {
                "steps": 5_000,
                "batch_size": 32,
                "learning_rate": 5e-4,
                "warmup_steps": 500,
                "eval_every": 500,
            },
        },
    }

    @model_validator(mode="after")
    def _has_lengths(self) -> Self:
        if self.max_length - self.min_length < 5:
            raise OptionError(
                f"max_length={self.max_length} with min_length={self.min_length}: trees are kept between them, so "
                f"max_length must be at least min_length + 5; use max_length={self.min_length + 5} or more"
            )
        return self

    @property
    def longest(self) -> int:
        """Tokens of the longest tree that is kept."""
        return self.max_length - 1

    @property
    def label(self) -> str:
        """The lengths."""
        return f"{self.min_length}-{self.max_length}"

    @property
    def producer(self) -> Producer:
        """Draws the trees."""
        return partial(_draw, self)

    @property
    def seconds_each(self) -> float:
        """Longer trees take longer."""
        return EACH * max(0.2, self.max_length / 2000)


def _draw(config: ListOpsConfig, split: Split, start: int, stop: int) -> Examples:
    """Trees start..stop-1 of a split."""
    names = ("min_length", "max_length", "max_depth", "max_arguments", "operator_share")
    shape = Shape(*(getattr(config, name) for name in names))
    return trees(shape, stream_key(config, split, *names), start, stop)

"""Pathfinder and Path-X: are two discs on the ends of one dashed snake? (Linsley et al. 2018; Long Range Arena)

    o - - - .         o  a disc, on the first tip of a snake and on the last tip of the same one: class 1
             \\
        - -   .  o    or of the other long snake: class 0
       /   \\    /     short distractors lie between
      .     . .

An image is read row by row, a token of 0..255 a pixel: 1,024 tokens for Pathfinder's 32 x 32, 16,384 for Path-X's
128 x 128. Path-X is the same picture four times as large: every length in pixels (padding, dash, thickness, margin,
disc, distance of the first tips) is four times Pathfinder's; the numbers of dashes and snakes are the same. The class
is a fair coin. How pictures are drawn: pathfinder_draw.py."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from zeta_core.errors import OptionError

from .generated import GeneratedConfig, stream_key, words_of
from .pathfinder_draw import picture
from .pathfinder_stamps import Style
from .store import Examples, pack
from .store_write import Producer
from .task import Split

EACH_HARD = 0.0022
"""Seconds a hard 32 x 32 picture."""
PAPER_COUNTS = {"num_train": 160_000, "num_validation": 20_000, "num_test": 20_000}
PAPER_MODEL = {
    "d_model": 32,
    "num_layers": 4,
    "num_heads": 4,
    "d_mlp": 32,
    "form": "encoder",
    "pooling": "mean",
}
STYLE_FIELDS = (
    "size", "padding", "contour_length", "distractor_dashes", "dash_length", "thickness", "margin", "marker_radius",
    "seed_distance", "continuity", "antialias", "contrast",
)  # fmt: skip


class SnakesConfig(GeneratedConfig):
    """What Pathfinder and Path-X have in common. Lengths in pixels, contour_length in dashes."""

    size: PositiveInt
    padding: NonNegativeInt
    contour_length: int = Field(default=14, ge=3)
    """Dashes of a long snake; a distractor has a third of them."""
    distractor_dashes: NonNegativeInt = 20
    """Of all distractors together, so that there are 20 // 4 = 5 of them beside snakes of 14 dashes."""
    dash_length: PositiveInt
    thickness: PositiveFloat
    margin: PositiveInt
    marker_radius: PositiveFloat
    seed_distance: PositiveInt
    """Between the first tips of the long snakes; the one lies at least twice as far from the border."""
    continuity: float = Field(default=1.0, ge=1)
    """1: the flattest distribution of turns."""
    antialias: PositiveInt = 2
    contrast: float = Field(default=0.75, gt=0, le=1)

    num_classes: ClassVar[int] = 2
    vocab_size: ClassVar[int] = 256

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        if self.size <= 4 * self.seed_distance:
            raise OptionError(
                f"size={self.size} with seed_distance={self.seed_distance}: a first tip lies 2 * seed_distance from "
                f"all borders; use size={4 * self.seed_distance + 1} or more, or a smaller seed_distance"
            )
        return self

    @property
    def style(self) -> Style:
        """What the pictures are drawn by."""
        short = self.contour_length // 3
        values = {name: getattr(self, name) for name in STYLE_FIELDS if name != "distractor_dashes"}
        return Style(**values, distractor_length=short, num_distractors=self.distractor_dashes // short)

    @property
    def longest(self) -> int:
        """Pixels."""
        return self.size * self.size

    @property
    def label(self) -> str:
        """The size and the dashes of a long snake."""
        return f"{self.size}x{self.size}-{self.contour_length}"

    @property
    def producer(self) -> Producer:
        """Draws the pictures."""
        return partial(_draw, self)

    @property
    def seconds_each(self) -> float:
        """Longer snakes find room more seldom; larger pictures have larger zones."""
        return EACH_HARD * max(0.15, (self.contour_length / 14) ** 3) * max(1.0, self.size / 32)


class PathfinderConfig(SnakesConfig):
    """Pathfinder: whether two discs end one dashed snake, from the pixels of 32 x 32."""

    kind: Literal["pathfinder"] = "pathfinder"
    size: PositiveInt = 32
    padding: NonNegativeInt = 1
    dash_length: PositiveInt = 2
    thickness: PositiveFloat = 0.5
    margin: PositiveInt = 1
    marker_radius: PositiveFloat = 1.5
    seed_distance: PositiveInt = 7
    num_train: PositiveInt = 160_000
    num_validation: PositiveInt = 20_000
    num_test: PositiveInt = 20_000

    shard_size: ClassVar[int] = 500
    about: ClassVar[Mapping[str, str]] = {
        "small": "16 x 16 and snakes of 3 dashes, to show that all parts run; its model stays at chance"
    }
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "small": {
            "task": {
                "size": 16,
                "seed_distance": 3,
                "contour_length": 3,
                "distractor_dashes": 0,
                "num_train": 8_000,
                "num_validation": 250,
                "num_test": 1_000,
            },
            "attention": {"kind": "zeta", "top_k": 16, "num_chunks": 8},
            "model": {"d_model": 32, "num_layers": 2, "num_heads": 2, "form": "encoder", "pooling": "mean"},
            "training": {
                "steps": 250,
                "batch_size": 32,
                "learning_rate": 3e-3,
                "warmup_steps": 25,
                "eval_every": 50,
            },
        },
        "paper": {
            "task": PAPER_COUNTS,
            "attention": {"kind": "zeta", "top_k": 32, "num_chunks": 8},
            "model": PAPER_MODEL,
            "training": {
                "steps": 62_500,
                "batch_size": 512,
                "learning_rate": 1e-3,
                "warmup_steps": 1000,
                "eval_every": 1250,
            },
        },
    }


class PathXConfig(SnakesConfig):
    """Path-X: Pathfinder at 128 x 128, every length four times as large; `small` as in Pathfinder."""

    kind: Literal["pathx"] = "pathx"
    size: PositiveInt = 128
    padding: NonNegativeInt = 4
    dash_length: PositiveInt = 8
    thickness: PositiveFloat = 2.0
    margin: PositiveInt = 4
    marker_radius: PositiveFloat = 6.0
    seed_distance: PositiveInt = 28
    num_train: PositiveInt = 160_000
    num_validation: PositiveInt = 20_000
    num_test: PositiveInt = 20_000

    shard_size: ClassVar[int] = 200
    about: ClassVar[Mapping[str, str]] = {
        "small": "snakes of 3 dashes and 40 steps, to show that all parts run; its model stays at chance"
    }
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "small": {
            "task": {
                "contour_length": 3,
                "distractor_dashes": 0,
                "num_train": 500,
                "num_validation": 50,
                "num_test": 100,
            },
            "attention": {"kind": "zeta", "top_k": 16, "num_chunks": 8},
            "model": {"d_model": 16, "num_layers": 1, "num_heads": 1, "form": "encoder", "pooling": "mean"},
            "training": {
                "steps": 40,
                "batch_size": 4,
                "learning_rate": 3e-3,
                "warmup_steps": 10,
                "eval_every": 20,
            },
        },
        "paper": {
            "task": PAPER_COUNTS,
            "attention": {"kind": "zeta", "top_k": 32, "num_chunks": 8},
            "model": PAPER_MODEL,
            "training": {
                "steps": 62_500,
                "batch_size": 512,
                "accumulate": 8,
                "learning_rate": 1e-3,
                "warmup_steps": 1000,
                "eval_every": 1250,
            },
        },
    }


def _draw(config: SnakesConfig, split: Split, start: int, stop: int) -> Examples:
    """Pictures start..stop-1 of a split, row by row."""
    key, style = stream_key(config, split, *STYLE_FIELDS), config.style
    pictures = [picture(style, words_of(key, index)) for index in range(start, stop)]
    labels = np.array([one.label for one in pictures], dtype=np.int64)
    return Examples(labels, (pack([one.image.ravel() for one in pictures]),))

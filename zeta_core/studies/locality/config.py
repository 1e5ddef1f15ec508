"""What is asked of `zeta locality`, from its layers to the grid of random points or the run it will look into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveInt, field_validator, model_serializer, model_validator
from pydantic_core.core_schema import SerializerFunctionWrapHandler

from zeta_core.config import Config, Layer
from zeta_core.errors import ConfigError, OptionError
from zeta_core.experiment import read_experiment
from zeta_core.layers import build, flags_layer, merge, settings_layer

from .. import paper
from ..train_run import resolve_device
from .points import POINTS, Points

ONLY_RANDOM = ("points", "d_ks", "seq_lens", "curves", "bits", "seeds")
"""Fields of random points, which a checkpoint's own queries and keys leave nothing to say about."""
ONLY_CHECKPOINT = ("num_examples",)


class LocalityRun(Config):
    """A grid of random points; or, with `checkpoint`, the queries and keys of a trained run."""

    kind: Literal["locality"] = "locality"
    checkpoint: str | None = None
    """A run's folder, or its id under OUT/runs."""
    points: tuple[Points, ...] = POINTS
    d_ks: tuple[Annotated[int, Field(ge=1, le=128)], ...] = (1, 2, 3, 8, 32, 64, 128)
    seq_lens: tuple[PositiveInt, ...] = (512, 2048)
    curves: tuple[Literal[1, 3, 6], ...] | None = None
    """None: all that each d_K has, 1, 3 and 6 for 3 and 1 for the others."""
    bits: tuple[Annotated[int, Field(ge=1, le=16)], ...] = (12,)
    """A dimension, of the grid that codes are taken on."""
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**32)], ...] = (0, 1, 2, 3, 4)
    num_neighbours: PositiveInt | None = None
    """None: 64 of random points, top_k of a checkpoint."""
    num_examples: PositiveInt = 32
    """Validation examples of each kind that a checkpoint is measured on."""
    device: str = "auto"

    @field_validator("points", "d_ks", "seq_lens", "curves", "bits", "seeds")
    @classmethod
    def _some_and_each_once(cls, items: tuple[object, ...] | None) -> tuple[object, ...] | None:
        if items is not None and not items:
            raise OptionError("must name at least one")
        repeated = [item for number, item in enumerate(items or ()) if items and item in items[:number]]
        if repeated:
            raise OptionError(f"{repeated[0]} is there twice; name it once")
        return items

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if self.checkpoint is not None:
            return self
        if self.neighbours >= min(self.seq_lens):
            raise OptionError(
                f"num_neighbours={self.neighbours} must be less than the shortest of seq_lens, {min(self.seq_lens)}; "
                f"use num_neighbours={max(1, min(self.seq_lens) - 1)} or fewer, or longer ones"
            )
        for curves in self.curves or ():
            if curves > 1 and 3 not in self.d_ks:
                raise OptionError(f"curves={curves} needs d_k=3, which d_ks has not; add 3 to it or use curves=1")
            if curves > self.neighbours:
                raise OptionError(f"curves={curves} cannot share num_neighbours={self.neighbours}; use more of them")
        for d_k in self.d_ks:
            if not self.curves_of(d_k):
                raise OptionError(
                    f"d_k={d_k} of d_ks has none of curves={', '.join(map(str, self.curves or ()))}: 3 and 6 are for "
                    "d_k=3; add 1 to curves or use d_ks=3 alone"
                )
        return self

    @model_serializer(mode="wrap")
    def _what_applies(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        out = ("checkpoint", *ONLY_CHECKPOINT) if self.checkpoint is None else ONLY_RANDOM
        return {name: value for name, value in handler(self).items() if name not in out}

    @property
    def neighbours(self) -> int:
        """How many neighbours of a random point are counted."""
        return self.num_neighbours or paper.LOCALITY_NEIGHBOURS

    def curves_of(self, d_k: int) -> tuple[int, ...]:
        """The numbers of curves measured at a d_K."""
        able = (1, 3, 6) if d_k == 3 else (1,)
        return tuple(curves for curves in self.curves or able if curves in able and curves <= self.neighbours)

    def resolved(self) -> LocalityRun:
        """The same with each `auto` replaced by what it means here. Raises: DeviceError."""
        changes: dict[str, Any] = {"device": str(resolve_device(self.device))}
        if self.checkpoint is None:
            changes["num_neighbours"] = self.neighbours
        return LocalityRun.model_validate({**self.model_dump(), **changes})


def make_locality(
    *,
    config: Path | None = None,
    settings: Sequence[str] = (),
    flags: Mapping[str, tuple[str, object]] | None = None,
) -> LocalityRun:
    """The run, resolved: flags over settings over the file over the defaults.

    Raises: ConfigError with a line for everything that is wrong; DeviceError."""
    file = read_experiment(config).layer if config is not None else Layer()
    given = merge([file, settings_layer(settings), flags_layer(flags or {})])
    run = build(LocalityRun, given)
    idle = ONLY_CHECKPOINT if run.checkpoint is None else ONLY_RANDOM
    why = (
        "needs a checkpoint; add --checkpoint RUN or leave it out"
        if run.checkpoint is None
        else "is for random points, and a checkpoint has its own queries and keys; leave it out"
    )
    if lines := [f"{given.origins[name,]}: {name} {why}" for name in idle if name in given.values]:
        raise ConfigError(*lines)
    return run.resolved()

"""What is asked of `zeta bench`, from its layers to the rows it will time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

import torch
from pydantic import Field, PositiveFloat, PositiveInt, field_validator, model_validator

from zeta_core.config import Config, Layer, kinds
from zeta_core.errors import ConfigError, OptionError
from zeta_core.experiment import read_experiment
from zeta_core.layers import build, defaults_layer, did_you_mean, flags_layer, merge, settings_layer
from zeta_core.ops.attend import Score

from ..train_run import resolve_device, resolve_dtype
from .case import MODES, Dtype, Mode, Points, Shape, Timing
from .measure import Request
from .presets import BY_DEFAULT, PRESETS, PROVIDERS, grids
from .providers import AnyProvider, Provider

OPTIONS = ("d_k", "top_k", "num_chunks", "score", "history_mean", "points")
"""Fields that only some providers read."""


class BenchRun(Config):
    """One grid of rows: every provider at every length, in every mode and timing."""

    kind: Literal["bench"] = "bench"
    preset: str = "default"
    seq_lens: tuple[PositiveInt, ...] = (4096,)
    providers: tuple[str, ...] = BY_DEFAULT
    batch: PositiveInt = 1
    heads: PositiveInt = 8
    d_k: int = Field(default=3, ge=1, le=128)
    d_v: PositiveInt = 64
    top_k: PositiveInt = 32
    num_chunks: PositiveInt = 8
    score: Score = "cauchy"
    history_mean: bool = True
    causal: bool = True
    points: tuple[Points, ...] = ("random",)
    """Where queries and keys lie, for providers with coordinates."""
    modes: tuple[Mode, ...] = MODES
    timings: tuple[Timing, ...] = ("eager",)
    dtype: Literal["auto"] | Dtype = "auto"
    """Of values; coordinates are fp32. auto: bf16 on a GPU that has it, else fp32."""
    device: str = "auto"
    budget_s: PositiveFloat = 0.5
    """Seconds that the repeats of one row may take."""
    timeout_s: PositiveFloat = 300.0
    """Seconds after which a row is given up."""
    seed: int = Field(default=0, ge=0, lt=2**32)

    @field_validator("providers")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in PROVIDERS:
                raise OptionError(
                    f"{name!r} is not one of the providers {', '.join(PROVIDERS)}{did_you_mean(name, PROVIDERS)}"
                )
        return names

    @field_validator("seq_lens", "providers", "points", "modes", "timings")
    @classmethod
    def _some_and_each_once(cls, items: tuple[object, ...]) -> tuple[object, ...]:
        if not items:
            raise OptionError("must name at least one")
        repeated = [item for number, item in enumerate(items) if item in items[:number]]
        if repeated:
            raise OptionError(f"{repeated[0]} is there twice; name it once")
        return items

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        shortest = min(self.seq_lens)
        if self.num_chunks > shortest and any("num_chunks" in provider.uses for provider in self.built()):
            raise OptionError(
                f"num_chunks={self.num_chunks} is more than the shortest of seq_lens, {shortest}; use fewer chunks"
            )
        return self

    def built(self) -> list[Provider]:
        """The providers, in order."""
        types = kinds(AnyProvider)
        found = [types[name].model_validate({"kind": name}) for name in self.providers]
        return [provider for provider in found if isinstance(provider, Provider)]

    def resolved(self) -> BenchRun:
        """The same with each `auto` replaced by what it means here. Raises: DeviceError."""
        device = resolve_device(self.device)
        changes = {"device": str(device), "dtype": resolve_dtype(self.dtype, device)}
        return BenchRun.model_validate({**self.model_dump(), **changes})

    def shape(self, seq_len: int, points: Points) -> Shape:
        """The sizes of one row; the run must be resolved."""
        assert self.dtype != "auto"
        return Shape(
            seq_len=seq_len,
            batch=self.batch,
            heads=self.heads,
            d_k=self.d_k,
            d_v=self.d_v,
            top_k=self.top_k,
            num_chunks=self.num_chunks,
            score=self.score,
            history_mean=self.history_mean,
            causal=self.causal,
            points=points,
            dtype=self.dtype,
            seed=self.seed,
        )

    def requests(self) -> Iterator[Request]:
        """The rows, provider by provider, short ones first; eager before graph, which takes its memory from there."""
        for provider in self.built():
            points = self.points if "points" in provider.uses else self.points[:1]
            for seq_len in sorted(self.seq_lens):
                for kind in points:
                    for mode in self.modes:
                        for timing in sorted(self.timings):
                            yield Request(provider, self.shape(seq_len, kind), mode, timing, self.budget_s)


def make_bench(
    *,
    preset: str | None = None,
    config: Path | None = None,
    settings: Sequence[str] = (),
    flags: Mapping[str, tuple[str, object]] | None = None,
) -> tuple[BenchRun, ...]:
    """The grids to time, resolved: flags over settings over the file over each of the preset's grids.

    Raises: ConfigError with a line for everything that is wrong; DeviceError."""
    file = read_experiment(config).layer if config is not None else Layer()
    name = preset or str(file.values.get("preset", "default"))
    if name not in PRESETS:
        origin = "--preset" if preset else f"{file.origins[('preset',)]}: preset"
        raise ConfigError(f"{origin} {name!r} is not one of {', '.join(PRESETS)}{did_you_mean(name, PRESETS)}")
    typed: dict[str, tuple[str, object]] = {**(flags or {}), "--preset": ("preset", preset)}
    given = merge([file, settings_layer(settings), flags_layer(typed)])
    device = given.values.get("device", "auto")
    gpu = isinstance(device, str) and resolve_device(device).type == "cuda"
    runs = [build(BenchRun, merge([defaults_layer(grid), given])) for grid in grids(name, gpu)]
    for option in OPTIONS:
        where = given.origins.get((option,))
        if where and not any(option in provider.uses for run in runs for provider in run.built()):
            names = ", ".join(dict.fromkeys(name for run in runs for name in run.providers))
            able = [kind for kind, provider in kinds(AnyProvider).items() if option in getattr(provider, "uses", ())]
            raise ConfigError(f"{where}: none of {names} has {option}; leave it out or add one of {', '.join(able)}")
    # Flags may make grids equal: each is timed once.
    return tuple(dict.fromkeys(run.resolved() for run in runs))


def torch_device(run: BenchRun) -> torch.device:
    """The device of a resolved run."""
    return torch.device(run.device)

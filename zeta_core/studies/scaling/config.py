"""What is asked of the scaling study, and the settings that it makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, PositiveInt, field_validator, model_validator

from zeta_core.config import Config, Layer
from zeta_core.errors import OptionError
from zeta_core.experiment import read_experiment
from zeta_core.layers import build, merge

from ..train_run import EXCLUSIVE, TrainRun, run_layer

Sharing = Literal["none", "fsdp", "runs"]


class ScalingRun(Config):
    """Systems and lengths by the number of processes, each on a GPU of its own.

    sharing: `none` and `fsdp` share one run, copied (DDP) or cut (FSDP2), with the same batch whatever the number is;
    `runs` trains a run for each of `seeds`, `jobs` at a time a process."""

    kind: Literal["scaling"] = "scaling"
    processes: tuple[PositiveInt, ...] = (1, 2)
    sharing: tuple[Sharing, ...] = ("none", "fsdp")
    attentions: tuple[str, ...] = ("softmax", "zeta")
    variants: dict[str, dict[str, Any]] = Field(default={"": {}})
    """By name, what is changed in the base."""
    seeds: tuple[int, ...] = tuple(range(8))
    jobs: PositiveInt = 1
    timeout_s: float = Field(default=3600.0, gt=0)
    """Seconds after which a setting is given up."""
    base: dict[str, Any]
    """Values of the run: its task's defaults, changed."""

    @field_validator("processes", "sharing", "attentions", "seeds")
    @classmethod
    def _some_and_each_once(cls, items: tuple[object, ...]) -> tuple[object, ...]:
        if not items or len(set(items)) < len(items):
            raise OptionError("must name at least one, and each once")
        return items

    @model_validator(mode="after")
    def _one_process_first(self) -> Self:
        if self.processes[0] != 1:
            raise OptionError(
                f"processes={list(self.processes)}: the first must be 1, which others are compared with"
            )
        return self


@dataclass(frozen=True)
class Setting:
    """One measurement: a resolved run, and who trains it how."""

    run: TrainRun
    name: str
    processes: int
    sharing: Sharing
    seeds: tuple[int, ...] = ()
    jobs: int = 1

    @property
    def baseline(self) -> bool:
        """Whether others are compared with it."""
        return self.processes == 1


def make_scaling(config: Path) -> tuple[ScalingRun, list[Setting]]:
    """The study from its file, and all settings, each validated; of one process before those of several.

    Raises: ConfigError with a line for everything that is wrong."""
    file = read_experiment(config).layer
    scaling = build(ScalingRun, file)
    inner = {path[1:]: where for path, where in file.origins.items() if path[0] == "base" and len(path) > 1}
    base = Layer(dict(scaling.base), inner)
    settings = [
        setting
        for name, change in scaling.variants.items()
        for kind in scaling.attentions
        for setting in _settings(scaling, base, name, change, kind, str(config))
    ]
    return scaling, settings


def _settings(
    scaling: ScalingRun, base: Layer, name: str, change: dict[str, Any], kind: str, file: str
) -> Iterator[Setting]:
    """One system at one length, by processes."""
    changed = merge([base, Layer(dict(change))], EXCLUSIVE)
    flags = {"attentions": ("attention.kind", kind)}
    layer = run_layer(None, changed, file, preset=None, settings=(), flags=flags)
    most = max(scaling.processes)
    for processes in scaling.processes:
        for sharing in scaling.sharing:
            if sharing == "runs":
                run = build(TrainRun, layer).resolved()
                yield Setting(run, name, processes, sharing, scaling.seeds, scaling.jobs * processes)
            elif sharing == "none" or processes > 1:
                # The same batch in as many parts whatever the number of processes is: what each holds is as large.
                training = {"accumulate": -(-most // processes), "sharding": sharing}
                run = build(TrainRun, merge([layer, Layer({"training": training})])).resolved()
                yield Setting(run, name, processes, sharing)

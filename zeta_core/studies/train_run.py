"""The configuration of one training run, from the layers it is given in to what this machine makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

import torch
from pydantic import Field, model_validator

from zeta_core.attention import AttentionConfig
from zeta_core.attention.mixer import MixerConfig
from zeta_core.config import Config, Layer, kinds
from zeta_core.errors import ConfigError, DeviceError, OptionError
from zeta_core.experiment import read_experiment
from zeta_core.layers import build, defaults_layer, did_you_mean, flags_layer, merge, overridden, settings_layer
from zeta_core.model import ModelConfig
from zeta_core.ops.impl import Impl, resolve_impl
from zeta_core.tasks import TaskConfig, TaskConfigBase
from zeta_core.training import TrainingConfig

Dtype = Literal["auto", "fp32", "bf16", "fp16"]
EXCLUSIVE = (("attention.num_chunks", "attention.chunk_size"),)


class TrainRun(Config):
    """Everything that one training run depends on."""

    kind: Literal["train"] = "train"
    task: TaskConfig
    attention: AttentionConfig
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    seed: int = Field(default=0, ge=0, lt=2**32)
    device: str = "auto"
    dtype: Dtype = "auto"
    """The type computed in; parameters stay fp32. auto: bf16 on a GPU that has it, else fp32."""
    impl: Impl = "auto"

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        d_model, num_heads = self.model.d_model, self.model.num_heads
        if d_model % num_heads:
            fits = min(
                (heads for heads in range(1, d_model + 1) if not d_model % heads), key=lambda n: abs(n - num_heads)
            )
            raise OptionError(f"d_model={d_model} is not divisible by num_heads={num_heads}; use num_heads={fits}")
        if self.training.sharding == "fsdp" and self.dtype == "fp16":
            raise OptionError("training.sharding='fsdp' has no loss scaling, which dtype='fp16' needs; use bf16")
        chunks, seq_len = getattr(self.attention, "num_chunks", None), self.task.longest
        if chunks is not None and chunks > seq_len:
            raise OptionError(f"num_chunks={chunks} is more than the task's seq_len={seq_len}; use at most {seq_len}")
        self.check_mixer(self.attention)
        return self

    def check_mixer(self, attention: MixerConfig) -> None:
        """Raises: OptionError if this mixer has not the form that the model has, or not for the task's lengths."""
        seq_len = self.task.longest + (self.model.pooling == "cls")
        attention.check(causal=self.model.is_causal, seq_len=seq_len)

    def resolved(self) -> TrainRun:
        """The same with each `auto` replaced by what it means here.

        Raises: DeviceError if the device, the dtype or the implementation is not there."""
        device = resolve_device(self.device)
        impl = resolve_impl(self.impl, device)
        changes = {"device": str(device), "dtype": resolve_dtype(self.dtype, device), "impl": impl}
        return TrainRun.model_validate({**self.model_dump(), **changes})


def resolve_device(name: str) -> torch.device:
    """The device a name means; auto: a CUDA GPU if there is one, else the CPU. Raises: DeviceError."""
    there = ["cpu"] + [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        there.append("mps")
    if name == "auto":
        return torch.device("cuda" if len(there) > 1 and there[1] == "cuda:0" else "cpu")
    if name == "cuda" and "cuda:0" in there:
        return torch.device("cuda")
    if name not in there:
        raise DeviceError(f"device={name!r} is not there; this machine has {', '.join(there)}")
    return torch.device(name)


def resolve_dtype(dtype: Dtype, device: torch.device) -> Dtype:
    """The dtype computed in on a device. Raises: DeviceError if it cannot."""
    if dtype == "auto":
        return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "fp32"
    if dtype == "fp16" and device.type != "cuda":
        raise DeviceError(f"dtype='fp16' needs a CUDA GPU, not device={str(device)!r}; use bf16 or fp32")
    return dtype


def make_run(
    task: str | None = None,
    *,
    config: Path | None = None,
    preset: str | None = None,
    settings: Sequence[str] = (),
    flags: Mapping[str, tuple[str, object]] | None = None,
) -> TrainRun:
    """A run from its layers: flags over settings over the file over the task's defaults.

    task: a task's kind; may be left out with a file that names one. preset: which of the task's defaults.
    settings: `a.b=VALUE` texts. flags: each flag with the dotted path it sets and its value.
    Raises: ConfigError with a line for everything that is wrong."""
    file = read_experiment(config).layer if config is not None else Layer()
    return build(TrainRun, run_layer(task, file, str(config), preset=preset, settings=settings, flags=flags or {}))


def run_layer(
    task: str | None,
    file: Layer,
    file_name: str,
    *,
    preset: str | None,
    settings: Sequence[str],
    flags: Mapping[str, tuple[str, object]],
) -> Layer:
    """The merged values of a run, not yet validated; arguments as of `make_run`, the file already read.

    Raises: ConfigError if no task is named, or none of that name, or two."""
    named = _named_task(file)
    known = kinds(TaskConfig)
    if task is None and named is None:
        hint = f"{file_name}: names no task; add `task: {{kind: mqar}}` or" if file.values else "no TASK given;"
        raise ConfigError(f"{hint} name one of {', '.join(known)}")
    if task is not None and task not in known:
        raise ConfigError(f"TASK {task!r} is not one of {', '.join(known)}{did_you_mean(task, known)}")
    if task is not None and named is not None and task != named:
        raise ConfigError(
            f"TASK {task!r} is not the one of {file_name}, {named!r}; leave TASK out or choose another file"
        )
    kind = task or str(named)
    if kind not in known:
        where = file.origins.get(("task", "kind"), file_name)
        raise ConfigError(
            f"{where}: task.kind={kind!r}: must be one of {', '.join(known)}{did_you_mean(kind, known)}"
        )
    # A kind resets its part: below the settings, `--attention X` leaves them in place for X to judge.
    chosen = flags_layer({flag: given for flag, given in flags.items() if given[0].endswith(".kind")})
    above = merge([file, chosen, settings_layer(settings), flags_layer(flags)], EXCLUSIVE)
    return merge([_defaults(known[kind], kind, preset, above), above], EXCLUSIVE)


def dropped_settings(settings: Sequence[str], flags: Mapping[str, tuple[str, object]]) -> list[str]:
    """A line for each `--set` of a command line that does nothing, since one of its flags says otherwise."""
    return overridden(settings_layer(settings), flags_layer(flags), EXCLUSIVE)


def _named_task(file: Layer) -> str | None:
    part = file.values.get("task")
    kind = part.get("kind") if isinstance(part, dict) else None
    return kind if isinstance(kind, str) else None


def _defaults(config_type: type[Config], kind: str, preset: str | None, above: Layer) -> Layer:
    """The task's defaults. For another mixer than theirs, those of its fields that this one has too."""
    assert issubclass(config_type, TaskConfigBase)
    values = config_type.preset(kind, preset)
    part, mixers = above.values.get("attention"), kinds(AttentionConfig)
    mixer = part.get("kind") if isinstance(part, dict) else None
    if isinstance(mixer, str) and mixer in mixers:
        fields = mixers[mixer].model_fields
        shared = {field: value for field, value in values.get("attention", {}).items() if field in fields}
        values["attention"] = {**shared, "kind": mixer}
    return defaults_layer(values) if preset is None else defaults_layer(values, f"--preset {preset}")

"""Each mistake in a configuration is one line: where it was given, its path, the rule it breaks."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pytest
from pydantic import Field, field_validator, model_validator

from zeta_core.config import Config, read_yaml
from zeta_core.errors import ConfigError, OptionError
from zeta_core.layers import (
    Layer,
    build,
    defaults_layer,
    flags_layer,
    merge,
    settings_layer,
)


class Zeta(Config):
    kind: Literal["zeta"] = "zeta"
    d_k: int = Field(3, ge=1, le=128)
    top_k: int = 32
    curves: int = 1
    num_chunks: int | None = None
    chunk_size: int | None = None
    score: Literal["cauchy", "negative_euclidean"] = "cauchy"
    gamma: float | Literal["trained"] = "trained"

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        if self.top_k % self.curves:
            raise OptionError(f"top_k={self.top_k} is not divisible by curves={self.curves}")
        if self.num_chunks and self.chunk_size:
            raise ValueError("num_chunks and chunk_size exclude each other; give one")
        return self


class Softmax(Config):
    kind: Literal["softmax"] = "softmax"
    scale: float = 1.0


AnyAttention = Annotated[Zeta | Softmax, Field(discriminator="kind")]


class Model(Config):
    d_model: int = Field(64, ge=1)
    kernel: int = 3
    tied: bool = True
    name: str = "decoder"

    @field_validator("d_model")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


class Run(Config):
    attention: AnyAttention = Zeta()
    model: Model = Model()
    others: tuple[AnyAttention, ...] = ()
    mix: tuple[tuple[int, int], ...] = ()
    extra: AnyAttention | None = None
    rate: float = Field(1e-3, gt=0)
    seed: int = 0

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.seed == 13:
            raise ConfigError("seed=13 is unlucky", "and so is kernel=3")
        if self.seed == 14:
            raise ValueError("this\nnames nothing")
        assert self.seed != 15, "our own mistake"
        return self


def lines(layer: Layer, config_type: type[Config] = Run) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        build(config_type, layer)
    return caught.value.lines


def from_file(folder: Path, text: str) -> Layer:
    path = folder / "exp.yaml"
    path.write_text(text)
    layer = read_yaml(path)
    return Layer(layer.values, {key: origin.replace(f"{folder}/", "") for key, origin in layer.origins.items()})


def kinded(**values: Any) -> dict[str, Any]:
    return {"attention": {"kind": "zeta", **values}}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("model:\n  kernal: 3", "exp.yaml:2:3: model.kernal: unknown field (did you mean 'kernel'?)"),
        ("sed: 1", "exp.yaml:1:1: sed: unknown field (did you mean 'seed'?)"),
        (
            "attention: {kind: zeta, scor: 1}",
            "exp.yaml:1:25: attention.scor: unknown field of zeta attention (did you mean 'score'?)",
        ),
        (
            "model: {xyzzy: 1}",
            "exp.yaml:1:9: model.xyzzy: unknown field (the fields are d_model, kernel, tied, name)",
        ),
        (
            "model.kernel: 3",
            "exp.yaml:1:1: model.kernel: unknown field (write the part before each dot as a mapping of its own)",
        ),
        ("seed: abc", "exp.yaml:1:1: seed: must be a whole number, not text 'abc'"),
        ("seed: '3'", "exp.yaml:1:1: seed: must be a whole number, not text '3'"),
        ("seed: true", "exp.yaml:1:1: seed: must be a whole number, not true"),
        ("seed: 3.0", "exp.yaml:1:1: seed: must be a whole number, not 3.0"),
        ("seed:", "exp.yaml:1:1: seed: must be a whole number, not null"),
        ("rate: [1]", "exp.yaml:1:1: rate: must be a number, not a list"),
        ("rate: .nan", "exp.yaml:1:1: rate=nan: must be a finite number"),
        ("rate: 1e400", "exp.yaml:1:1: rate=inf: must be a finite number"),
        ("rate: 0", "exp.yaml:1:1: rate=0: must be more than 0"),
        ("model: {tied: no}", "exp.yaml:1:9: model.tied: must be true or false, not text 'no'"),
        ("model: {name: 3}", "exp.yaml:1:9: model.name: must be text, not 3"),
        ("model: 3", "exp.yaml:1:1: model: must be a mapping of fields, not 3"),
        ("mix: 3", "exp.yaml:1:1: mix: must be a list, not 3"),
        ("mix: [[1, 2], [3, x]]", "exp.yaml:1:19: mix.1.1: must be a whole number, not text 'x'"),
        ("mix: [[1]]", "exp.yaml:1:7: mix.0.1: is required and was not given"),
        ("mix: [[1, 2, 3]]", "exp.yaml:1:7: mix.0=[1, 2, 3]: must have at most 2 items, not 3"),
        ("attention: {kind: zeta, d_k: 200}", "exp.yaml:1:25: attention.d_k=200: must be at most 128"),
        (
            "attention: {kind: zota}",
            "exp.yaml:1:13: attention.kind='zota': must be one of 'zeta', 'softmax' (did you mean 'zeta'?)",
        ),
        ("attention: {kind: 3}", "exp.yaml:1:13: attention.kind=3: must be one of 'zeta', 'softmax'"),
        (
            "attention: {d_k: 3}",
            "exp.yaml:1:1: attention.kind: is required and must be one of 'zeta', 'softmax'",
        ),
        (
            "attention: {kind: zeta, score: cauchi}",
            "exp.yaml:1:25: attention.score='cauchi': must be one of 'cauchy', 'negative_euclidean' "
            "(did you mean 'cauchy'?)",
        ),
        (
            "attention: {kind: zeta, gamma: half}",
            "exp.yaml:1:25: attention.gamma='half': must be a number or 'trained'",
        ),
        ("others: [{kind: zeta}, {kind: zeta, d_k: 0}]", "exp.yaml:1:37: others.1.d_k=0: must be at least 1"),
        ("extra: {kind: softmax, scale: x}", "exp.yaml:1:24: extra.scale: must be a number, not text 'x'"),
        ("model: {d_model: 3}", "exp.yaml:1:9: model.d_model=3: must be even"),
        (
            "attention: {kind: zeta, d_k: 2, top_k: 5, curves: 3}",
            "exp.yaml:1:33, exp.yaml:1:43: top_k=5 is not divisible by curves=3",
        ),
        ("seed: 14", "exp.yaml:1:1: this names nothing"),
    ],
    ids=lambda value: value[:30] if not value.startswith("exp.yaml") else "",
)
def test_each_mistake_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    assert lines(from_file(tmp_path, text)) == (line,)


def test_lines_say_which_flag_or_setting() -> None:
    flag = merge([defaults_layer(kinded()), flags_layer({"--dk": ("attention.d_k", 200)})])
    assert lines(flag) == ("--dk: attention.d_k=200: must be at most 128",)
    setting = merge([defaults_layer(kinded()), settings_layer(["attention.d_k=200", "attention.scor=1"])])
    assert lines(setting) == (
        "--set attention.d_k=200: must be at most 128",
        "--set attention.scor: unknown field of zeta attention (did you mean 'score'?)",
    )
    inside = merge([defaults_layer(kinded()), settings_layer(["attention={kind: zeta, d_k: 200}"])])
    assert lines(inside) == ("--set attention: attention.d_k=200: must be at most 128",)
    unknown = settings_layer(["modl.kernel=3"])
    assert lines(unknown) == ("--set modl.kernel: modl: unknown field (did you mean 'model'?)",)


def test_fields_of_several_origins_are_all_named(tmp_path: Path) -> None:
    file = from_file(tmp_path, "attention: {top_k: 5, d_k: 2}\n")
    merged = merge([defaults_layer(kinded()), file, flags_layer({"--curves": ("attention.curves", 3)})])
    assert lines(merged) == ("exp.yaml:1:13, --curves: top_k=5 is not divisible by curves=3",)
    assert lines(defaults_layer(kinded(top_k=5, curves=3))) == ("defaults: top_k=5 is not divisible by curves=3",)


def test_an_error_of_several_lines_stays_several() -> None:
    merged = merge([defaults_layer({"model": {"kernel": 3}}), flags_layer({"--seed": ("seed", 13)})])
    assert lines(merged) == ("--seed: seed=13 is unlucky", "--seed: and so is kernel=3")


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    found = lines(from_file(tmp_path, "seed: x\nrate: -1\nmodel: {kernal: 1, tied: 1}\n"))
    assert [line.split(":")[3].strip().split("=")[0] for line in found] == [
        "model.tied",
        "model.kernal",
        "rate",
        "seed",
    ]


def test_a_missing_field_has_no_origin() -> None:
    class Needy(Config):
        steps: int

    assert lines(Layer(), Needy) == ("steps: is required and was not given",)


def test_our_own_mistake_stays_an_assertion() -> None:
    with pytest.raises(AssertionError, match="our own mistake"):
        build(Run, settings_layer(["seed=15"]))


def test_long_values_are_cut() -> None:
    (line,) = lines(settings_layer([f"attention={{kind: {'x' * 500}}}"]))
    assert len(line) < 200

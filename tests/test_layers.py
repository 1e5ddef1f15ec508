"""Precedence: what a higher layer replaces, resets and removes, and where each value came from."""

from pathlib import Path
from typing import Annotated, Literal, Self

import pytest
from pydantic import Field, model_validator

from zeta_core.config import Config, read_yaml
from zeta_core.errors import ConfigError
from zeta_core.layers import (
    Layer,
    build,
    defaults_layer,
    did_you_mean,
    differences,
    flags_layer,
    merge,
    settings_layer,
)


class Zeta(Config):
    kind: Literal["zeta"] = "zeta"
    top_k: int = 32
    num_chunks: int | None = None
    chunk_size: int | None = None

    @model_validator(mode="after")
    def _one_chunking(self) -> Self:
        if self.num_chunks and self.chunk_size:
            raise ValueError("num_chunks and chunk_size exclude each other; give one")
        return self


class Softmax(Config):
    kind: Literal["softmax"] = "softmax"


class Run(Config):
    attention: Annotated[Zeta | Softmax, Field(discriminator="kind")] = Zeta()
    seed: int = 0


def lines(layer: Layer, config_type: type[Config] = Run) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        build(config_type, layer)
    return caught.value.lines


def from_file(folder: Path, text: str) -> Layer:
    path = folder / "exp.yaml"
    path.write_text(text)
    layer = read_yaml(path)
    return Layer(layer.values, {key: origin.replace(f"{folder}/", "") for key, origin in layer.origins.items()})


def test_flags_that_were_left_out_are_no_layer() -> None:
    layer = flags_layer({"--dk": ("attention.d_k", 3), "--seed": ("seed", 0), "--steps": ("steps", None)})
    assert layer.values == {"attention": {"d_k": 3}, "seed": 0}
    assert layer.origins == {("attention", "d_k"): "--dk", ("seed",): "--seed"}
    assert flags_layer({}) == Layer()


def test_two_flags_for_one_path_are_our_mistake() -> None:
    with pytest.raises(AssertionError, match="--seed"):
        flags_layer({"--seed": ("seed", 1), "--start": ("seed", 2)})


def test_settings_are_read_as_yaml() -> None:
    layer = settings_layer(["attention.d_k=3", "task.mix=[[64, 4]]", " rate = 1e-3", "a.b=no", "c=a=b", "d=null"])
    assert layer.values == {
        "attention": {"d_k": 3},
        "task": {"mix": [[64, 4]]},
        "rate": 1e-3,
        "a": {"b": "no"},
        "c": "a=b",
        "d": None,
    }
    assert layer.origins["attention", "d_k"] == "--set attention.d_k"


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (["seed"], "--set seed: has no value; write --set seed=VALUE (null for none)"),
        (["seed="], "--set seed=: has no value; write --set seed=VALUE (null for none)"),
        (["=3"], "--set =3: part of the path before '=' is empty; write --set a.b=VALUE"),
        (["a..b=3"], "--set a..b=3: part of the path before '=' is empty; write --set a.b=VALUE"),
        ([""], "--set : part of the path before '=' is empty; write --set a.b=VALUE"),
        (["seed=1", "seed=1"], "--set seed: given twice; keep one"),
        (["a.b=1", "a={b: 2}"], "--set a: overlaps with --set a.b; keep one"),
        (["a=1", "a.b=2"], "--set a.b: overlaps with --set a; keep one"),
        (["a=[1"], "--set a=[1: expected ',' or ']', but got '<stream end>'"),
        (["a={b: 1, b: 2}"], "--set a={b: 1, b: 2}: duplicate key 'b' (first at line 1)"),
    ],
    ids=str,
)
def test_wrong_settings(settings: list[str], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_layer(settings)
    assert caught.value.lines == (line,)


def test_all_wrong_settings_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        settings_layer(["a", "b=1", "b=2", "=1"])
    assert len(caught.value.lines) == 3


def test_the_higher_layer_wins_and_origins_follow(tmp_path: Path) -> None:
    defaults = defaults_layer({"attention": {"kind": "zeta", "top_k": 16}, "seed": 5, "mix": [[1, 2]]})
    file = from_file(tmp_path, "attention: {top_k: 8, d_k: 2}\nmix: [[3, 4], [5, 6]]\n")
    merged = merge(
        [
            defaults,
            file,
            settings_layer(["attention.d_k=4"]),
            flags_layer({"--top-k": ("attention.top_k", 64)}),
        ]
    )
    assert merged.values == {
        "attention": {"kind": "zeta", "top_k": 64, "d_k": 4},
        "seed": 5,
        "mix": [[3, 4], [5, 6]],
    }
    assert merged.origins["attention", "top_k"] == "--top-k"
    assert merged.origins["attention", "d_k"] == "--set attention.d_k"
    assert merged.origins["attention", "kind"] == "defaults" == merged.origins["seed",]
    assert merged.origins["mix", "1"] == "exp.yaml:2:15"
    assert defaults.values == {"attention": {"kind": "zeta", "top_k": 16}, "seed": 5, "mix": [[1, 2]]}


def test_another_kind_resets_its_part() -> None:
    below = defaults_layer({"attention": {"kind": "zeta", "top_k": 16}, "seed": 1})
    merged = merge([below, flags_layer({"--attention": ("attention.kind", "softmax")})])
    assert merged.values == {"attention": {"kind": "softmax"}, "seed": 1}
    assert ("attention", "top_k") not in merged.origins
    assert build(Run, merged).attention == Softmax()
    again = merge([below, settings_layer(["attention.kind=zeta"])])
    assert again.values == below.values


def test_one_of_an_exclusive_group_replaces_the_others() -> None:
    group = [("attention.num_chunks", "attention.chunk_size")]
    below = defaults_layer({"attention": {"kind": "zeta", "num_chunks": 8}})
    above = settings_layer(["attention.chunk_size=64"])
    merged = merge([below, above], group)
    assert merged.values == {"attention": {"kind": "zeta", "chunk_size": 64}}
    assert ("attention", "num_chunks") not in merged.origins
    assert merge([below, settings_layer(["attention.chunk_size=null"])], group).values["attention"]["num_chunks"] == 8
    both = settings_layer(["attention.chunk_size=64", "attention.num_chunks=4"])
    assert lines(merge([below, both], group)) == (
        "--set attention.chunk_size, --set attention.num_chunks: "
        "num_chunks and chunk_size exclude each other; give one",
    )


def test_a_scalar_over_a_mapping_is_reported_where_it_was_given(tmp_path: Path) -> None:
    file = from_file(tmp_path, "attention: {kind: zeta, d_k: 200}\nseed: 1\n")
    merged = merge([file, settings_layer(["attention=zeta", "seed.x=3"])])
    assert lines(merged) == (
        "--set attention: must be a mapping of fields, not text 'zeta' (write {kind: zeta})",
        "--set seed.x: seed: must be a whole number, not a mapping",
    )


def test_build_gives_the_class_defaults() -> None:
    assert build(Run, Layer()) == Run()


def test_differences_are_paths_in_order() -> None:
    a = {"x": {"b": 1, "a": 2, "same": [1, 2]}, "gone": {"y": 1}, "n": 1, "t": True}
    b = {"x": {"a": 3, "b": 1, "same": (1, 2)}, "n": 1.0, "t": 1, "new": None}
    assert differences(a, b) == ["x.a", "gone", "n", "t", "new"]
    assert differences(a, a) == []
    assert differences({"l": [{"k": 1}]}, {"l": [{"k": 2}]}) == ["l"]


@pytest.mark.parametrize(
    ("word", "hint"),
    [("ZETA", " (did you mean 'zeta'?)"), ("sofmax", " (did you mean 'softmax'?)"), ("mamba", ""), ("", "")],
)
def test_did_you_mean(word: str, hint: str) -> None:
    assert did_you_mean(word, ["zeta", "softmax"]) == hint

"""Configuration classes are strict, ids stay what they were, and YAML says where each thing stands."""

import json
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from zeta_core.config import (
    NOT_IDENTITY,
    Config,
    TextPath,
    added_later,
    identity,
    kinds,
    parse_yaml,
    read_yaml,
    to_yaml,
    union_members,
)
from zeta_core.errors import ConfigError


class Shade(Enum):
    DARK = "dark"


class Zeta(Config):
    kind: Literal["zeta"] = "zeta"
    d_k: int = Field(3, ge=1, le=128)
    gamma: float = 0.5
    refine: int = Field(1, json_schema_extra=added_later(1))
    curves: tuple[int, ...] = Field((1,), json_schema_extra=added_later([1]))
    workers: int = Field(0, json_schema_extra=NOT_IDENTITY)


class Softmax(Config):
    kind: Literal["softmax", "sdpa"] = "softmax"
    causal: bool = True


AnyAttention = Annotated[Zeta | Softmax, Field(discriminator="kind")]


class Run(Config):
    attention: AnyAttention = Zeta()
    mix: tuple[tuple[int, int], ...] = ((64, 4),)
    folder: TextPath | None = None
    shade: Shade = Shade.DARK
    sizes: dict[str, tuple[int, ...]] = Field(default_factory=dict)


@pytest.mark.parametrize(
    "values",
    [
        {"d_k": "3"},
        {"d_k": True},
        {"d_k": 3.0},
        {"d_k": None},
        {"gamma": "0.5"},
        {"gamma": False},
        {"gamma": float("nan")},
        {"gamma": float("inf")},
        {"d_k": 129},
        {"dk": 3},
        {"curves": 1},
        {"curves": [1.0]},
    ],
    ids=str,
)
def test_wrong_types_and_names_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Zeta.model_validate(values)


@pytest.mark.parametrize("value", [1, 0, "true", "yes", None])
def test_only_true_and_false_are_bools(value: object) -> None:
    with pytest.raises(ValidationError):
        Softmax.model_validate({"causal": value})


def test_what_yaml_gives_is_accepted() -> None:
    run = Run.model_validate(
        {"attention": {"kind": "zeta", "gamma": 2}, "mix": [[1, 2]], "folder": "a/b", "sizes": {"x": [1]}}
    )
    assert run.attention == Zeta(gamma=2.0) and run.mix == ((1, 2),)
    assert run.folder == Path("a/b") and run.sizes == {"x": (1,)}
    assert Run.model_validate(run.model_dump()) == run
    with pytest.raises(ValidationError):
        run.__setattr__("mix", ())


def test_defaults_are_validated() -> None:
    class Broken(Config):
        steps: int = Field(0, ge=1)

    with pytest.raises(ValidationError):
        Broken()


def test_unions_list_their_members() -> None:
    assert union_members(AnyAttention) == (Zeta, Softmax) == union_members(AnyAttention | None)
    assert union_members(Zeta) == (Zeta,) and union_members(int | Zeta) == () == union_members(int)
    assert kinds(AnyAttention) == {"zeta": Zeta, "softmax": Softmax, "sdpa": Softmax}
    assert kinds(Run) == {}


def test_identity_leaves_out_what_keeps_old_ids() -> None:
    old = {"kind": "zeta", "d_k": 3, "gamma": 0.5}
    assert identity(Zeta()) == old == identity(Zeta(workers=8)) == identity(Zeta(refine=1, curves=(1,)))
    assert identity(Zeta(refine=2, curves=(1, 2))) == {**old, "refine": 2, "curves": [1, 2]}
    run = identity(Run(folder=Path("a"), sizes={"x": (1,)}))
    assert run == {"attention": old, "mix": [[64, 4]], "folder": "a", "shade": "dark", "sizes": {"x": [1]}}
    assert json.loads(json.dumps(run)) == run


def test_identity_does_not_depend_on_how_a_number_was_written() -> None:
    assert json.dumps(identity(Zeta(gamma=2))) == json.dumps(identity(Zeta(gamma=2.0)))


PLAIN = {
    "1e-3": 1e-3,
    "1E5": 1e5,
    "-1.5e+3": -1500.0,
    ".5": 0.5,
    "1.": 1.0,
    "3": 3,
    "+3": 3,
    "010": 10,
    "65_536": 65536,
    "0x1F": 31,
    "true": True,
    "False": False,
    "null": None,
    "~": None,
    "no": "no",
    "yes": "yes",
    "on": "on",
    "off": "off",
    "'1'": "1",
    "12:30": "12:30",
    "2024-01-01": "2024-01-01",
    "e5": "e5",
    ".": ".",
    "1_": "1_",
    "=": "=",
    "!!str 3": "3",
    "[1, [a, {b: 2.0}]]": [1, ["a", {"b": 2.0}]],
    "|\n  a\n  b": "a\nb",
}


@pytest.mark.parametrize(("text", "value"), PLAIN.items())
def test_what_text_stands_for(text: str, value: object) -> None:
    found = parse_yaml(text, "--set x")
    assert found == value and type(found) is type(value)


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "exp.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_every_key_and_item_has_its_place(tmp_path: Path) -> None:
    path = write(tmp_path, "# comment\ntask:\n  kind: mqar\n  mix: [3, {x: 4}]\n")
    layer = read_yaml(path)
    assert layer.values == {"task": {"kind": "mqar", "mix": [3, {"x": 4}]}}
    assert layer.origins == {
        ("task",): f"{path}:2:1",
        ("task", "kind"): f"{path}:3:3",
        ("task", "mix"): f"{path}:4:3",
        ("task", "mix", "0"): f"{path}:4:9",
        ("task", "mix", "1"): f"{path}:4:12",
        ("task", "mix", "1", "x"): f"{path}:4:13",
    }


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}", "null"])
def test_an_empty_file_is_an_empty_mapping(tmp_path: Path, text: str) -> None:
    assert read_yaml(write(tmp_path, text)).values == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n  seed: 1\n  x: 2\n  seed: 3", ":4:3: duplicate key 'seed' (first at line 2)"),
        ("{a: 1, a: 2}", ":1:8: duplicate key 'a' (first at line 1)"),
        ("a: [1,\nb: 2", ":2:5: expected ',' or ']', but got '<stream end>'"),
        ("a: b: c", ":1:5: mapping values are not allowed here"),
        ("a: 'x", ":1:6: found unexpected end of stream"),
        ("\tx: 1", ":1:1: found character '\\t' that cannot start any token"),
        ("a: 1\nb: \x01", ":2:4: the character '\\x01' is not allowed"),
        ("a: 1\n---\nb: 2", ":2:1: expected a single document in the stream, but found another document"),
        ("- 1", ":1:1: must be a mapping of fields (name: value), not a list"),
        ("3", ":1:1: must be a mapping of fields (name: value), not 3"),
        ("? [1]\n: 2", ":1:3: a key must be text, not a list or a mapping"),
        ("a: &x [*x]", ":1:8: aliases (*x) are not supported; write the value out"),
        ("a: &x 1\nb: *x", ":2:4: aliases (*x) are not supported; write the value out"),
        ("a: *nope", ":1:4: aliases (*nope) are not supported; write the value out"),
        ("a: !foo 3", ":1:4: the tag '!foo' is not supported; leave it out"),
        ("!!set {a, b}", ":1:1: the tag 'tag:yaml.org,2002:set' is not supported; leave it out"),
        ("a: !!int abc", ":1:4: 'abc' is not what its tag !!int says; leave it out"),
        ("a: " + "9" * 5000, ":1:4: a number of 5000 digits is too long"),
        ("[" * 5000, ":1:1: nested too deeply"),
        ("%YAML 3.0\n---\na: 1", ":1:1: found incompatible YAML document (version 1.* is required)"),
        (b"a: \xff", ": byte 3 is not UTF-8; save the file as UTF-8 text"),
        ("a: 1".encode("utf-16"), ": byte 0 is not UTF-8; save the file as UTF-8 text"),
    ],
    ids=lambda value: repr(value)[:20] if isinstance(value, str | bytes) else "",
)
def test_a_broken_file_is_one_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_yaml(path)
    assert caught.value.lines == (f"{path}{message}",)


def test_a_python_tag_runs_nothing(tmp_path: Path) -> None:
    target = tmp_path / "made"
    path = write(tmp_path, f"a: !!python/object/apply:os.mkdir ['{target}']")
    with pytest.raises(ConfigError):
        read_yaml(path)
    assert not target.exists()


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def message(path: Path) -> str:
        with pytest.raises(ConfigError) as caught:
            read_yaml(path)
        (line,) = caught.value.lines
        return line.removeprefix(str(path))

    assert message(tmp_path / "no.yaml") == ": there is no such file"
    assert message(tmp_path) == ": is a folder, not a YAML file"
    assert message(Path("a\0b")) == ": cannot be read: embedded null byte"

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert message(tmp_path / "exp.yaml") == ": cannot be read: Permission denied"


def test_a_byte_order_mark_and_windows_line_ends_are_no_matter(tmp_path: Path) -> None:
    assert read_yaml(write(tmp_path, "\ufeffa: 1\r\nb: x\r\n")).values == {"a": 1, "b": "x"}


def test_yaml_is_written_for_people_and_without_aliases() -> None:
    shared = [1, 2]
    assert to_yaml({"a": shared, "b": shared}) == "a: [1, 2]\nb: [1, 2]\n"
    values = {"b": 1e-05, "a": {"mix": ((64, 4), (8, 1)), "x": None}, "c": [{"k": "1e-3"}], "e": {}, "l": []}
    assert to_yaml(values) == ("b: 1e-05\na:\n  mix: [[64, 4], [8, 1]]\n  x: null\nc:\n- k: '1e-3'\ne: {}\nl: []\n")


text = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.sampled_from([*PLAIN, ".inf", "<<", "*a", "&a", "- a", "a: b", " a ", "a #b", "\n", "?", "%", "@"]),
)
scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | text
plain = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=10,
)


def same(a: object, b: object) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and repr(a) == repr(b)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(text, plain, max_size=4))
def test_what_is_written_reads_back_the_same(values: dict[str, Any]) -> None:
    assert same(parse_yaml(to_yaml(values), "text") or {}, values)


@settings(max_examples=300, deadline=None)
@given(st.text("abc:-[]{}#&*!|>'\"%@`, \n\t?~0.e", max_size=30))
def test_no_text_gives_a_traceback(source: str) -> None:
    try:
        parse_yaml(source, "here")
    except ConfigError as error:
        (line,) = error.lines
        assert line.startswith("here: ") and "\n" not in line

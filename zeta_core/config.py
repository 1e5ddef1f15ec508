"""The base of every configuration class, what a run id is hashed from, and YAML with line numbers."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, JsonValue, Strict, model_validator
from pydantic.config import JsonDict

from .errors import ConfigError
from .wording import describe

Values: TypeAlias = dict[str, Any]
TextPath = Annotated[Path, Strict(False)]  # a path field: strict validation would refuse the text in a file


class Config(BaseModel):
    """Base of all configuration classes: frozen, and strict about names and types.

    Text is never taken as a number, true never as 1, 3.0 never as a whole number; an int may stand for a
    float. NaN and infinity are refused, and defaults are validated like given values. Sequences are tuples.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_default=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _lists_become_tuples(cls, given: object) -> object:
        return _with_tuples(given)


def _with_tuples(value: object) -> object:
    if isinstance(value, list | tuple):
        return tuple(_with_tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: _with_tuples(item) for key, item in value.items()}
    return value


def union_members(union: object) -> tuple[type[Config], ...]:
    """The configuration classes in `Annotated[A | B, Field(discriminator="kind")]`, or the class itself.

    None is left out. Anything that is neither a Config class nor such a union gives ().
    """
    origin = get_origin(union)
    if origin is Annotated:
        return union_members(get_args(union)[0])
    if origin is Union or origin is UnionType:
        parts = [union_members(part) for part in get_args(union) if part is not NoneType]
        return tuple(member for part in parts for member in part) if all(parts) else ()
    return (union,) if isinstance(union, type) and issubclass(union, Config) else ()


def kinds(union: object) -> dict[str, type[Config]]:
    """Each literal `kind` in a union with its class, in order; a class without a `kind` is left out."""
    found: dict[str, type[Config]] = {}
    for member in union_members(union):
        declared = member.model_fields.get("kind")
        for kind in get_args(declared.annotation) if declared else ():
            found[kind] = member
    return found


NOT_IDENTITY: JsonDict = {"identity": False}  # for Field(json_schema_extra=...): never part of the run id


def added_later(value: JsonValue) -> JsonDict:
    """The `json_schema_extra` of a field that older versions did not have.

    value: what keeps the old behaviour, as JSON; the field is left out of the run id while it holds that.
    """
    return {"absent_while": value}


def identity(config: Config) -> dict[str, object]:
    """The part of a configuration that a run id is hashed from, as nested data that JSON can hold.

    Fields marked NOT_IDENTITY are left out, and fields marked `added_later(value)` while they equal value.
    """
    kept: dict[str, object] = {}
    for name, info in type(config).model_fields.items():
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        value = _json(getattr(config, name))
        if extra.get("identity") is False or ("absent_while" in extra and extra["absent_while"] == value):
            continue
        kept[name] = value
    return kept


def _json(value: object) -> object:
    if isinstance(value, Config):
        return identity(value)
    if isinstance(value, dict):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    if isinstance(value, Enum):
        return _json(value.value)
    if isinstance(value, Path):
        return value.as_posix()
    assert value is None or isinstance(value, bool | int | float | str), f"{value!r} has no JSON form"
    return value


@dataclass(frozen=True)
class Layer:
    """Values from one place (the flags, a file), or merged from several.

    values: nested plain data. origins: a path in values, and where it was given: "--dk",
    "--set attention.d_k", "exp.yaml:4:3", "defaults". Items of a list have their index, as text, in a path.
    """

    values: Values = field(default_factory=dict)
    origins: dict[tuple[str, ...], str] = field(default_factory=dict)


def read_yaml(path: Path) -> Layer:
    """Read a YAML file; each key and list item keeps its line and column.

    Returns: the file's mapping as a layer; an empty file is an empty one. `1e-3` is a float, of the words
    only true and false are bools, keys are text, and aliases and unknown tags are refused.
    Raises: ConfigError, one line, if the file cannot be read, is broken, or is no mapping.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder, not a YAML file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8 text") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    origins: dict[tuple[str, ...], str] = {}
    values = _parse(text, lambda line, column: f"{path}:{line}:{column}", origins)
    if values is None:
        return Layer()
    if not isinstance(values, dict):
        raise ConfigError(f"{path}:1:1: must be a mapping of fields (name: value), not {describe(values)}")
    return Layer(values, origins)


def parse_yaml(text: str, where: str) -> Any:
    """The value that one piece of YAML stands for, by the rules of `read_yaml`.

    where: what to call the text in messages. Raises: ConfigError, one line, if it is broken.
    """
    return _parse(text, lambda line, column: where, {})


def to_yaml(values: Values) -> str:
    """Write nested plain data as YAML that `read_yaml` reads back as it was.

    Mappings are blocks with their keys in the given order; lists without mappings stay on one line.
    """
    return yaml.dump(values, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=100)


# tag -> (which unquoted text has it, what that text stands for); the first that fits is taken
_PREFIX = "tag:yaml.org,2002:"
_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_SCALARS: dict[str, tuple[re.Pattern[str], Callable[[str], Any]]] = {
    "null": (re.compile(r"(?:|~|null|Null|NULL)\Z"), lambda text: None),
    "bool": (re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), lambda text: text.lower() == "true"),
    "int": (
        re.compile(rf"[-+]?(?:{_DIGITS}|0x[0-9a-fA-F]+|0o[0-7]+)\Z"),
        lambda text: int(text, 0 if re.match("[-+]?0[xo]", text) else 10),
    ),
    "float": (
        re.compile(
            rf"[-+]?(?:(?:\.[0-9]+|{_DIGITS}\.[0-9]*)(?:[eE][-+]?[0-9]+)?|{_DIGITS}[eE][-+]?[0-9]+|\.inf)\Z"
            r"|\.nan\Z"
        ),
        lambda text: float(text.replace(".inf", "inf").replace(".nan", "nan")),
    ),
    "str": (re.compile(""), str),
}


class _Reader(yaml.SafeLoader):
    """PyYAML's parser with our own rules for what unquoted text stands for."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            problem = f"aliases (*{self.current_event.anchor}) are not supported; write the value out"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=self.current_event.start_mark)
        return super().compose_node(parent, index)


class _Writer(yaml.SafeDumper):
    """PyYAML's writer with the reader's rules, so that text is quoted exactly where it must be."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def _list(self, items: Any) -> yaml.Node:
        node = self.represent_sequence(_PREFIX + "seq", items)
        node.flow_style = not _holds_mapping(items)
        return node

    def _mapping(self, data: Any) -> yaml.Node:
        return self.represent_mapping(_PREFIX + "map", data, flow_style=not data)

    def _text(self, text: str) -> yaml.Node:
        quotes = None if text.isprintable() else '"'  # PyYAML loses unusual line ends in its other styles
        return self.represent_scalar(_PREFIX + "str", text, style=quotes)

    def _float(self, number: float) -> yaml.Node:
        text = repr(number).replace("inf", ".inf").replace("nan", ".nan")
        return self.represent_scalar(_PREFIX + "float", text)


_RESOLVERS = {None: [(_PREFIX + tag, pattern) for tag, (pattern, _) in _SCALARS.items()]}
_Reader.yaml_implicit_resolvers = _RESOLVERS
_Writer.yaml_implicit_resolvers = _RESOLVERS
_Writer.add_representer(list, _Writer._list)
_Writer.add_representer(tuple, _Writer._list)
_Writer.add_representer(dict, _Writer._mapping)
_Writer.add_representer(str, _Writer._text)
_Writer.add_representer(float, _Writer._float)


def _holds_mapping(value: object) -> bool:
    if isinstance(value, list | tuple):
        return any(_holds_mapping(item) for item in value)
    return isinstance(value, dict) and bool(value)


def _parse(text: str, where: Callable[[int, int], str], origins: dict[tuple[str, ...], str]) -> Any:
    """Parse text and fill in `origins`; where(line, column) names a place, both counted from 1."""

    def at(node: yaml.Node | yaml.Mark) -> str:
        mark = node if isinstance(node, yaml.Mark) else node.start_mark
        return where(mark.line + 1, mark.column + 1)

    def plain(node: yaml.Node, path: tuple[str, ...]) -> Any:
        tag = node.tag.removeprefix(_PREFIX)
        if isinstance(node, yaml.MappingNode) and tag == "map":
            return mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and tag == "seq":
            for index, item in enumerate(node.value):
                origins[*path, str(index)] = at(item)
            return [plain(item, (*path, str(index))) for index, item in enumerate(node.value)]
        if not isinstance(node, yaml.ScalarNode) or tag not in _SCALARS:
            raise ConfigError(f"{at(node)}: the tag {node.tag!r} is not supported; leave it out")
        pattern, convert = _SCALARS[tag]
        if not pattern.match(node.value):
            raise ConfigError(f"{at(node)}: {node.value!r} is not what its tag !!{tag} says; leave it out")
        if tag in ("int", "float") and len(node.value) > 400:
            raise ConfigError(f"{at(node)}: a number of {len(node.value)} digits is too long")
        return convert(node.value)

    def mapping(node: yaml.MappingNode, path: tuple[str, ...]) -> Values:
        values: Values = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigError(f"{at(key_node)}: a key must be text, not a list or a mapping")
            key = key_node.value
            if key in lines:
                raise ConfigError(f"{at(key_node)}: duplicate key {key!r} (first at line {lines[key]})")
            lines[key] = key_node.start_mark.line + 1
            origins[*path, key] = at(key_node)
            values[key] = plain(value_node, (*path, key))
        return values

    try:
        root = yaml.compose(text, Loader=_Reader)
        return None if root is None else plain(root, ())
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        problem = error.problem or "broken YAML"
        if problem.startswith("but ") and error.context:
            problem = f"{error.context}, {problem}"
        raise ConfigError(f"{at(place) if place else where(1, 1)}: {' '.join(problem.split())}") from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        spot = where(before.count("\n") + 1, error.position - before.rfind("\n"))
        raise ConfigError(f"{spot}: the character {chr(error.character)!r} is not allowed") from None
    except RecursionError:
        raise ConfigError(f"{where(1, 1)}: nested too deeply") from None

"""pydantic's errors as lines: where a value was given, its path as the user writes it, the rule."""

import re
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from .config import Config, Layer, kinds, union_members
from .errors import ConfigError
from .wording import describe, did_you_mean, one_of, rule, shorten

Path: TypeAlias = tuple[str, ...]
DEFAULTS = "defaults"


@dataclass(frozen=True)
class _Place:
    """Where an error is: its path, the type declared there, the class around it, and whether it is one
    of several alternatives (`float | Literal["auto"]`), each of which reports an error."""

    path: Path
    declared: object
    owner: type[Config]
    alternative: bool


def error_lines(error: ValidationError, config_type: type[Config], layer: Layer) -> tuple[str, ...]:
    """One line an error, in order; the alternatives of one field share a line.

    config_type: the class that was validated. layer: the values it was given, with their origins.
    Raises: AssertionError as it was, if a validator raised one (our own mistake, not the caller's).
    """
    lines: dict[str, None] = {}
    alternatives: dict[Path, list[str]] = {}
    found = [(details, _locate(config_type, details["loc"])) for details in error.errors(include_url=False)]
    for details, place in found:
        if details["type"] == "assertion_error":
            raise details["ctx"]["error"] from error
        if place.alternative:
            alternatives.setdefault(place.path, []).append(_rule(details))
    for details, place in found:
        if details["type"] == "value_error":
            lines.update(dict.fromkeys(_raised(details, place, layer)))
        elif place.alternative:
            first, *others = dict.fromkeys(alternatives[place.path])
            text = " or ".join([first, *(other.removeprefix("must be ") for other in others)])
            lines[_line(layer, place.path, details["input"], text)] = None
        else:
            lines[_explained(details, place, layer)] = None
    return tuple(lines)


def _locate(config_type: type[Config], loc: tuple[int | str, ...]) -> _Place:
    """Follow pydantic's location through the declared types, without the names that it adds for unions."""
    path: Path = ()
    declared: object = config_type
    owner = config_type
    alternative = False
    for step in loc:
        declared = _bare(declared)
        members = union_members(declared)
        if len(members) > 1 and step in kinds(declared):
            declared = owner = kinds(declared)[str(step)]
        elif len(members) == 1:
            owner = members[0]
            info = owner.model_fields.get(str(step))
            declared = info.annotation if info else None
            path = (*path, str(step))
        elif get_origin(declared) in (Union, UnionType):
            declared, alternative = None, True
        else:
            args = get_args(declared)
            if isinstance(step, int) and Ellipsis not in args and step < len(args):
                declared = args[step]
            else:
                declared = next((part for part in reversed(args) if part is not Ellipsis), None)
            path = (*path, str(step))
    return _Place(path, _bare(declared), owner, alternative)


def _bare(declared: object) -> object:
    """A type without `Annotated` and without `| None`."""
    if get_origin(declared) is Annotated:
        return _bare(get_args(declared)[0])
    if get_origin(declared) in (Union, UnionType):
        others = [part for part in get_args(declared) if part is not NoneType]
        return _bare(others[0]) if len(others) == 1 else declared
    return declared


def _rule(details: ErrorDetails) -> str:
    context: dict[str, Any] = details.get("ctx", {})
    if details["type"] not in ("literal_error", "enum"):
        return rule(details["type"], context, details["msg"])
    options = re.findall(r"'([^']*)'", context["expected"])
    return f"must be {one_of(options) if options else context['expected']}"


def _explained(details: ErrorDetails, place: _Place, layer: Layer) -> str:
    error, given, path = details["type"], details["input"], place.path
    if error == "extra_forbidden":
        return _line(layer, path, {}, _unknown(place))
    if error == "missing":
        line = _line(layer, path, {}, _rule(details))
        return line.removeprefix(f"{DEFAULTS}: ")
    if error in ("union_tag_invalid", "union_tag_not_found"):
        options = kinds(place.declared)
        kind = given.get("kind") if isinstance(given, dict) else None
        if error == "union_tag_not_found":
            return _line(layer, (*path, "kind"), {}, f"is required and must be {one_of(options)}")
        hint = did_you_mean(kind, options) if isinstance(kind, str) else ""
        return _line(layer, (*path, "kind"), kind, f"must be {one_of(options)}{hint}")
    text = _rule(details)
    if error in ("literal_error", "enum") and isinstance(given, str):
        text += did_you_mean(given, re.findall(r"'([^']*)'", details["ctx"]["expected"]))
    elif error.endswith("_type"):
        known = isinstance(given, str) and given in kinds(place.declared)
        hint = f" (write {{kind: {given}}})" if known else ""
        return _line(layer, path, {}, f"{text}, not {describe(given)}{hint}")
    return _line(layer, path, given, text)


def _unknown(place: _Place) -> str:
    name = place.path[-1]
    fields = place.owner.model_fields
    around = [step for step in place.path[:-1] if not step.isdigit()]
    of = f" of {get_args(fields['kind'].annotation)[0]} {around[-1]}" if "kind" in fields and around else ""
    if "." in name:
        hint = " (write the part before each dot as a mapping of its own)"
    else:
        own = [field for field in fields if field != "kind"]  # which nobody means by another word
        hint = did_you_mean(name, own) or f" (the fields are {', '.join(fields)})"
    return f"unknown field{of}{hint}"


def _raised(details: ErrorDetails, place: _Place, layer: Layer) -> list[str]:
    """The lines for an error that a validator of ours raised, with its own message."""
    error = details["ctx"]["error"]
    lines = []
    for message in error.lines if isinstance(error, ConfigError) else [str(error)]:
        message = " ".join(message.split())
        if place.path and not union_members(place.declared):
            told = re.search(rf"\b{re.escape(place.path[-1])}\b", message)
            line = _line(layer, place.path, details["input"], message)
            lines.append(f"{origin_of(layer, place.path)}: {message}" if told else line)
        else:
            lines.append(f"{_origins_inside(layer, place.path, message)}: {message}")
    return lines


def _origins_inside(layer: Layer, path: Path, message: str) -> str:
    """Where the fields of the model at `path` were given: those that the message names, if it names any."""
    inside = {
        inner: origin
        for inner, origin in layer.origins.items()
        if len(inner) > len(path) and inner[: len(path)] == path and origin != DEFAULTS
    }
    words = set(re.findall(r"[^\W\d]\w*", message))
    told = {inner for inner in inside if inner[-1] in words}
    # A field that the message names stands for everything inside it.
    outer = [inner for inner in inside if inner in told and not any(inner[:n] in told for n in range(len(inner)))]
    named = dict.fromkeys(inside[inner] for inner in outer)
    origins = list(named or dict.fromkeys(inside.values()))
    if not origins or (len(origins) > 3 and not named and path in layer.origins):
        return origin_of(layer, path)
    return ", ".join(origins if named else origins[:3]) + ("" if named or len(origins) <= 3 else ", ...")


def origin_of(layer: Layer, path: Path) -> str:
    """Where the value at a path was given: its own origin, or of the nearest around it, or inside it."""
    for length in range(len(path), 0, -1):
        if path[:length] in layer.origins:
            return layer.origins[path[:length]]
    inside = [other for other in layer.origins if other[: len(path)] == path]
    return layer.origins[min(inside, key=len)] if inside and path else DEFAULTS


def _line(layer: Layer, path: Path, given: object, text: str) -> str:
    """`origin: path=given: text`; a path that the origin already says is not said again."""
    origin, dotted = origin_of(layer, path), ".".join(path)
    shown = "" if isinstance(given, dict) else f"={shorten(given)}"
    return f"{origin}{shown}: {text}" if origin == f"--set {dotted}" else f"{origin}: {dotted}{shown}: {text}"

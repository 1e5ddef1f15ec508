"""Layers of values (flag over --set over file over defaults), and the configuration built from them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from .config import Config, Layer, Values, parse_yaml
from .errors import ConfigError
from .validation import DEFAULTS, Path, error_lines, origin_of
from .wording import did_you_mean

__all__ = [
    "Layer", "build", "defaults_layer", "did_you_mean", "differences", "flags_layer", "merge",
    "overridden", "settings_layer",
]  # fmt: skip

ConfigType = TypeVar("ConfigType", bound=Config)


def flags_layer(flags: Mapping[str, tuple[str, object]]) -> Layer:
    """The layer of the flags that were given.

    flags: each flag with the dotted path it sets and its value; None means that it was left out.
    """
    layer = Layer()
    for flag, (name, value) in flags.items():
        if value is not None:
            path = tuple(name.split("."))
            clash = _clash(path, layer.origins)
            assert clash is None, f"{flag} sets {name}, which {clash} sets too"
            _place(layer, path, value, flag)
    return layer


def settings_layer(settings: Iterable[str]) -> Layer:
    """The layer of the `--set PATH=VALUE` options, with VALUE read as YAML.

    Raises: ConfigError, a line for each setting that is malformed or sets what another one sets.
    """
    layer, lines = Layer(), []
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip()
        path = tuple(name.split("."))
        clash = _clash(path, layer.origins)
        if not all(path):
            lines.append(f"--set {setting}: part of the path before '=' is empty; write --set a.b=VALUE")
        elif not equals or not text.strip():
            lines.append(f"--set {setting}: has no value; write --set {name}=VALUE (null for none)")
        elif clash == f"--set {name}":
            lines.append(f"--set {name}: given twice; keep one")
        elif clash:
            lines.append(f"--set {name}: overlaps with {clash}; keep one")
        else:
            try:
                _place(layer, path, parse_yaml(text, f"--set {setting}"), f"--set {name}")
            except ConfigError as error:
                lines.extend(error.lines)
    if lines:
        raise ConfigError(*lines)
    return layer


def defaults_layer(values: Values, origin: str = DEFAULTS) -> Layer:
    """The lowest layer: a task's defaults, each known in messages as "defaults" unless they were asked for."""
    return Layer(values, dict.fromkeys(_leaves(values), origin))


def merge(layers: Sequence[Layer], exclusive: Iterable[Sequence[str]] = ()) -> Layer:
    """Merge layers, lowest first, mapping by mapping; anything else, lists too, is replaced whole.

    A mapping whose `kind` differs from the one below replaces it whole. exclusive: groups of dotted paths of
    which a higher layer that sets one (not to null) removes the others set below it.
    """
    groups = [[tuple(name.split(".")) for name in group] for group in exclusive]
    values: Values = {}
    origins: dict[Path, str] = {}
    for layer in layers:
        for group in groups:
            if any(_get(layer.values, path) is not None for path in group):
                for path in group:
                    values = _without(values, path)
                    _forget(origins, path)
        values = _merged(values, layer.values, origins, ())
        origins |= layer.origins
    return Layer(values, origins)


def overridden(low: Layer, high: Layer, exclusive: Iterable[Sequence[str]] = ()) -> list[str]:
    """One line for each value of `low` that another one in `high` takes the place of, or drops as `merge` does."""
    groups = [[tuple(name.split(".")) for name in group] for group in exclusive]
    lines = []
    for path, origin in high.origins.items():
        for rival in dict.fromkeys([path, *(other for group in groups if path in group for other in group)]):
            value = _get(low.values, rival)
            if value is not None and value != _get(high.values, rival):
                place = low.origins.get(rival) or f"{'.'.join(rival)} of {origin_of(low, rival)}"
                lines.append(f"{place} is dropped, since {origin} is given")
    return lines


def build(config_type: type[ConfigType], layer: Layer) -> ConfigType:
    """Validate a layer's values into a configuration.

    Raises: ConfigError with one line an error: where the value was given, its path, and the rule it breaks.
    """
    try:
        return config_type.model_validate(layer.values)
    except ValidationError as error:
        raise ConfigError(*error_lines(error, config_type, layer)) from None


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """The dotted paths at which two nested mappings differ, in a's order, then what only b has.

    A whole part that one side lacks is one path. A list equals a tuple of the same items; 1 is not 1.0.
    """
    found: list[str] = []
    for key in [*a, *(key for key in b if key not in a)]:
        if key not in a or key not in b:
            found.append(key)
        elif isinstance(a[key], Mapping) and isinstance(b[key], Mapping):
            found += [f"{key}.{rest}" for rest in differences(a[key], b[key])]
        elif not _same(a[key], b[key]):
            found.append(key)
    return found


def _same(a: object, b: object) -> bool:
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return not differences(a, b)
    return type(a) is type(b) and a == b


def _clash(path: Path, origins: Mapping[Path, str]) -> str | None:
    """Where a path that is the same, above or below was already set."""
    for other, origin in origins.items():
        shared = min(len(path), len(other))
        if path[:shared] == other[:shared]:
            return origin
    return None


def _place(layer: Layer, path: Path, value: object, origin: str) -> None:
    values = layer.values
    for step in path[:-1]:
        values = values.setdefault(step, {})
    values[path[-1]] = value
    layer.origins[path] = origin


def _get(values: Values, path: Path) -> object:
    value: object = values
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _leaves(values: Values, path: Path = ()) -> Iterator[Path]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key)


def _merged(low: Values, high: Values, origins: dict[Path, str], path: Path) -> Values:
    """`high` over `low`; takes the origins of what is replaced out of `origins`."""
    if "kind" in low and high.get("kind", low["kind"]) != low["kind"]:
        low = {}
        _forget(origins, path)
    merged = dict(low)
    for key, value in high.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = _merged(below, value, origins, (*path, key))
        else:
            _forget(origins, (*path, key))
            merged[key] = value
    return merged


def _forget(origins: dict[Path, str], path: Path) -> None:
    for other in [other for other in origins if other[: len(path)] == path]:
        del origins[other]


def _without(values: Values, path: Path) -> Values:
    if path[0] not in values:
        return values
    if len(path) == 1:
        return {key: value for key, value in values.items() if key != path[0]}
    inner = values[path[0]]
    return {**values, path[0]: _without(inner, path[1:])} if isinstance(inner, dict) else values

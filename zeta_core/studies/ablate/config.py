"""What is asked of `zeta ablate`, from its layers to the runs of the sweep."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from zeta_core.config import Config, Layer, kinds, parse_yaml
from zeta_core.errors import ConfigError, OptionError
from zeta_core.experiment import read_experiment
from zeta_core.layers import build, defaults_layer, did_you_mean, merge

from ..train_run import EXCLUSIVE, TrainRun, run_layer
from .axes import AnyAxis, AttentionAxis, Axis, Changes
from .mixers import able, equally_large

System = Literal["zeta", "transformer"]
TRANSFORMER: Changes = {
    "attention.selection": "all",
    "attention.visibility": "token",
    "attention.history_mean": False,
}
"""Full causal attention with ZETA's projections and scores: what the paper's d_K and score ablations ran on."""
SEPARATOR = ","


class AblateRun(Config):
    """A base run, what is changed in it, and the seeds.

    combine: several axes make a grid (every value with every other), or a list (the first of each, the second of
    each, and so on). slices: the scores that are summarised, of all examples or of one kind of them."""

    kind: Literal["ablate"] = "ablate"
    axes: tuple[AnyAxis, ...]
    seeds: tuple[int, ...] = (0, 1, 2)
    combine: Literal["grid", "list"] = "grid"
    on: System | Literal["both"] = "zeta"
    slices: tuple[str, ...] = ("all",)
    base: dict[str, Any] = Field(default_factory=dict)
    """Values of the base run: the task's defaults, changed."""

    @field_validator("seeds")
    @classmethod
    def _some_and_each_once(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if not seeds:
            raise OptionError("seeds: must have at least one")
        if len(set(seeds)) < len(seeds):
            raise OptionError("seeds: one is there twice; give each once")
        return seeds

    @model_validator(mode="after")
    def _a_list_has_one_length(self) -> Self:
        lengths = {len(axis.values) for axis in self.axes}
        if self.combine == "list" and len(lengths) > 1:
            found = ", ".join(f"{len(axis.values)} of {axis_name(axis)}" for axis in self.axes)
            raise OptionError(f"combine='list' needs as many values of every axis, not {found}; use combine='grid'")
        return self

    @property
    def combinations(self) -> list[tuple[Any, ...]]:
        """The values that go together, one of each axis."""
        values = [axis.values for axis in self.axes]
        return list(zip(*values, strict=True)) if self.combine == "list" else list(itertools.product(*values))

    @property
    def systems(self) -> tuple[System, ...]:
        """What the base is turned into."""
        return ("zeta", "transformer") if self.on == "both" else (self.on,)

    @property
    def axis(self) -> str:
        """The names of the axes."""
        return SEPARATOR.join(axis_name(axis) for axis in self.axes)


@dataclass(frozen=True)
class Point:
    """One run of the sweep, resolved, and what it stands for."""

    run: TrainRun
    axis: str
    axis_value: str
    system: System


def axis_name(axis: Axis) -> str:
    """An axis as it is typed: its kind, or the path of a field."""
    return str(getattr(axis, "path", axis.kind))


def axis_kinds() -> list[str]:
    """The axes that have names."""
    return [kind for kind in kinds(AnyAxis) if kind != "field"]


def make_ablate(
    axis: str | None = None,
    *,
    task: str | None = None,
    config: Path | None = None,
    preset: str | None = None,
    values: str | None = None,
    seeds: str | None = None,
    on: str | None = None,
    settings: Sequence[str] = (),
    flags: Mapping[str, tuple[str, object]] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> tuple[AblateRun, list[Point]]:
    """The sweep from its layers, and all of its runs, each built anew and validated.

    axis: the name of an axis, or several by commas. values, seeds: texts like `1,2,3`. settings, flags: of the base
    run, as in make_run. say: gets a line for each of an axis's own values that is left out.
    Raises: ConfigError with a line for everything that is wrong, be it in one value of many."""
    file = read_experiment(config).layer if config is not None else Layer()
    own, base_file = _without_base(_with_axes(file, str(config)))
    typed = _typed(axis, values, seeds, on, own)
    layer = merge([own, typed])
    if not layer.values.get("axes"):
        raise ConfigError(f"no AXIS given; name one of {', '.join(axis_kinds())}, or a field such as model.d_model")
    run = build(AblateRun, layer)
    base = run_layer(task, base_file, str(config), preset=preset, settings=settings, flags=flags or {})
    if isinstance(run.axes[0], AttentionAxis) and len(run.axes) == 1:
        base = equally_large(base, preset)
        run = run.model_validate({**run.model_dump(), "axes": [able(run.axes[0], build(TrainRun, base), say)]})
    points = list(_points(run, base))
    return run.model_validate({**run.model_dump(), "base": base.values}), points


def _points(run: AblateRun, base: Layer) -> Iterator[Point]:
    """Seed by seed, so that a sweep that is stopped has something of every value."""
    built = build(TrainRun, base)
    for axis in run.axes:
        _check_fits(axis, built, run)
    lines: dict[str, None] = {}
    points = []
    for seed, system in itertools.product(run.seeds, run.systems):
        for combination in run.combinations:
            layers = [base]
            if system == "transformer":
                layers.append(changes_layer(TRANSFORMER, "--on transformer"))
            for axis, value in zip(run.axes, combination, strict=True):
                attention = _attention(layers)
                layers.append(changes_layer(axis.changes(value, attention), f"{axis_name(axis)}={value}"))
            layers.append(changes_layer({"seed": seed}, "seeds"))
            try:
                found = build(TrainRun, merge(layers, EXCLUSIVE)).resolved()
            except ConfigError as error:
                lines.update(dict.fromkeys(error.lines))
                continue
            points.append(Point(found, run.axis, SEPARATOR.join(map(str, combination)), system))
    if lines:
        raise ConfigError(*lines)
    yield from points


def _attention(layers: Sequence[Layer]) -> dict[str, Any]:
    """The attention part so far, with its defaults; without the one of two lengths that is not set."""
    return build(TrainRun, merge(layers, EXCLUSIVE)).attention.model_dump(exclude_none=True)


def changes_layer(changes: Changes, origin: str) -> Layer:
    """The layer of an axis's changes; origin: what sets them, in messages."""
    values: dict[str, Any] = {}
    for path, value in changes.items():
        *parents, last = path.split(".")
        inner = values
        for name in parents:
            inner = inner.setdefault(name, {})
        inner[last] = value
    return defaults_layer(values, origin)


def _check_fits(axis: Axis, base: TrainRun, run: AblateRun) -> None:
    """Raises: ConfigError if the base has not what the axis changes, or the axis means nothing on a transformer."""
    if not _fits(axis, base):
        named = {kind: found for kind, found in kinds(AnyAxis).items() if kind not in ("field", "variants")}
        able = [kind for kind, found in named.items() if _fits(_axis(found), base)]
        where = "" if base.model.is_causal else " in an encoder"
        raise ConfigError(
            f"AXIS {axis_name(axis)}: {base.attention.kind} attention{where} has nothing that it changes; it has the "
            f"axes {', '.join(able)}"
        )
    if run.on != "zeta" and not axis.on_transformer:
        able = [kind for kind, found in kinds(AnyAxis).items() if _axis_type(found).on_transformer]
        raise ConfigError(
            f"--on {run.on}: AXIS {axis_name(axis)} changes nothing in full attention; use --on zeta, or one of the "
            f"axes {', '.join(able)}"
        )


def _axis_type(found: type[Config]) -> type[Axis]:
    assert issubclass(found, Axis)
    return found


def _axis(found: type[Config]) -> Axis:
    return _axis_type(found).model_validate({})  # every axis but `field` and `variants` builds from its defaults


def _fits(axis: Axis, base: TrainRun) -> bool:
    try:
        changes = axis.changes(axis.values[0], base.attention.model_dump())
    except KeyError:
        return False
    if axis.causal_alone and not base.model.is_causal:
        return False
    fields = type(base.attention).model_fields
    paths = [path.split(".") for path in changes if axis.kind != "field"]
    return all(path[1] in fields for path in paths if path[0] == "attention" and len(path) > 1)


def _with_axes(layer: Layer, name: str) -> Layer:
    """`axis: dk` with `values: [...]`, and `axes: {dk: [...]}`, as the list of axes that they stand for."""
    values, origins = dict(layer.values), dict(layer.origins)
    if "axis" in values:
        if "axes" in values:
            raise ConfigError(f"{origins.get(('axis',), name)}: axis and axes are both set; give one")
        names, given = values.pop("axis"), values.pop("values", None)
        where = origins.pop(("axis",), name)
        kinds_named = names.split(SEPARATOR) if isinstance(names, str) else names
        if not isinstance(kinds_named, list) or not all(isinstance(kind, str) for kind in kinds_named):
            raise ConfigError(f"{where}: axis must be the name of an axis, or several by commas")
        if given is not None and len(kinds_named) > 1:
            raise ConfigError(
                f"{where}: values belong to one axis; write axes: {{{kinds_named[0].strip()}: [...], ...}}"
            )
        axes = [_axis_values(kind.strip(), given, where) for kind in kinds_named]
        values["axes"] = axes
        origins[("axes",)] = where
        for path in [path for path in origins if path[0] == "values"]:
            origins["axes", "0", *path] = origins.pop(path)
    elif isinstance(values.get("axes"), dict):
        named = values["axes"]
        values["axes"] = []
        for place, (kind, given) in enumerate(named.items()):
            where = origins.pop(("axes", kind), name)
            values["axes"].append(_axis_values(kind, given, where))
            origins["axes", str(place)] = where
            for path in [path for path in origins if path[:2] == ("axes", kind)]:
                origins["axes", str(place), "values", *path[2:]] = origins.pop(path)
    return Layer(values, origins)


def _axis_values(kind: str, given: object, where: str) -> dict[str, object]:
    """One axis as the fields of its class."""
    if kind not in axis_kinds() and "." not in kind and kind != "seed":
        hint = did_you_mean(kind, axis_kinds())
        raise ConfigError(
            f"{where}: axis {kind!r} is not one of {', '.join(axis_kinds())}{hint}; a field is named by its path, "
            "such as model.d_model"
        )
    if kind in axis_kinds():
        return {"kind": kind} if given is None else {"kind": kind, "values": given}
    if given is None:
        raise ConfigError(f"{where}: the field {kind} has no values of its own; give them, such as --values 1,2")
    return {"kind": "field", "path": kind, "values": given}


def _without_base(layer: Layer) -> tuple[Layer, Layer]:
    """A file's own fields, and those of its base run."""
    values = {name: value for name, value in layer.values.items() if name != "base"}
    base = layer.values.get("base", {})
    if not isinstance(base, dict):
        raise ConfigError(f"{layer.origins.get(('base',), 'base')}: base must be a mapping of a run's fields")
    own = {path: where for path, where in layer.origins.items() if path[0] != "base"}
    inner = {path[1:]: where for path, where in layer.origins.items() if path[0] == "base" and len(path) > 1}
    return Layer(values, own), Layer(base, inner)


def _typed(axis: str | None, values: str | None, seeds: str | None, on: str | None, file: Layer) -> Layer:
    """What the command line says of the sweep itself."""
    layer = Layer()
    if axis is not None:
        layer = Layer({"axis": axis}, {("axis",): "AXIS"})
        named = [str(found.get("path", found["kind"])) for found in file.values.get("axes", ())]
        if named and named != [kind.strip() for kind in axis.split(SEPARATOR)]:
            raise ConfigError(f"AXIS {axis!r} is not that of the file, {SEPARATOR.join(named)!r}; leave AXIS out")
        if named and values is None:
            layer = Layer()
    for flag, text in (("--values", values), ("--seeds", seeds)):
        if text is not None and not text.strip():
            raise ConfigError(f"{flag} is empty; write {flag} 1,2 or leave it out")
    if values is not None:
        if axis is None:
            raise ConfigError("--values needs an AXIS before it")
        layer.values["values"] = [parse_yaml(text, f"--values {values}") for text in values.split(SEPARATOR)]
        layer.origins[("values",)] = f"--values {values}"
    if seeds is not None:
        layer.values["seeds"] = [parse_yaml(text, f"--seeds {seeds}") for text in seeds.split(SEPARATOR)]
        layer.origins[("seeds",)] = f"--seeds {seeds}"
    if on is not None:
        layer.values["on"] = on
        layer.origins[("on",)] = "--on"
    return _with_axes(layer, "AXIS")

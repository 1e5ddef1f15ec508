"""What can be swept. An axis is its values, and what each changes in a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, PositiveFloat, PositiveInt, field_validator, model_validator

from zeta_core.attention import AttentionConfig, SoftmaxConfig
from zeta_core.attention.projection import Coordinates, ProjectionKind
from zeta_core.config import Config, kinds
from zeta_core.errors import OptionError
from zeta_core.ops.attend import Score

Changes = dict[str, Any]
"""Dotted paths in a run, and their new values."""


class Axis(Config):
    """A list of values; the first line of a subclass's docstring is its phrase in `zeta list`."""

    kind: str
    values: tuple[Any, ...]
    on_transformer: ClassVar[bool] = False
    """Whether it also means something on full causal attention, as the paper has it."""
    causal_alone: ClassVar[bool] = False
    """Whether it means nothing where every token sees all others."""

    @field_validator("values")
    @classmethod
    def _some_and_each_once(cls, values: tuple[object, ...]) -> tuple[object, ...]:
        if not values:
            raise OptionError("values: must have at least one; leave them out for the axis's own")
        repeated = [value for place, value in enumerate(values) if value in values[:place]]
        if repeated:
            raise OptionError(f"values: {repeated[0]!r} is there twice; give it once")
        return values

    def changes(self, value: Any, attention: Mapping[str, Any]) -> Changes:
        """What a value changes in a run whose attention part is the given one."""
        raise NotImplementedError


class DkAxis(Axis):
    """Dimensions of queries and keys."""

    kind: Literal["dk"] = "dk"
    values: tuple[PositiveInt, ...] = (1, 2, 3, 8, 32, 64, 128)
    on_transformer: ClassVar[bool] = True

    def changes(self, value: int, attention: Mapping[str, Any]) -> Changes:
        return {"attention.d_k": value}


class TopKAxis(Axis):
    """Keys a query attends to."""

    kind: Literal["k"] = "k"
    values: tuple[PositiveInt, ...] = (2, 4, 8, 16, 24, 32, 40, 48)

    def changes(self, value: int, attention: Mapping[str, Any]) -> Changes:
        return {"attention.top_k": value}


class ChunksAxis(Axis):
    """Chunks of the sequence."""

    kind: Literal["chunks"] = "chunks"
    values: tuple[PositiveInt, ...] = (4, 8, 16, 32)
    causal_alone: ClassVar[bool] = True

    def changes(self, value: int, attention: Mapping[str, Any]) -> Changes:
        return {"attention.num_chunks": value}


class SoftmaxAxis(Axis):
    """The score: four of ZETA's, and dot-product softmax over all keys with the same d_K."""

    kind: Literal["softmax"] = "softmax"
    values: tuple[Score | Literal["dot_product"], ...] = (*get_args(Score), "dot_product")
    on_transformer: ClassVar[bool] = True

    def changes(self, value: str, attention: Mapping[str, Any]) -> Changes:
        if value == "dot_product":
            return {"attention": {"kind": "softmax", "d_k": attention["d_k"]}}
        return {"attention.score": value}


class GammaAxis(Axis):
    """gamma: trained, or fixed at a number."""

    kind: Literal["gamma"] = "gamma"
    values: tuple[Literal["trained"] | PositiveFloat, ...] = ("trained", 1.0, 0.5, 0.1, 0.047)

    def changes(self, value: float | str, attention: Mapping[str, Any]) -> Changes:
        return {"attention.gamma": value}


class CurvesAxis(Axis):
    """Z-order curves, at one k that all of them divide: 48, or 24 where the task's own k is below 32."""

    kind: Literal["curves"] = "curves"
    values: tuple[Literal[1, 3, 6], ...] = (1, 3, 6)

    def changes(self, value: int, attention: Mapping[str, Any]) -> Changes:
        return {"attention.curves": value, "attention.top_k": 48 if attention["top_k"] >= 32 else 24}


class CoordinatesAxis(Axis):
    """How coordinates come to lie in [0, 1]; minmax reads the future."""

    kind: Literal["coordinates"] = "coordinates"
    values: tuple[Coordinates, ...] = get_args(Coordinates)

    def changes(self, value: str, attention: Mapping[str, Any]) -> Changes:
        return {"attention.coordinates": value}


class ProjectionAxis(Axis):
    """The network from hidden states to coordinates."""

    kind: Literal["projection"] = "projection"
    values: tuple[ProjectionKind, ...] = get_args(ProjectionKind)

    def changes(self, value: str, attention: Mapping[str, Any]) -> Changes:
        return {"attention.projection": value}


class LearningRateAxis(Axis):
    """The highest learning rate."""

    kind: Literal["learning_rate"] = "learning_rate"
    values: tuple[PositiveFloat, ...] = (3e-4, 1e-3, 3e-3, 1e-2)

    def changes(self, value: float, attention: Mapping[str, Any]) -> Changes:
        return {"training.learning_rate": value}


class AttentionAxis(Axis):
    """The mixer; of the base's fields each takes those that mean the same in it (softmax keeps its own width)."""

    kind: Literal["attention"] = "attention"
    values: tuple[str, ...] = tuple(kinds(AttentionConfig))

    @field_validator("values")
    @classmethod
    def _known(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            if value not in kinds(AttentionConfig):
                raise OptionError(f"values: {value!r} is not one of {', '.join(kinds(AttentionConfig))}")
        return values

    def changes(self, value: str, attention: Mapping[str, Any]) -> Changes:
        mixer = kinds(AttentionConfig)[value]
        own = {"d_k"} if mixer is SoftmaxConfig else set()
        shared = {name: given for name, given in attention.items() if name in mixer.model_fields and name not in own}
        return {"attention": {**shared, "kind": value}}


Part = Literal[
    "paper", "+convolution", "+local_window", "-history_mean", "exact_selection", "all_keys", "visibility_token",
    "+refine",
]  # fmt: skip
PAPER: Changes = {
    "model.short_conv": 0,
    "attention.local_window": 0,
    "attention.history_mean": True,
    "attention.selection": "zorder",
    "attention.visibility": "chunk",
    "attention.refine": 1,
    "attention.curves": 1,
}
"""ZETA as the paper words it."""
PARTS: dict[Part, Changes] = {
    "paper": {},
    "+convolution": {"model.short_conv": 3},
    "+local_window": {"attention.local_window": 16},
    "-history_mean": {"attention.history_mean": False},
    "exact_selection": {"attention.selection": "exact"},
    "all_keys": {"attention.selection": "all"},
    "visibility_token": {"attention.selection": "exact", "attention.visibility": "token"},
    "+refine": {"attention.refine": 4},
}


class PartsAxis(Axis):
    """One change at a time from the paper's wording (no convolution, no local window)."""

    kind: Literal["parts"] = "parts"
    values: tuple[Part, ...] = get_args(Part)

    def changes(self, value: Part, attention: Mapping[str, Any]) -> Changes:
        return {**PAPER, **PARTS[value]}


class VariantsAxis(Axis):
    """Named runs that differ in more than one field: what each has beside the base."""

    kind: Literal["variants"] = "variants"
    values: tuple[str, ...] = ()
    settings: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """By name, parts of a run as a file has them; an `attention` with a kind is one from the start."""

    @model_validator(mode="before")
    @classmethod
    def _all_of_them(cls, given: Any) -> Any:
        if isinstance(given, dict) and isinstance(given.get("values"), dict):
            return {**given, "values": tuple(given["values"]), "settings": given["values"]}
        return given

    @field_validator("values")
    @classmethod
    def _some_and_each_once(cls, values: tuple[object, ...]) -> tuple[object, ...]:
        if not values:
            form = "axes: {variants: {name: {part: {field: value}}}}"
            raise OptionError(f"values: variants are named in a file, as {form}; give it with --config")
        return values

    @model_validator(mode="after")
    def _known(self) -> Self:
        for value in self.values:
            if value not in self.settings:
                raise OptionError(f"values: {value!r} is not one of the variants {', '.join(self.settings)}")
        return self

    def changes(self, value: str, attention: Mapping[str, Any]) -> Changes:
        found: Changes = {}
        for part, fields in self.settings[value].items():
            if part == "attention" and "kind" in fields:
                found[part] = fields
            elif isinstance(fields, dict):
                found.update({f"{part}.{name}": field for name, field in fields.items()})
            else:
                found[part] = fields
        return found


class FieldAxis(Axis):
    """Any field of a run by its dotted path, such as model.d_model."""

    kind: Literal["field"] = "field"
    path: str = Field(pattern=r"^\w+(\.\w+)*$")

    def changes(self, value: Any, attention: Mapping[str, Any]) -> Changes:
        return {self.path: value}


AnyAxis = Annotated[
    DkAxis
    | TopKAxis
    | ChunksAxis
    | SoftmaxAxis
    | GammaAxis
    | CurvesAxis
    | CoordinatesAxis
    | ProjectionAxis
    | LearningRateAxis
    | AttentionAxis
    | PartsAxis
    | VariantsAxis
    | FieldAxis,
    Field(discriminator="kind"),
]

"""Which rows of trained models may be averaged together: those that differ in nothing but the seed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from zeta_core.attention import AttentionConfig
from zeta_core.config import kinds
from zeta_core.records import TrainRow

from ..text_scores import DERIVED

T = TypeVar("T", bound=TrainRow)
NOT_SETTINGS = frozenset(
    ("study", "run_id", "status", "seed", "python", "triton", "commit", "wall_s", "peak_mib", "best_step",
     "parameters", "value", "reachable", "entropy_nats", "gamma_end", "axis", "axis_value", "trained", "reason",
     "log", "examples", "majority", "source", "tokens_per_s", "mfu")
)  # fmt: skip
"""Columns that say how a run went, or name it. torch is a setting: another version may compute another thing.
The last three follow from the data, which data_fingerprint names."""
MIXER_FIELDS = {kind: frozenset(mixer.model_fields) for kind, mixer in kinds(AttentionConfig).items()}
MIXER = tuple(field.name for field in fields(TrainRow) if any(field.name in names for names in MIXER_FIELDS.values()))
"""Columns of the attention part; empty in rows of a mixer that has no such field."""


def mixer_columns(row: TrainRow) -> frozenset[str]:
    """The columns that the row's mixer has."""
    return MIXER_FIELDS.get(row.attention, frozenset(MIXER)) & frozenset(MIXER)


def base_columns(row: TrainRow, swept: Collection[str] = ()) -> list[str]:
    """Every column of the setting outside the attention part."""
    names = [field.name for field in fields(row)]
    return [name for name in names if name not in {*NOT_SETTINGS, *MIXER, "attention", *swept}]


def groups(rows: Sequence[T], swept: Collection[str], own: Collection[str] = ()) -> list[list[T]]:
    """Rows that differ in swept columns, the seed and nothing else.

    A mixer lacks columns that another has (softmax has no top_k): such a row joins every group whose first row agrees
    in all columns that both have. own: columns in which a mixer with fewer of them keeps a value of its own."""
    bases: dict[tuple[Any, ...], list[T]] = {}
    for row in rows:
        bases.setdefault(tuple(getattr(row, name) for name in base_columns(row, swept)), []).append(row)
    found: list[list[T]] = []
    for base in bases.values():
        richest = max((mixer_columns(row) for row in base), key=len)
        here: list[list[T]] = []
        for row in sorted(base, key=lambda row: mixer_columns(row) != richest):
            full = mixer_columns(row) == richest
            fitting = [group for group in here if _agree(row, group[0], swept, () if full else own)]
            for group in fitting:
                group.append(row)
            if not fitting:
                here.append([row])
        found += [_in_order(group, rows) for group in here]
    return found


def _agree(row: TrainRow, first: TrainRow, swept: Collection[str], own: Collection[str]) -> bool:
    shared = (mixer_columns(row) & mixer_columns(first)) - {*swept, *own}
    same_kind = row.attention == first.attention or "attention" in swept
    return same_kind and all(getattr(row, name) == getattr(first, name) for name in shared)


def _in_order(group: list[T], rows: Sequence[T]) -> list[T]:
    place = {id(row): number for number, row in enumerate(rows)}
    return sorted(group, key=lambda row: place[id(row)])


def describe(row: TrainRow, without: Collection[str] = ()) -> str:
    """A row's setting as `name=value` with the columns' names."""
    names = ["task", "attention", *mixer_columns_in_order(row), *base_columns(row)]
    skipped = {*without, "metric", "slice", "device", "dtype", "impl", "torch", "data_fingerprint", "system"}
    pairs = {name: getattr(row, name) for name in names if name not in skipped}
    return ", ".join(f"{name}={_shown(value)}" for name, value in pairs.items() if value is not None)


def mixer_columns_in_order(row: TrainRow) -> list[str]:
    """The columns that the row's mixer has, as the CSV orders them."""
    return [name for name in MIXER if name in mixer_columns(row)]


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def main_scores(rows: Sequence[T]) -> list[T]:
    """The score over all test examples of each run; not what follows from it, such as a perplexity."""
    return [row for row in rows if row.slice == "all" and row.metric not in DERIVED]

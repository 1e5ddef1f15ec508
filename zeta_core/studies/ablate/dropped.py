"""What a command line sets and its sweep sets otherwise: said, or it would be dropped in silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zeta_core.layers import flags_layer, overridden, settings_layer

from ..train_run import EXCLUSIVE, TrainRun, dropped_settings
from .axes import Axis
from .config import AblateRun, axis_name, changes_layer


def dropped_lines(ablate: AblateRun, settings: Sequence[str], flags: Mapping[str, tuple[str, object]]) -> list[str]:
    """A line for each `--set` that a flag takes the place of, and for each of both that an axis does."""
    lines = dropped_settings(settings, flags)
    attention = TrainRun.model_validate(ablate.base).attention.model_dump()
    axes: Sequence[Axis] = ablate.axes
    for axis in axes:
        for value in axis.values:
            high = changes_layer(axis.changes(value, attention), f"AXIS {axis_name(axis)}")
            for low in (settings_layer(settings), flags_layer(flags)):
                lines += overridden(low, high, EXCLUSIVE)
    return list(dict.fromkeys(lines))

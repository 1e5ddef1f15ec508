"""What makes mixers comparable in a sweep: networks of one size, and none that cannot take the base's form."""

from __future__ import annotations

from collections.abc import Callable

import torch

from zeta_core.attention import AttentionConfig
from zeta_core.attention.mixer import MixerConfig
from zeta_core.config import Layer, kinds
from zeta_core.errors import OptionError
from zeta_core.layers import build, defaults_layer, merge
from zeta_core.validation import DEFAULTS

from ..train_run import TrainRun
from .axes import AttentionAxis, Changes


def able(axis: AttentionAxis, base: TrainRun, say: Callable[[str], None]) -> AttentionAxis:
    """The axis without those of its own values that the base's form or lengths are not for; given ones are kept.

    say: gets a line if some are left out."""
    if "values" in axis.model_fields_set:
        return axis
    attention = base.attention.model_dump(exclude_none=True)
    fits = {value: _fits(base, axis.changes(value, attention)) for value in axis.values}
    if left_out := [value for value, fit in fits.items() if not fit]:
        say(
            f"without {', '.join(left_out)}: the base's form or length is not for them (--values {left_out[0]} says "
            "why)"
        )
    return axis.model_validate({**axis.model_dump(), "values": [value for value, fit in fits.items() if fit]})


def _fits(base: TrainRun, changes: Changes) -> bool:
    mixer = kinds(AttentionConfig)[changes["attention"]["kind"]].model_validate(changes["attention"])
    assert isinstance(mixer, MixerConfig)
    try:
        base.check_mixer(mixer)
    except OptionError:
        return False
    return True


def equally_large(base: Layer, preset: str | None) -> Layer:
    """The base with as many parameters for every mixer as it has itself, by the width of the MLP.

    Unless it says model.d_mlp or model.match_parameters itself, beyond the task's defaults; and unless an adaptive
    softmax, whose size the vocabulary decides, is most of it."""
    built = build(TrainRun, base)
    defaults = (DEFAULTS, f"--preset {preset}")
    origins = [base.origins.get(("model", name), DEFAULTS) for name in ("d_mlp", "match_parameters")]
    if built.model.head == "adaptive" or not all(origin in defaults for origin in origins):
        return base
    with torch.device("meta"):  # no memory is taken, and nobody's random numbers
        wanted = built.model.build(built.attention, vocab_size=2, max_len=2).num_parameters()
    return merge([base, defaults_layer({"model": {"d_mlp": None, "match_parameters": wanted}})])

"""Whole mixers of the library, on hidden states."""

from __future__ import annotations

import copy
from typing import Any, Literal

import torch
from torch import Tensor

from zeta_core.attention import AttentionConfig, Mixer
from zeta_core.attention.mixer import MixerConfig
from zeta_core.config import kinds

from ..case import Shape
from .provider import Problem, Provider


class MixerProvider(Provider):
    """A whole mixer of width heads * d_V as `zeta train` has it, its projections included; on request alone."""

    kind: Literal[
        "performer", "based", "reformer", "cosformer", "iceformer", "hedgehog", "h_transformer_1d",
        "sliding_window", "nsa", "gla",
    ] = "performer"  # fmt: skip

    def config(self, shape: Shape) -> MixerConfig:
        """The mixer's defaults, with a period as long as the sequence where it has one."""
        found = kinds(AttentionConfig)[self.kind]
        fields: dict[str, Any] = {}
        if "period" in found.model_fields:
            fields["period"] = max(found.model_fields["period"].default, shape.seq_len)
        config = found.model_validate(fields)
        assert isinstance(config, MixerConfig)
        return config

    def missing(self, shape: Shape, device: torch.device, backward: bool) -> str | None:
        """Some are causal alone."""
        return None if shape.causal or self.config(shape).bidirectional else "is causal; leave --bidirectional out"

    def backend(self, device: torch.device) -> str:
        """torch's version, and that projections are timed too."""
        return f"the whole mixer with its projections, {super().backend(device)}"

    def build(self, shape: Shape, device: torch.device) -> Problem:
        """Gradients for the hidden states [batch, seq_len, heads * d_V].

        The definition is the mixer's own: one token at a time in float64 where it has a state, else the module in
        float64 (its tests compare that with loops over the paper's equations)."""
        width = shape.heads * shape.d_v
        config: Any = self.config(shape)
        mixer: Mixer = config.build(width, shape.heads, causal=shape.causal)
        mixer = mixer.to(device, shape.torch_dtype).requires_grad_(False)
        hidden = torch.randn(shape.batch, shape.seq_len, width, device=device, dtype=shape.torch_dtype)

        def definition(hidden: Tensor) -> Tensor:
            wide = copy.deepcopy(mixer).to(hidden.device, hidden.dtype)
            return by_steps(wide, hidden) if shape.causal and hasattr(wide, "step") else wide(hidden)

        return Problem([hidden], hidden, lambda: mixer(hidden), definition)


def by_steps(mixer: Any, hidden: Tensor) -> Tensor:
    """A mixer's output from its state, token by token."""
    state, found = None, []
    for token in hidden.unbind(1):
        out, state = mixer.step(token, state)
        found.append(out)
    return torch.stack(found, 1)

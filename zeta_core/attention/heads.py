"""What mixers of heads have in common: projections in, a mean over values computed in fp32, a projection out."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .mixer import Mixer, merge_heads


class HeadMixer(Mixer):
    """Queries, keys and values of heads, `mix`, and the output's projection; a subclass says what `mix` is.

    q_width, k_width: of all heads together, d_model unless given."""

    exact_projections: ClassVar[bool] = False
    """Whether queries and keys are computed in fp32 under autocast too: rounded ones would choose other keys."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        causal: bool,
        q_width: int | None = None,
        k_width: int | None = None,
    ) -> None:
        super().__init__(d_model, num_heads, causal=causal)
        self.widths = [d_model if q_width is None else q_width, d_model if k_width is None else k_width, d_model]
        self.qkv = nn.Linear(d_model, sum(self.widths))
        self.out = nn.Linear(d_model, d_model)

    def projected(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v: [batch, heads, seq_len, dim], in fp32 or float64."""
        with torch.autocast(hidden.device.type, enabled=torch.is_autocast_enabled() and not self.exact_projections):
            found = exact_linear(self.qkv, hidden) if self.exact_projections else self.qkv(hidden)
        q, k, v = (self.split_heads(wide(x)) for x in found.split(self.widths, dim=-1))
        return q, k, v

    def mix(self, q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """Each query's weighted mean of values, like v; linear in v, whose width may be any."""
        raise NotImplementedError

    def forward(self, hidden: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """hidden: [batch, seq_len, d_model]; a row that sees no key gives the bias of the output."""
        q, k, v = self.projected(hidden)
        with torch.autocast(hidden.device.type, enabled=False):
            mixed = self.mix(q, k, v, key_padding_mask)
        return self.out(merge_heads(mixed).to(hidden.dtype))  # type: ignore[no-any-return]

    @torch.no_grad()
    def statistics(self, hidden: Tensor) -> dict[str, float]:
        """The mean entropy of the attention weights, in nats; the weights are what `mix` makes of unit values."""
        q, k, _ = self.projected(hidden)
        units = torch.eye(hidden.shape[1], device=q.device, dtype=q.dtype).expand(*q.shape[:2], -1, -1)
        with torch.autocast(hidden.device.type, enabled=False):
            weights = self.mix(q, k, units, None)
        return {"entropy": float(torch.special.entr(weights.clamp(min=0)).sum(-1).mean())}


def wide(x: Tensor) -> Tensor:
    """In fp32, unless it is float64."""
    return x if x.dtype == torch.float64 else x.float()


def exact_linear(linear: nn.Linear, x: Tensor) -> Tensor:
    """A linear map in fp32 (float64 stays), whatever type the module is in; outside of autocast."""
    return F.linear(wide(x), wide(linear.weight), None if linear.bias is None else wide(linear.bias))


def masked_softmax(logits: Tensor, see: Tensor) -> Tensor:
    """Softmax over the last dimension where `see`; a row that sees nothing is all zeros, and so is its gradient."""
    lowest = torch.finfo(logits.dtype).min / 2
    weights: Tensor = logits.masked_fill(~see, lowest).softmax(-1) * see
    return weights

"""Dot-product softmax attention, by torch's scaled_dot_product_attention."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from zeta_core.config import added_later
from zeta_core.errors import OptionError
from zeta_core.ops.impl import Impl

from .mixer import Mixer, MixerConfig, merge_heads

ROTARY_BASE = 10_000.0


class SoftmaxConfig(MixerConfig):
    """Dot-product softmax attention: the vanilla Transformer's mixer."""

    kind: Literal["softmax"] = "softmax"
    d_k: int | None = Field(default=None, ge=1, json_schema_extra=added_later(None))
    """Dimensions of queries and keys in a head; None: those of values, d_model / num_heads."""
    rotary: bool = Field(default=False, json_schema_extra=added_later(False))
    """Queries and keys turned by their positions (Su et al. 2021); then model.positions=none as a rule."""

    def build(self, d_model: int, num_heads: int, *, causal: bool = True, impl: Impl = "auto") -> SoftmaxAttention:
        """The mixer; `impl` means nothing to it. Raises: OptionError if num_heads does not divide d_model."""
        return SoftmaxAttention(d_model, num_heads, d_k=self.d_k, rotary=self.rotary, causal=causal)


class SoftmaxAttention(Mixer):
    """Multi-head attention; d_k and rotary as in SoftmaxConfig.

    Raises: OptionError if num_heads does not divide d_model, or rotary has an odd number of dimensions to turn."""

    def __init__(
        self, d_model: int, num_heads: int, *, d_k: int | None = None, rotary: bool = False, causal: bool = True
    ) -> None:
        super().__init__(d_model, num_heads, causal=causal)
        self.rotary = rotary
        width = d_model if d_k is None else d_k * num_heads
        if rotary and (width // num_heads) % 2:
            raise OptionError(
                f"rotary=true turns pairs of dimensions, and d_k={width // num_heads} is odd; use an even one"
            )
        self.widths = [width, width, d_model]
        self.qkv = nn.Linear(d_model, sum(self.widths))
        self.out = nn.Linear(d_model, d_model)

    def projected(self, hidden: Tensor, first: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v: [batch, heads, seq_len, dim], of tokens at the positions first, first + 1, ..."""
        q, k, v = (self.split_heads(x) for x in self.qkv(hidden).split(self.widths, dim=-1))
        return (rotated(q, first), rotated(k, first), v) if self.rotary else (q, k, v)

    def forward(self, hidden: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """hidden: [batch, seq_len, d_model]; a row that sees no key gives the bias of the output."""
        q, k, v = self.projected(hidden)
        if key_padding_mask is None:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            see = ~key_padding_mask[:, None, None]
            if self.causal:
                seq_len = hidden.shape[1]
                see = see & torch.ones(seq_len, seq_len, dtype=torch.bool, device=hidden.device).tril()
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=see)
            mixed = mixed.masked_fill(~see.any(-1, keepdim=True), 0)
        return self.out(merge_heads(mixed))  # type: ignore[no-any-return]

    def pair_flops(self, seq_len: int) -> float:
        """A product of each query and key that meet, and of its weight and value."""
        keys = (seq_len + 1) / 2 if self.causal else seq_len
        return 2.0 * (self.widths[0] + self.d_model) * keys

    @torch.no_grad()
    def statistics(self, hidden: Tensor) -> dict[str, float]:
        """The mean entropy of the attention weights, in nats."""
        q, k, _ = (x.float() for x in self.projected(hidden))
        logits = q @ k.mT / q.shape[-1] ** 0.5
        if self.causal:
            future = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).triu(1)
            logits = logits.masked_fill(future, -torch.inf)
        return {"entropy": float(torch.special.entr(logits.softmax(-1)).sum(-1).mean())}


def rotated(x: Tensor, first: int = 0) -> Tensor:
    """Rotary positions: dimensions i and i + d/2 of position p turned by the angle p 10,000^(-2i/d).

    x: [..., seq_len, d] at the positions first, first + 1, ...; d even. Source: RoFormer (Su et al. 2021)."""
    half = x.shape[-1] // 2
    turns = torch.arange(half, device=x.device, dtype=torch.float32) / half
    places = torch.arange(first, first + x.shape[-2], device=x.device, dtype=torch.float32)
    angle = places[:, None] * ROTARY_BASE**-turns
    one, other = x[..., :half].float(), x[..., half:].float()
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((one * cos - other * sin, one * sin + other * cos), dim=-1).to(x.dtype)

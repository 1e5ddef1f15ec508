"""Dot-product softmax attention, by torch's scaled_dot_product_attention."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from zeta_core.config import added_later
from zeta_core.ops.impl import Impl

from .mixer import Mixer, MixerConfig, merge_heads


class SoftmaxConfig(MixerConfig):
    """Dot-product softmax attention: the vanilla Transformer's mixer."""

    kind: Literal["softmax"] = "softmax"
    d_k: int | None = Field(default=None, ge=1, json_schema_extra=added_later(None))
    """Dimensions of queries and keys in a head; None: those of values, d_model / num_heads."""

    def build(self, d_model: int, num_heads: int, *, causal: bool = True, impl: Impl = "auto") -> SoftmaxAttention:
        """The mixer; `impl` means nothing to it. Raises: OptionError if num_heads does not divide d_model."""
        return SoftmaxAttention(d_model, num_heads, d_k=self.d_k, causal=causal)


class SoftmaxAttention(Mixer):
    """Multi-head attention without positions of its own; d_k as in SoftmaxConfig."""

    def __init__(self, d_model: int, num_heads: int, *, d_k: int | None = None, causal: bool = True) -> None:
        super().__init__(d_model, num_heads, causal=causal)
        width = d_model if d_k is None else d_k * num_heads
        self.widths = [width, width, d_model]
        self.qkv = nn.Linear(d_model, sum(self.widths))
        self.out = nn.Linear(d_model, d_model)

    def projected(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v: [batch, heads, seq_len, dim]."""
        q, k, v = (self.split_heads(x) for x in self.qkv(hidden).split(self.widths, dim=-1))
        return q, k, v

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

    @torch.no_grad()
    def statistics(self, hidden: Tensor) -> dict[str, float]:
        """The mean entropy of the attention weights, in nats."""
        q, k, _ = (x.float() for x in self.projected(hidden))
        logits = q @ k.mT / q.shape[-1] ** 0.5
        if self.causal:
            future = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).triu(1)
            logits = logits.masked_fill(future, -torch.inf)
        return {"entropy": float(torch.special.entr(logits.softmax(-1)).sum(-1).mean())}

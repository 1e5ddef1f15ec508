"""Performer: softmax's kernel by positive orthogonal random features."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from zeta_core.ops.impl import Impl

from .heads import HeadMixer
from .linear import linear_attention, linear_step
from .mixer import MixerConfig, merge_heads

LARGEST_EXPONENT = 60.0
"""Of a key's feature: sums of them stay far from fp32's largest number, exp(88)."""


class PerformerConfig(MixerConfig):
    """Performer (FAVOR+): linear attention with positive orthogonal random features of softmax's kernel.

    phi(x) = exp(w_r . x - |x|^2 / 2) for r = 1..num_features, with x = q or k over d^(1/4), and
    o_i = sum_j (phi(q_i) . phi(k_j)) v_j / sum_j phi(q_i) . phi(k_j). The w_r are orthogonal in blocks of d, with the
    lengths of normal vectors. Source: Choromanski et al. 2021, lemma 1, theorem 2, and section 2.4.
    Departs: a query's features are scaled by their own largest, which cancels; keys' are not scaled by the largest of
    all keys, which would read the future, but by a constant of the w_r. The w_r are drawn once, when the module is
    built, and not drawn anew in training: a checkpoint holds them."""

    kind: Literal["performer"] = "performer"
    num_features: int | None = Field(default=None, ge=1)
    """Random features a head; None: d ln d, as the paper suggests, where d is d_model / num_heads."""

    def build(self, d_model: int, num_heads: int, *, causal: bool = True, impl: Impl = "auto") -> Performer:
        """The mixer; `impl` means nothing to it. Raises: OptionError if num_heads does not divide d_model."""
        return Performer(d_model, num_heads, self, causal=causal)


class Performer(HeadMixer):
    """Multi-head FAVOR+; options as in PerformerConfig. directions: the w_r, [heads, features, d]."""

    directions: Tensor

    def __init__(self, d_model: int, num_heads: int, config: PerformerConfig, *, causal: bool = True) -> None:
        super().__init__(d_model, num_heads, causal=causal)
        dim = d_model // num_heads
        count = config.num_features or max(1, round(dim * math.log(dim)))
        drawn = torch.stack([orthogonal_directions(count, dim) for _ in range(num_heads)])
        self.register_buffer("directions", drawn)

    def features(self, x: Tensor, *, of_queries: bool) -> Tensor:
        """[batch, heads, seq_len, d] to [batch, heads, seq_len, features], positive."""
        x, directions = x * x.shape[-1] ** -0.25, self.directions.to(x.dtype)
        exponent = x @ directions.mT - x.square().sum(-1, keepdim=True) / 2
        if of_queries:
            top = exponent.amax(-1, keepdim=True).detach()
        else:  # w . x - |x|^2 / 2 is at most |w|^2 / 2
            top = (directions.square().sum(-1).amax() / 2 - LARGEST_EXPONENT).clamp(min=0)
        positive: Tensor = (exponent - top).exp()
        return positive

    def mix(self, q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """Like v; zeros where no key is seen."""
        q, k = self.features(q, of_queries=True), self.features(k, of_queries=False)
        return linear_attention(q, k, v, causal=self.causal, key_padding_mask=key_padding_mask)

    def step(self, hidden: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """One token, [batch, d_model], after a state (None: the first). Returns: the output and the next state."""
        q, k, v = self.projected(hidden[:, None])
        q, k = self.features(q, of_queries=True), self.features(k, of_queries=False)
        mixed, state = linear_step(q, k, v, state)
        return self.out(merge_heads(mixed)[:, 0]), state


def orthogonal_directions(count: int, dim: int) -> Tensor:
    """[count, dim] normal vectors, orthogonal to each other in blocks of dim; from torch's current seed."""
    blocks = [torch.linalg.qr(torch.randn(dim, dim))[0].T for _ in range(math.ceil(count / dim))]
    drawn: Tensor = torch.cat(blocks)[:count] * torch.randn(count, dim).norm(dim=-1, keepdim=True)
    return drawn

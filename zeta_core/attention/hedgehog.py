"""Hedgehog: linear attention with a learned feature map that imitates softmax's spikes."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from zeta_core.ops.impl import Impl

from .heads import HeadMixer
from .linear import linear_attention, linear_step
from .mixer import MixerConfig, merge_heads


class HedgehogConfig(MixerConfig):
    """Hedgehog: linear attention with a learned feature map, softmax-normalised exp(+-W x).

    phi(x) = [softmax(W x), softmax(-W x)], with a W for the queries and one for the keys of each head, and
    o_i = sum_j (phi(q_i) . phi(k_j)) v_j / sum_j phi(q_i) . phi(k_j). Source: Zhang et al. 2024, section 4.1.
    Departs: trained from scratch with the rest, not first to imitate a softmax layer's weights."""

    kind: Literal["hedgehog"] = "hedgehog"

    def build(self, d_model: int, num_heads: int, *, causal: bool = True, impl: Impl = "auto") -> Hedgehog:
        """The mixer; `impl` means nothing to it. Raises: OptionError if num_heads does not divide d_model."""
        return Hedgehog(d_model, num_heads, causal=causal)


class Hedgehog(HeadMixer):
    """Multi-head linear attention with Hedgehog's features; its maps start as the identity."""

    def __init__(self, d_model: int, num_heads: int, *, causal: bool = True) -> None:
        super().__init__(d_model, num_heads, causal=causal)
        start = torch.eye(d_model // num_heads).repeat(num_heads, 1, 1)
        self.q_map, self.k_map = nn.Parameter(start), nn.Parameter(start.clone())

    def features(self, x: Tensor, weight: Tensor) -> Tensor:
        """[batch, heads, seq_len, d] to [batch, heads, seq_len, 2 d], positive."""
        mapped = x @ weight.to(x.dtype).mT
        return torch.cat((mapped.softmax(-1), (-mapped).softmax(-1)), dim=-1)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """Like v; zeros where no key is seen."""
        q, k = self.features(q, self.q_map), self.features(k, self.k_map)
        return linear_attention(q, k, v, causal=self.causal, key_padding_mask=key_padding_mask)

    def step(self, hidden: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """One token, [batch, d_model], after a state (None: the first). Returns: the output and the next state."""
        q, k, v = self.projected(hidden[:, None])
        mixed, state = linear_step(self.features(q, self.q_map), self.features(k, self.k_map), v, state)
        return self.out(merge_heads(mixed)[:, 0]), state

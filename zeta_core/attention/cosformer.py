"""CosFormer: linear attention with ReLU features, weighted by the cosine of the distance."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from zeta_core.errors import OptionError
from zeta_core.ops.impl import Impl

from .heads import HeadMixer
from .linear import linear_attention, linear_step
from .mixer import MixerConfig, merge_heads


class CosformerConfig(MixerConfig):
    """CosFormer: linear attention with ReLU features, near tokens weighted up by a cosine.

    w_ij = (relu(q_i) . relu(k_j)) cos(pi (i - j) / (2 period)), and o_i = sum_j w_ij v_j / sum_j w_ij; the cosine of
    a difference splits into products, so that it stays linear. Source: Qin et al. 2022, equations 9 to 12.
    Departs: the paper's period may be the length of the sequence; one that depends on it is not causal, so it is
    fixed, and longer sequences, for which weights would be negative, are refused."""

    kind: Literal["cosformer"] = "cosformer"
    period: PositiveInt = 4096
    """M: the distance at which a weight has fallen to zero."""

    def build(self, d_model: int, num_heads: int, *, causal: bool = True, impl: Impl = "auto") -> Cosformer:
        """The mixer; `impl` means nothing to it. Raises: OptionError if num_heads does not divide d_model."""
        return Cosformer(d_model, num_heads, self, causal=causal)

    def check(self, *, causal: bool, seq_len: int = 0) -> None:
        """Raises: OptionError for sequences longer than the period."""
        if seq_len > self.period:
            raise OptionError(
                f"attention.period={self.period} is less than the length of the sequences, {seq_len}; "
                f"use attention.period={seq_len} or more"
            )


class Cosformer(HeadMixer):
    """Multi-head cosFormer; options as in CosformerConfig."""

    def __init__(self, d_model: int, num_heads: int, config: CosformerConfig, *, causal: bool = True) -> None:
        super().__init__(d_model, num_heads, causal=causal)
        self.config = config

    def features(self, x: Tensor, start: int = 0) -> Tensor:
        """[batch, heads, seq_len, d] to [batch, heads, seq_len, 2 d], for tokens from position `start` on."""
        seq_len = x.shape[2]
        self.config.check(causal=self.causal, seq_len=start + seq_len)
        angle = torch.arange(start, start + seq_len, device=x.device, dtype=torch.float64)[:, None]
        angle = angle * (math.pi / (2 * self.config.period))
        x = x.relu()
        return torch.cat((x * angle.cos().to(x.dtype), x * angle.sin().to(x.dtype)), dim=-1)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """Like v; zeros where every weight is zero. Raises: OptionError for sequences longer than the period."""
        q, k = self.features(q), self.features(k)
        return linear_attention(q, k, v, causal=self.causal, key_padding_mask=key_padding_mask)

    def step(self, hidden: Tensor, state: tuple[int, Tensor | None] | None) -> tuple[Tensor, tuple[int, Tensor]]:
        """One token, [batch, d_model], after a state (None: the first). Returns: the output and the next state.

        A state is the number of tokens so far, and their sums."""
        place, sums = (0, None) if state is None else state
        q, k, v = self.projected(hidden[:, None])
        mixed, sums = linear_step(self.features(q, place), self.features(k, place), v, sums)
        return self.out(merge_heads(mixed)[:, 0]), (place + 1, sums)

"""Based: a second-order Taylor expansion of softmax for what is far, softmax itself for what is near."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from zeta_core.ops.impl import Impl

from .blocks_local import ages, beside, real
from .heads import HeadMixer
from .linear import CHUNK, in_chunks, normalised, sums_before, with_ones
from .mixer import MixerConfig, merge_heads

BasedState = tuple[Tensor, Tensor, Tensor]
"""Sums over the tokens outside of the window, and the keys and values inside it."""


class BasedConfig(MixerConfig):
    """Based: softmax inside a sliding window, its second-order Taylor expansion outside, one normaliser.

    With x_ij = q_i . k_j / sqrt(d'), w_ij = exp(x_ij) where i - j < window and 1 + x_ij + x_ij^2 / 2 elsewhere, and
    o_i = sum_j w_ij v_j / sum_j w_ij. The expansion is phi(q_i) . phi(k_j) with
    phi(x) = [1, x / d'^(1/4), (x outer x) / sqrt(2 d')]. Source: Arora et al. 2024 (Simple linear attention language
    models balance the recall-throughput tradeoff), section 4.
    Departs: the paper alternates layers of Taylor attention, sliding windows and short convolutions; here one layer
    has both attentions, normalised together, so that two layers of it compare with two of any other mixer, and the
    convolution is the block's own (model.short_conv)."""

    kind: Literal["based"] = "based"
    feature_dim: PositiveInt = 16
    """d': dimensions of queries and keys in a head; the state has 1 + d' + d'^2 rows."""
    window: PositiveInt = 16
    """Tokens that softmax sees, the query's own among them."""

    def build(self, d_model: int, num_heads: int, *, causal: bool = True, impl: Impl = "auto") -> Based:
        """The mixer; `impl` means nothing to it. Raises: OptionError if num_heads does not divide d_model."""
        return Based(d_model, num_heads, self, causal=causal)


class Based(HeadMixer):
    """Multi-head Taylor attention with a window of softmax; options as in BasedConfig."""

    def __init__(self, d_model: int, num_heads: int, config: BasedConfig, *, causal: bool = True) -> None:
        width = config.feature_dim * num_heads
        super().__init__(d_model, num_heads, causal=causal, q_width=width, k_width=width)
        self.window = config.window

    def mix(self, q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """Like v; zeros where no key is seen.

        Chunks are no shorter than the window: pairs of the own chunk and its neighbours are weighed one by one, the
        chunks beyond them by their sums."""
        seq_len, after = q.shape[2], 0 if self.causal else 1
        size = max(self.window, min(CHUNK, seq_len))
        if key_padding_mask is not None:
            v = v.masked_fill(key_padding_mask[:, None, :, None], 0)
        there = real(key_padding_mask, seq_len, size, 0, 0, q.device).mT  # [batch or 1, 1, chunks, size, 1]
        q, k, v = (in_chunks(x, size) for x in (q * q.shape[-1] ** -0.5, k, with_ones(v)))
        age = ages(size, 1, after, q.device)
        see = real(key_padding_mask, seq_len, size, 1, after, q.device)
        see = see & (age >= 0) if self.causal else see.expand(*see.shape[:3], size, -1)
        near = see & (age.abs() < self.window)
        x = q @ beside(k, 1, after).mT
        # exp(x - top) and the expansion times exp(-top), with one top a query, that of its own window.
        top = x.masked_fill(~near, 0).amax(-1, keepdim=True).clamp(min=0).detach()
        exact = (x - top).masked_fill(~near, 0).exp() * near
        shrunk = (-top).exp()
        weights = exact + shrunk * taylor(x) * (see & ~near)
        far_keys = features(k) * there
        sums = far_keys.mT @ v
        far = sums_before(sums, 2)
        if not self.causal:
            far = far + sums_before(sums, 2, backwards=True)
        mixed = weights @ beside(v, 1, after) + shrunk * (features(q) @ far)
        return normalised(mixed).flatten(2, 3)[:, :, :seq_len]

    def step(self, hidden: Tensor, state: BasedState | None) -> tuple[Tensor, BasedState]:
        """One token, [batch, d_model], after a state (None: the first). Returns: the output and the next state."""
        q, k, v = self.projected(hidden[:, None])
        q, v = q * q.shape[-1] ** -0.5, with_ones(v)
        if state is None:
            state = (q.new_zeros(*q.shape[:2], features(k).shape[-1], v.shape[-1]), k[:, :, :0], v[:, :, :0])
        sums, near_k, near_v = state
        near_k, near_v = torch.cat((near_k, k), 2), torch.cat((near_v, v), 2)
        if near_k.shape[2] > self.window:
            sums = sums + features(near_k[:, :, :1]).mT @ near_v[:, :, :1]
            near_k, near_v = near_k[:, :, 1:], near_v[:, :, 1:]
        x = q @ near_k.mT
        top = x.amax(-1, keepdim=True).clamp(min=0)
        mixed = normalised((x - top).exp() @ near_v + (-top).exp() * (features(q) @ sums))
        return self.out(merge_heads(mixed)[:, 0]), (sums, near_k, near_v)


def taylor(x: Tensor) -> Tensor:
    """1 + x + x^2 / 2, which is positive everywhere."""
    return 1 + x + x.square() / 2


def features(x: Tensor) -> Tensor:
    """phi, [..., d'] to [..., 1 + d' + d'^2], with phi(x) . phi(y) = 1 + x . y + (x . y)^2 / 2."""
    squares = (x[..., :, None] * x[..., None, :]).flatten(-2) * 0.5**0.5
    return torch.cat((torch.ones_like(x[..., :1]), x, squares), dim=-1)

"""Softmax attention inside a sliding window."""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveInt
from torch import Tensor

from zeta_core.ops.impl import Impl

from .blocks_local import windowed
from .heads import HeadMixer
from .mixer import MixerConfig


class SlidingWindowConfig(MixerConfig):
    """Softmax attention to the last `window` tokens alone.

    o_i = sum over j in (i - window, i] of softmax_j(q_i . k_j / sqrt(d)) v_j; the bidirectional form sees as many
    tokens after as before. Source: Longformer (Beltagy et al. 2020), section 3.1, without global tokens."""

    kind: Literal["sliding_window"] = "sliding_window"
    window: PositiveInt = 16
    """Tokens seen, the query's own among them."""

    def build(self, d_model: int, num_heads: int, *, causal: bool = True, impl: Impl = "auto") -> SlidingWindow:
        """The mixer; `impl` means nothing to it. Raises: OptionError if num_heads does not divide d_model."""
        return SlidingWindow(d_model, num_heads, self, causal=causal)

    def sees(self, query: Tensor, key: Tensor, seq_len: int) -> Tensor:
        """Whether causal attention lets the token at `query` see the one at `key` (positions, int64): bool."""
        return (key <= query) & (query - key < self.window)


class SlidingWindow(HeadMixer):
    """Multi-head attention inside a window; options as in SlidingWindowConfig."""

    def __init__(self, d_model: int, num_heads: int, config: SlidingWindowConfig, *, causal: bool = True) -> None:
        super().__init__(d_model, num_heads, causal=causal)
        self.window = config.window

    def mix(self, q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """Like v; zeros where no key is seen."""
        return windowed(q, k, v, window=self.window, causal=self.causal, key_padding_mask=key_padding_mask)

"""Softmax attention as a textbook writes it."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch

from ..case import Shape, vectors
from .provider import Problem, Provider, all_pairs_bytes, past, softmax_attention


class NaiveProvider(Provider):
    """Dense softmax attention in plain torch, all pairs in memory."""

    kind: Literal["naive"] = "naive"
    dense: ClassVar[bool] = True

    def needs_bytes(self, shape: Shape, backward: bool) -> int:
        """Scores, masked scores and weights of all pairs."""
        pairs = all_pairs_bytes(shape, 4 if backward else 3, shape.item_bytes)
        return super().needs_bytes(shape, backward) + pairs

    def build(self, shape: Shape, device: torch.device) -> Problem:
        """Heads of width d_V, for queries and keys too."""
        q, k, v = vectors(shape, device, 3)
        see = past(shape.seq_len).to(device) if shape.causal else None
        small = None if see is None else see.cpu()
        return Problem(
            [q, k, v],
            v,
            lambda: softmax_attention(q, k, v, see),
            lambda q, k, v: softmax_attention(q, k, v, small),
        )

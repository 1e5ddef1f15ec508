"""What one row times: a provider at one shape, and the inputs it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from zeta_core.ops.attend import Score

Mode = Literal["forward", "forward_backward"]
Timing = Literal["eager", "graph"]
Points = Literal["random", "vocabulary", "equal", "clusters", "drifting"]
Dtype = Literal["fp32", "fp16", "bf16"]
MODES: tuple[Mode, ...] = get_args(Mode)
TIMINGS: tuple[Timing, ...] = get_args(Timing)
POINTS: tuple[Points, ...] = get_args(Points)
TORCH_DTYPES: dict[Dtype, torch.dtype] = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes and options of one timed call; a provider reads those that mean something to it."""

    seq_len: int
    batch: int
    heads: int
    d_k: int
    d_v: int
    top_k: int
    num_chunks: int
    score: Score
    history_mean: bool
    causal: bool
    points: Points
    dtype: Dtype
    seed: int

    @property
    def torch_dtype(self) -> torch.dtype:
        """Of the values, and of everything in providers without coordinates."""
        return TORCH_DTYPES[self.dtype]

    @property
    def item_bytes(self) -> int:
        """Bytes of one number in that type."""
        return self.torch_dtype.itemsize

    @property
    def rows(self) -> int:
        """batch * heads: how many attentions are computed side by side."""
        return self.batch * self.heads


def coordinates(shape: Shape, device: torch.device) -> tuple[Tensor, Tensor]:
    """Queries and keys in [0, 1]: [batch, heads, seq_len, d_K] float32, from torch's current seed.

    random: uniform. vocabulary: 64 distinct points, for both. equal: one point. clusters: queries in two tight
    clusters, keys uniform. drifting: both move from 0 to 1 with the position."""
    size = (shape.batch, shape.heads, shape.seq_len, shape.d_k)
    q, k = torch.rand(2, *size, device=device).unbind(0)
    if shape.points == "vocabulary":
        words = torch.rand(64, shape.d_k, device=device)
        q, k = (words[torch.randint(64, size[:-1], device=device)] for _ in range(2))
    elif shape.points == "equal":
        q, k = torch.full_like(q, 0.5), torch.full_like(k, 0.5)
    elif shape.points == "clusters":
        q = torch.where(torch.rand(*size[:-1], 1, device=device) < 0.5, 0.1, 0.9) + 0.001 * q
    elif shape.points == "drifting":
        place = torch.linspace(0, 0.98, shape.seq_len, device=device)[:, None]
        q, k = place + 0.02 * q, place + 0.02 * k
    return q, k


def vectors(shape: Shape, device: torch.device, count: int) -> list[Tensor]:
    """Normal tensors [batch, heads, seq_len, d_V] in the shape's type, from torch's current seed."""
    size = (shape.batch, shape.heads, shape.seq_len, shape.d_v)
    return [torch.randn(size, device=device, dtype=shape.torch_dtype) for _ in range(count)]

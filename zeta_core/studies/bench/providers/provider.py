"""What every provider has: how it is called, what it needs, and what it should give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from zeta_core.config import Config

from ..case import Shape

SLICE = 256
"""Tokens of the check before the timing."""


@dataclass(frozen=True)
class Problem:
    """A provider at one shape.

    inputs: what it has gradients for. like_out: a tensor of the output's shape and type. forward: computes from
    the inputs as they are. definition: the same from the inputs in float64 on a CPU, by the plainest computation."""

    inputs: list[Tensor]
    like_out: Tensor
    forward: Callable[[], Tensor]
    definition: Callable[..., Tensor]


class Provider(Config):
    """One way to mix tokens; a subclass names itself by its literal `kind`."""

    kind: str
    uses: ClassVar[tuple[str, ...]] = ()
    """The options beside sizes that mean something to it: top_k, num_chunks, points, ..."""
    dense: ClassVar[bool] = False
    """Whether it computes softmax attention over all pairs, which ZETA is compared with."""

    @property
    def compiles(self) -> bool:
        """Whether the first call at a new shape compiles, and so is not counted as a call."""
        return False

    def missing(self, shape: Shape, device: torch.device, backward: bool) -> str | None:
        """Why it cannot run here, forward or (if `backward`) forward and backward; None if it can."""
        return None

    def uncapturable(self, device: torch.device) -> str | None:
        """Why its calls cannot be replayed from a CUDA graph, or None if they can."""
        return None

    def slice_of(self, shape: Shape) -> Shape:
        """The small shape that is checked before a shape is timed: one sequence of 256 tokens and two heads at most.

        With random points: where all are equal a gradient is nothing but rounding, which `zeta check` judges."""
        seq_len, heads = min(shape.seq_len, SLICE), min(shape.heads, 2)
        return replace(shape, seq_len=seq_len, batch=1, heads=heads, points="random")

    def needs_bytes(self, shape: Shape, backward: bool) -> int:
        """An estimate from below of what a call allocates, inputs included."""
        tensor = shape.rows * shape.seq_len * shape.d_v * shape.item_bytes
        return tensor * (9 if backward else 4)

    def backend(self, device: torch.device) -> str:
        """What exactly computes, with its version."""
        return f"torch {torch.__version__}"

    def build(self, shape: Shape, device: torch.device) -> Problem:
        """Inputs from torch's current seed, and the call."""
        raise NotImplementedError


def all_pairs_bytes(shape: Shape, copies: int, item_bytes: int) -> int:
    """Of `copies` matrices with an entry for every pair of tokens."""
    return shape.rows * shape.seq_len**2 * item_bytes * copies


def softmax_attention(q: Tensor, k: Tensor, v: Tensor, see: Tensor | None = None) -> Tensor:
    """Softmax attention from its formula. see: [seq_len, seq_len] bool, the keys each query sees; None: all."""
    scores = q @ k.mT / q.shape[-1] ** 0.5
    mixed: Tensor = (scores if see is None else scores.masked_fill(~see, -torch.inf)).softmax(-1) @ v
    return mixed


def past(seq_len: int, window: int | None = None) -> Tensor:
    """[queries, keys] bool: itself and what came before; with a window only the last tokens of that."""
    ago = torch.arange(seq_len)[:, None] - torch.arange(seq_len)
    return (ago >= 0) if window is None else (ago >= 0) & (ago < window)

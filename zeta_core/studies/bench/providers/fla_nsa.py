"""Native sparse attention of the flash-linear-attention package."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from ..case import Shape
from .fla_linear import fla_version, missing_fla
from .provider import Problem, Provider, past, softmax_attention

GROUP = 16
"""Query heads that share a key head: fla's kernels take no fewer."""
BLOCK, BLOCKS = 64, 16
"""Tokens of a block, and blocks a query selects: the NSA paper's."""


class FlaNsaProvider(Provider):
    """NSA by fla's kernels: compressed blocks and 16 selected ones, 16 query heads on one key head, equal width."""

    kind: Literal["fla_nsa"] = "fla_nsa"

    @property
    def compiles(self) -> bool:
        """Triton kernels, tuned at each shape."""
        return True

    def missing(self, shape: Shape, device: torch.device, backward: bool) -> str | None:
        """fla's kernels need a GPU and the package; they are causal, and heads come in groups of 16."""
        if reason := missing_fla(device):
            return reason
        width = shape.heads * shape.d_v
        if width % GROUP or width // GROUP < 16:
            return f"its {GROUP} query heads need a width of {16 * GROUP} or more, a multiple of {GROUP}, not {width}"
        return None if shape.causal else "is causal; leave --bidirectional out"

    def slice_of(self, shape: Shape) -> Shape:
        """With all heads: their width together is what its own heads share."""
        return replace(super().slice_of(shape), heads=shape.heads)

    def backend(self, device: torch.device) -> str:
        """fla's version."""
        return fla_version()

    def build(self, shape: Shape, device: torch.device) -> Problem:
        """Queries [batch, seq_len, 16, d], keys and values [batch, seq_len, 1, d] with 16 d = heads * d_V."""
        from fla.ops.nsa import parallel_nsa

        d = shape.heads * shape.d_v // GROUP

        def normal(heads: int) -> Tensor:
            return torch.randn(shape.batch, shape.seq_len, heads, d, device=device, dtype=shape.torch_dtype)

        q, k, v = normal(GROUP), normal(1), normal(1)
        gates = torch.rand(2, shape.batch, shape.seq_len, GROUP, device=device, dtype=shape.torch_dtype)
        to_blocks, to_selected = gates.unbind(0)

        def forward() -> Tensor:
            out: Tensor = parallel_nsa(
                q, k, v, g_cmp=to_blocks, g_slc=to_selected, block_counts=BLOCKS, block_size=BLOCK
            )
            return out

        def definition(q: Tensor, k: Tensor, v: Tensor, to_blocks: Tensor, to_selected: Tensor) -> Tensor:
            seq_len = q.shape[1]
            assert seq_len <= BLOCK * BLOCKS, "every past block is selected at this length"
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            selected = softmax_attention(q, k, v, past(seq_len))
            whole = seq_len // BLOCK
            means = [t[:, :, : whole * BLOCK].reshape(*t.shape[:2], whole, BLOCK, d).mean(3) for t in (k, v)]
            ended = (torch.arange(whole) + 1) * BLOCK - 1 <= torch.arange(seq_len)[:, None]
            blocks = softmax_attention(q, means[0], means[1], ended)
            blocks = torch.where(ended.any(-1)[:, None], blocks, 0)
            mixed = blocks * to_blocks.mT[..., None] + selected * to_selected.mT[..., None]
            return mixed.transpose(1, 2)

        return Problem([q, k, v, to_blocks, to_selected], q, forward, definition)

"""torch's FlexAttention with a sliding window: as many keys a query as ZETA takes, but the last ones."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from ..case import Shape, vectors
from .provider import Problem, Provider, past, softmax_attention


class FlexWindowProvider(Provider):
    """FlexAttention over the last top_k tokens (not causal: fewer than top_k away on either side)."""

    kind: Literal["flex_window"] = "flex_window"
    uses: ClassVar[tuple[str, ...]] = ("top_k",)

    @property
    def compiles(self) -> bool:
        """Always, by torch's inductor."""
        return True

    def missing(self, shape: Shape, device: torch.device, backward: bool) -> str | None:
        """Heads must be 16 wide or more for its kernels; on a CPU torch has no backward."""
        if backward and device.type == "cpu":
            return "torch has no backward of FlexAttention for CPUs"
        return f"its kernels take heads of 16 or wider, not d_V={shape.d_v}" if shape.d_v < 16 else None

    def build(self, shape: Shape, device: torch.device) -> Problem:
        """Heads of width d_V, for queries and keys too; the mask is made once, ahead of the calls."""
        q, k, v = vectors(shape, device, 3)
        window = shape.top_k

        def near(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            ago = query - key
            return (ago < window) & ((ago >= 0) if shape.causal else (-ago < window))

        # Reset, since the compiler keeps what it made for other lengths and gives up after a few.
        torch.compiler.reset()
        compiled = torch.compile(flex_attention, dynamic=False)
        mask = create_block_mask(near, None, None, shape.seq_len, shape.seq_len, device=device.type)

        def definition(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            see = past(q.shape[2], window)
            return softmax_attention(q, k, v, see if shape.causal else see | see.mT)

        return Problem([q, k, v], v, lambda: compiled(q, k, v, block_mask=mask), definition)

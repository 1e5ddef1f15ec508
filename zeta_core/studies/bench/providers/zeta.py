"""ZETA: the whole operator, codes and sorts included."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from zeta_core.ops import zeta_attention, zeta_plan
from zeta_core.ops.impl import missing_for_kernels
from zeta_core.provenance import installed
from zeta_core.studies.definition import positions_to_mask, weighted_mean

from ..case import Shape, coordinates, vectors
from .provider import Problem, Provider

GAMMA = 0.047
"""Where the trained gamma starts, sigmoid(-3)."""


class ZetaProvider(Provider):
    """ZETA attention: Triton kernels, or the plain torch reference."""

    kind: Literal["zeta_triton", "zeta_reference"] = "zeta_triton"
    uses: ClassVar[tuple[str, ...]] = ("d_k", "top_k", "num_chunks", "score", "history_mean", "points")

    @property
    def compiles(self) -> bool:
        """The kernels."""
        return self.kind == "zeta_triton"

    def missing(self, shape: Shape, device: torch.device, backward: bool) -> str | None:
        """The kernels need a GPU and Triton; the reference runs anywhere."""
        return missing_for_kernels(device) if self.kind == "zeta_triton" else None

    def uncapturable(self, device: torch.device) -> str | None:
        """The reference sizes its blocks by what it finds, and so waits for the GPU."""
        return "its sizes depend on values" if self.kind == "zeta_reference" else None

    def backend(self, device: torch.device) -> str:
        """Triton, or torch alone."""
        return f"triton {installed('triton')}" if self.kind == "zeta_triton" else super().backend(device)

    def build(self, shape: Shape, device: torch.device) -> Problem:
        """Gradients for q, k, v and gamma."""
        q, k = coordinates(shape, device)
        (v,) = vectors(shape, device, 1)
        gamma = torch.tensor(GAMMA, device=device)
        impl: Literal["triton", "reference"] = "triton" if self.kind == "zeta_triton" else "reference"

        def forward() -> Tensor:
            return zeta_attention(
                q,
                k,
                v,
                gamma=gamma,
                num_chunks=shape.num_chunks,
                top_k=shape.top_k,
                score=shape.score,
                history_mean=shape.history_mean,
                causal=shape.causal,
                impl=impl,
            )

        def definition(q: Tensor, k: Tensor, v: Tensor, gamma: Tensor) -> Tensor:
            ids = zeta_plan(
                q.detach(),
                k.detach(),
                num_chunks=shape.num_chunks,
                top_k=shape.top_k,
                causal=shape.causal,
                impl="reference",
            ).indices()
            see = positions_to_mask(ids, q.shape[2])
            return weighted_mean(
                q, k, v, gamma, see, score=shape.score, history_mean=shape.history_mean, causal=shape.causal
            )

        return Problem([q, k, v, gamma], v, forward, definition)

"""The top_k truly nearest keys, found by comparing all pairs: what ZETA's curve saves."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from zeta_core.ops.attend import attend, nearest_keys
from zeta_core.ops.windows.reference import ReferencePlan
from zeta_core.studies.definition import weighted_mean

from ..case import Shape, coordinates, vectors
from .provider import Problem, Provider, past
from .zeta import GAMMA


class ExactTopkProvider(Provider):
    """Cauchy weights over the truly nearest keys of the past and itself, in plain torch."""

    kind: Literal["exact_topk"] = "exact_topk"
    uses: ClassVar[tuple[str, ...]] = ("d_k", "top_k", "score", "points")

    def uncapturable(self, device: torch.device) -> str | None:
        """As of the reference."""
        return "its sizes depend on values"

    def build(self, shape: Shape, device: torch.device) -> Problem:
        """Gradients for q, k, v and gamma; none through the choice."""
        q, k = coordinates(shape, device)
        (v,) = vectors(shape, device, 1)
        gamma = torch.tensor(GAMMA, device=device)

        def forward() -> Tensor:
            nearest = nearest_keys(
                q.detach(),
                k.detach(),
                top_k=shape.top_k,
                visibility="token",
                chunk_size=shape.seq_len,
                causal=shape.causal,
            )
            return attend(
                q,
                k,
                v,
                ReferencePlan(nearest),
                gamma=gamma,
                score=shape.score,
                history_mean=False,
                causal=shape.causal,
                impl="reference",
            )

        def definition(q: Tensor, k: Tensor, v: Tensor, gamma: Tensor) -> Tensor:
            see = nearest_of_all(q.detach(), k.detach(), shape.top_k, shape.causal)
            return weighted_mean(q, k, v, gamma, see, score=shape.score, history_mean=False, causal=shape.causal)

        return Problem([q, k, v, gamma], v, forward, definition)


def nearest_of_all(q: Tensor, k: Tensor, top_k: int, causal: bool) -> Tensor:
    """[batch, heads, queries, keys] bool: the top_k keys nearest to each query by a full sort, ties by position."""
    far = (q[..., :, None, :] - k[..., None, :, :]).square().sum(-1)
    visible = past(far.shape[-1]) if causal else torch.ones(far.shape[-2:], dtype=torch.bool)
    order = far.masked_fill(~visible, torch.inf).argsort(dim=-1, stable=True)
    place = torch.empty_like(order).scatter_(-1, order, torch.arange(far.shape[-1]).expand_as(order))
    return (place < top_k) & visible

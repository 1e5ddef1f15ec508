"""IceFormer: exact attention to the keys that random projections find nearest."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import torch
from pydantic import PositiveInt, model_validator
from torch import Tensor

from zeta_core.errors import OptionError
from zeta_core.ops.impl import Impl

from .heads import HeadMixer
from .mixer import MixerConfig
from .selected import attend_selected

QUERIES = 256
"""Queries whose projected distances to all keys are held at a time."""


class IceformerConfig(MixerConfig):
    """IceFormer: the nearest keys by random projections, exact attention to those.

    With k' = [k / c, sqrt(1 - |k|^2 / c^2)] and q' = [q / |q|, 0], where c is at least every |k|, the largest q . k
    is the nearest k'. A key is near a query if |u_l . (q' - k')| is small for all projections l of one of the groups:
    `num_candidates` keys that are near in this sense are compared by q . k, and the best top_k are attended to with
    softmax. Source: Mao et al. 2024, section 4 and its prioritised dynamic continuous indexing.
    Departs: c is the longest key that the query sees, as that of all keys would read the future; projected distances
    of all visible pairs are computed and sorted, where the paper visits sorted lists in order on a CPU, so time is
    quadratic with a small factor (memory is not). Projections are drawn once, when the module is built."""

    kind: Literal["iceformer"] = "iceformer"
    top_k: PositiveInt = 32
    num_candidates: PositiveInt | None = None
    """Keys compared exactly; None: 2 top_k."""
    num_projections: PositiveInt = 4
    """Projections in a group."""
    num_groups: PositiveInt = 2

    @model_validator(mode="after")
    def _enough_candidates(self) -> Self:
        if self.num_candidates is not None and self.num_candidates < self.top_k:
            raise OptionError(
                f"num_candidates={self.num_candidates} is less than top_k={self.top_k}; use at least that"
            )
        return self

    def build(self, d_model: int, num_heads: int, *, causal: bool = True, impl: Impl = "auto") -> Iceformer:
        """The mixer; `impl` means nothing to it. Raises: OptionError if num_heads does not divide d_model."""
        return Iceformer(d_model, num_heads, self, causal=causal)


class Iceformer(HeadMixer):
    """Multi-head attention to few keys; options as in IceformerConfig.

    directions: the u, [groups, projections, heads, d + 1], of unit length."""

    exact_projections: ClassVar[bool] = True
    directions: Tensor

    def __init__(self, d_model: int, num_heads: int, config: IceformerConfig, *, causal: bool = True) -> None:
        super().__init__(d_model, num_heads, causal=causal)
        self.config = config
        drawn = torch.randn(config.num_groups, config.num_projections, num_heads, d_model // num_heads + 1)
        self.register_buffer("directions", drawn / drawn.norm(dim=-1, keepdim=True))

    def mix(self, q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """Like v; zeros where no key is seen."""
        return attend_selected(q, k, v, self.chosen(q, k, key_padding_mask))

    @torch.no_grad()
    def chosen(self, q: Tensor, k: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """The keys of each query: [batch, heads, seq_len, top_k or fewer] int64, -1 for an empty slot."""
        lengths = k.norm(dim=-1)
        if key_padding_mask is not None:
            lengths = lengths.masked_fill(key_padding_mask[:, None], 0)
        longest = lengths.cummax(-1).values if self.causal else lengths.amax(-1, keepdim=True).expand_as(lengths)
        parts = []
        for start in range(0, q.shape[2], QUERIES):
            own = slice(start, start + QUERIES)
            see = self.seen(own, q, key_padding_mask)
            parts.append(self.chosen_of(q[:, :, own], k, longest[:, :, own, None], see))
        return torch.cat(parts, 2)

    def seen(self, own: slice, q: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """The keys that some queries may see: [batch or 1, 1, queries, seq_len] bool."""
        place = torch.arange(q.shape[2], device=q.device)
        see = (place <= place[own, None]) if self.causal else torch.ones_like(place[own, None] >= place)
        return see[None, None] if key_padding_mask is None else see & ~key_padding_mask[:, None, None]

    def chosen_of(self, q: Tensor, k: Tensor, longest: Tensor, see: Tensor) -> Tensor:
        """The keys of some queries; longest: [batch, heads, queries, 1], c."""
        c, seq_len = self.config, k.shape[2]
        scale = longest.clamp(min=1e-6)
        # u . k' = (u_d . k) / c + u_last sqrt(1 - |k|^2 / c^2), and c is the query's own
        rest = (1 - (k.norm(dim=-1)[:, :, None] / scale).square()).clamp(min=0).sqrt()
        unit = q / q.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        distance = torch.full_like(rest, torch.inf)
        for group in self.directions.to(q.dtype):
            furthest = torch.zeros_like(rest)
            for direction in group:  # [heads, d + 1]
                u = direction[:, :-1, None]
                apart = (unit @ u) - (k @ u).mT / scale - direction[:, -1, None, None] * rest
                furthest = torch.maximum(furthest, apart.abs())
            distance = torch.minimum(distance, furthest)
        count = min(c.num_candidates or 2 * c.top_k, seq_len)
        found = distance.masked_fill(~see, torch.inf).topk(count, largest=False).indices
        score = (q @ k.mT).masked_fill(~see, -torch.inf).take_along_dim(found, -1)
        best = score.topk(min(c.top_k, count))
        return found.take_along_dim(best.indices, -1).where(best.values > -torch.inf, -1)

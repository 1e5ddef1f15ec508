"""Reformer: attention among tokens that fall into the same bucket of a locality-sensitive hash."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor

from zeta_core.ops.impl import Impl

from .heads import HeadMixer
from .mixer import MixerConfig
from .selected import attend_selected


class ReformerConfig(MixerConfig):
    """Reformer: LSH attention with shared queries and keys, over several rounds of hashing.

    k_j = q_j / |q_j|; a round's bucket is argmax [x R; -x R] with a random R, and
    o_i = sum over j in P_i of softmax_j(q_i . k_j / sqrt(d)) v_j, where P_i is the union of the rounds' lists. That
    is what the rounds' outputs give when combined by their log-sum-exp, with the keys of several rounds counted once.
    A token attends to itself only if there is nothing else. Source: Kitaev et al. 2020, section 2, equations 2 to 6.
    Departs: the paper sorts by bucket and cuts the order into chunks, whose borders depend on how many later tokens
    fall into which bucket; here a token sees the last `window` tokens of its own bucket (not causal: as many after
    it too), a choice that the past alone decides. R is drawn once, when the module is built."""

    kind: Literal["reformer"] = "reformer"
    num_buckets: int = Field(default=16, ge=2, multiple_of=2)
    num_rounds: PositiveInt = 4
    window: PositiveInt = 32
    """Tokens of its own bucket that a token sees in a round."""

    def build(self, d_model: int, num_heads: int, *, causal: bool = True, impl: Impl = "auto") -> Reformer:
        """The mixer; `impl` means nothing to it. Raises: OptionError if num_heads does not divide d_model."""
        return Reformer(d_model, num_heads, self, causal=causal)


class Reformer(HeadMixer):
    """Multi-head LSH attention; options as in ReformerConfig. rotations: R, [rounds, heads, d, num_buckets / 2]."""

    exact_projections: ClassVar[bool] = True
    rotations: Tensor

    def __init__(self, d_model: int, num_heads: int, config: ReformerConfig, *, causal: bool = True) -> None:
        super().__init__(d_model, num_heads, causal=causal, k_width=0)
        self.config = config
        size = (config.num_rounds, num_heads, d_model // num_heads, config.num_buckets // 2)
        self.register_buffer("rotations", torch.randn(size))

    def projected(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v: [batch, heads, seq_len, dim]; the keys are the queries at unit length."""
        q, _, v = super().projected(hidden)
        return q, F.normalize(q, dim=-1, eps=1e-6), v

    def mix(self, q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """Like v; zeros where no key is seen."""
        return attend_selected(q, k, v, self.chosen(q, key_padding_mask))

    @torch.no_grad()
    def chosen(self, q: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """The keys of each token's buckets: [batch, heads, seq_len, slots] int64, -1 for an empty slot."""
        place = torch.arange(q.shape[2], device=q.device)
        lists = [
            mates(self.buckets(q, number, key_padding_mask), self.config.window, self.causal)
            for number in range(self.config.num_rounds)
        ]
        index = torch.cat(lists, -1)
        if key_padding_mask is not None:
            hidden = key_padding_mask[:, None]
            index = index.masked_fill(hidden[..., None], -1)
            place = torch.where(hidden, -1, place)
        alone = (index < 0).all(-1)
        return torch.cat((index, place.where(alone, -1)[..., None]), -1)

    def buckets(self, q: Tensor, number: int, key_padding_mask: Tensor | None) -> Tensor:
        """Each token's bucket in a round: [batch, heads, seq_len] int64; padded ones have one of their own."""
        turned = q @ self.rotations[number].to(q.dtype)
        found = torch.cat((turned, -turned), -1).argmax(-1)
        if key_padding_mask is None:
            return found
        return found.masked_fill(key_padding_mask[:, None], self.config.num_buckets)


def mates(buckets: Tensor, window: int, causal: bool) -> Tensor:
    """The last `window` tokens before each in its own bucket, and unless causal those after it.

    buckets: [..., seq_len] int64. Returns: [..., seq_len, slots] int64 positions, the nearest first, -1 for none."""
    seq_len = buckets.shape[-1]
    order = buckets.argsort(dim=-1, stable=True)
    inverse = order.argsort(-1)
    ordered = buckets.take_along_dim(order, -1)
    found = []
    for shift in range(1, min(window, seq_len - 1) + 1):
        for back in (True,) if causal else (True, False):
            pad = (shift, 0) if back else (0, shift)
            cut = slice(None, seq_len) if back else slice(shift, None)
            other = F.pad(ordered, pad, value=-1)[..., cut]
            found.append(F.pad(order, pad, value=-1)[..., cut].where(other == ordered, -1))
    if not found:
        return order[..., None][..., :0]
    lists: Tensor = torch.stack(found, -1).take_along_dim(inverse[..., None], -2)
    return lists

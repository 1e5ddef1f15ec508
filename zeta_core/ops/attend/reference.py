"""The weighted mean in plain torch with autograd, in blocks of queries so that memory stays bounded."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..blocks import query_blocks
from .scores import Score, closeness, directions, is_exponential, strength

SAVED_BYTES = 512 * 2**20
"""Above this much for gradients, blocks are computed again in the backward pass instead of being kept."""
FORWARD_BYTES = 16 * 2**20
"""Without gradients, blocks are small enough for their temporaries to stay in the processor's cache."""
GRADIENT_BYTES = 64 * 2**20
"""With gradients each block adds to whole gradients of k and v: fewer, larger blocks."""


class Extra(NamedTuple):
    """One more candidate for each of some queries: the history mean."""

    strength: Tensor
    """[rows, queries], as `scores.strength` gives it."""
    exists: Tensor
    """[rows, queries] bool."""
    share: Tensor
    """[rows, queries]: 1 / the number of tokens in the mean."""
    before: Tensor
    """[rows, blocks, d_V]: the sum of values before each block of 64 queries; or [rows, 1, d_V], the whole sum."""
    values: Tensor | None
    """[rows, queries, d_V]: the queries' own values, to go on from `before`; None where that is the whole sum."""

    def cut(self, first: int, last: int) -> Extra:
        """The same for the queries first..last-1; first is a multiple of 64."""
        strength, exists, share = (t[:, first:last] for t in self[:3])
        if self.values is None:
            return Extra(strength, exists, share, self.before, None)
        blocks = slice(first // PREFIX_BLOCK, -(-last // PREFIX_BLOCK))
        return Extra(strength, exists, share, self.before[:, blocks], self.values[:, first:last])

    def weighted_into(self, summed: Tensor, weight: Tensor) -> Tensor:
        """summed [rows, queries, d_V] + weight [rows, queries] times the mean values."""
        sums = self.before if self.values is None else prefix_sums(self.values, self.before)
        return torch.addcmul(summed, (weight * self.share)[..., None], sums)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ids: Tensor,
    *,
    gamma: Tensor,
    score: Score,
    history_mean: bool,
    local_window: int,
    causal: bool,
    key_padding_mask: Tensor | None,
) -> Tensor:
    """As in api.attend, with the window given as ids [batch, heads, seq_len, top_k] int64 (-1: empty)."""
    batch, heads, seq_len, d_k = q.shape
    rows = batch * heads
    local_window = min(local_window, seq_len)
    if v.numel() == 0:
        return v * 0
    dtype = torch.promote_types(torch.promote_types(q.dtype, v.dtype), torch.float32)
    gamma = gamma.to(dtype).repeat(batch)[:, None, None]
    keys, values = (t.reshape(rows, seq_len, -1).to(dtype) for t in (k, v))
    queries = directions(q.reshape(rows, seq_len, d_k).to(dtype), score)
    padded = None if key_padding_mask is None else key_padding_mask.repeat_interleave(heads, dim=0)
    extra = history(queries, keys, values, gamma, score, causal, padded) if history_mean else None
    keys = directions(keys, score)
    candidates = ids.shape[-1] + (local_window if causal else max(0, 2 * local_window - 1))
    needed = rows * candidates * (2 * d_k + 6) * keys.element_size()
    block_bytes = GRADIENT_BYTES if torch.is_grad_enabled() else FORWARD_BYTES
    again = torch.is_grad_enabled() and needed * seq_len > SAVED_BYTES
    parts = []
    for first, last in query_blocks(0, seq_len, needed, block_bytes):
        block = ids.view(rows, seq_len, -1)[:, first:last]
        if local_window:
            block = with_local(block, first, seq_len, local_window, causal, padded)
        part = None if extra is None else extra.cut(first, last)
        arguments = (queries[:, first:last], keys, values, block, gamma, score, part)
        parts.append(checkpoint(mean, *arguments, use_reentrant=False) if again else mean(*arguments))
    return torch.cat(parts, dim=1).view(v.shape).to(v.dtype)


def mean(
    q: Tensor, keys: Tensor, values: Tensor, ids: Tensor, gamma: Tensor, score: Score, extra: Extra | None
) -> Tensor:
    """The normalised weighted mean for one block of queries: [rows, queries, d_V]."""
    rows, num_queries, slots = ids.shape
    seq_len = keys.shape[1]
    empty = ids < 0
    # An empty slot points at some candidate of its own row, so that weight 0 never meets another row's NaN.
    safe = torch.where(empty, ids.amax(-1, keepdim=True).clamp(min=0), ids)
    flat = safe + torch.arange(rows, device=ids.device)[:, None, None] * seq_len
    gathered = F.embedding(flat, keys.flatten(0, 1))
    raw = strength(closeness(q[:, :, None], gathered, score), gamma, score)
    weight, extra_weight = weights(raw, empty, extra, score)
    summed = F.embedding_bag(
        flat.view(rows * num_queries, slots),
        values.flatten(0, 1),
        per_sample_weights=weight.view(rows * num_queries, slots),
        mode="sum",
    ).view(rows, num_queries, -1)
    total = weight.sum(-1, keepdim=True)
    nothing = empty.all(-1, keepdim=True)
    summed = summed.masked_fill(nothing, 0)
    if extra is not None and extra_weight is not None:
        summed = extra.weighted_into(summed, extra_weight)
        total = total + extra_weight[..., None]
        nothing = nothing & ~extra.exists[..., None]
    return (summed / total.masked_fill(nothing, 1)).masked_fill(nothing, 0)


def weights(raw: Tensor, empty: Tensor, extra: Extra | None, score: Score) -> tuple[Tensor, Tensor | None]:
    """Weights of the slots and of the extra candidate, on a common scale for each query; 0 where empty."""
    if not is_exponential(score):
        weight = raw.masked_fill(empty, 0)
        return weight, None if extra is None else extra.strength.masked_fill(~extra.exists, 0)
    lowest = torch.finfo(raw.dtype).min
    raw = raw.masked_fill(empty, lowest)
    top = raw.detach().amax(-1)
    if extra is not None:
        top = top.maximum(extra.strength.detach().masked_fill(~extra.exists, lowest))
    weight = (raw - top[..., None]).exp().masked_fill(empty, 0)
    if extra is None:
        return weight, None
    return weight, (extra.strength - top).masked_fill(~extra.exists, lowest).exp().masked_fill(~extra.exists, 0)


def history(
    q: Tensor, keys: Tensor, values: Tensor, gamma: Tensor, score: Score, causal: bool, padded: Tensor | None
) -> Extra:
    """The mean key and value over the tokens 0..i (over all tokens if not causal), as one candidate."""
    rows, seq_len, _ = keys.shape
    if padded is None:
        count = torch.arange(1, seq_len + 1, device=keys.device, dtype=keys.dtype).expand(rows, seq_len)
    else:
        keys, values = (t.masked_fill(padded[..., None], 0) for t in (keys, values))
        count = (~padded).to(keys.dtype).cumsum(1)
    share = count.clamp(min=1).reciprocal()
    if causal:
        mean_key = prefix_sums(keys, sums_before(keys)) * share[..., None]
        exists, before, own = count > 0, sums_before(values), values
    else:
        share = share[:, -1:].expand(rows, seq_len)
        mean_key = keys.sum(1, keepdim=True) * share[:, :1, None]
        exists, before, own = (count[:, -1:] > 0).expand(rows, seq_len), values.sum(1, keepdim=True), None
    close = closeness(q, directions(mean_key, score), score)
    return Extra(strength(close, gamma[..., 0], score), exists, share, before, own)


PREFIX_BLOCK = 64


def in_blocks(x: Tensor) -> Tensor:
    """x [rows, seq_len, dim] as [rows, blocks, 64, dim], zeros past the end."""
    rows, seq_len, dim = x.shape
    blocks = -(-seq_len // PREFIX_BLOCK)
    return F.pad(x, (0, 0, 0, blocks * PREFIX_BLOCK - seq_len)).view(rows, blocks, PREFIX_BLOCK, dim)


def sums_before(x: Tensor) -> Tensor:
    """The sum of x [rows, seq_len, dim] before each block of 64 tokens: [rows, blocks, dim]."""
    # Shifted: the running sum minus the block's own would be rounded by the block's later tokens.
    return F.pad(in_blocks(x).sum(2).cumsum(1)[:, :-1], (0, 0, 1, 0))


def prefix_sums(x: Tensor, before: Tensor) -> Tensor:
    """Inclusive sums over dimension 1 of [rows, seq_len, dim], by a triangular product inside blocks of 64.

    before: [rows, blocks, dim], what to add to each block. Several times faster on a CPU than torch.cumsum
    along a middle dimension, forward and backward. On a GPU a plain cumsum: 0 times the NaN of a later token
    must not reach an earlier one there, while on a CPU non-finite values were refused before."""
    rows, seq_len, dim = x.shape
    if x.device.type != "cpu":
        return (in_blocks(x).cumsum(2) + before[:, :, None]).view(rows, -1, dim)[:, :seq_len]
    lower = torch.ones(PREFIX_BLOCK, PREFIX_BLOCK, dtype=x.dtype, device=x.device).tril()
    cut = in_blocks(x)
    sums = torch.baddbmm(
        before.reshape(-1, 1, dim),
        lower.expand(cut.shape[0] * cut.shape[1], -1, -1),
        cut.reshape(-1, PREFIX_BLOCK, dim),
    )
    return sums.view(rows, -1, dim)[:, :seq_len]


def with_local(
    ids: Tensor, first: int, seq_len: int, local_window: int, causal: bool, padded: Tensor | None
) -> Tensor:
    """ids of a block of queries with the local tokens appended, and taken out of the window: a union."""
    rows, num_queries, _ = ids.shape
    position = torch.arange(first, first + num_queries, device=ids.device)[:, None]
    offset = torch.arange(-local_window + 1, 1 if causal else local_window, device=ids.device)
    local = (position + offset).expand(rows, num_queries, -1)
    outside = (local < 0) | (local >= seq_len)
    if padded is not None:
        outside = outside | padded.gather(1, local.clamp(0, seq_len - 1).flatten(1)).view(local.shape)
    near = (position - ids < local_window) & (ids - position < local_window)
    return torch.cat((ids.masked_fill(near, -1), local.masked_fill(outside, -1)), dim=-1)

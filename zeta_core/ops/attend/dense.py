"""All keys compared with all queries: what ZETA approximates (`selection` exact and all)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from ..blocks import block_bytes, query_blocks
from .reference import history, weights
from .scores import Score, directions, strength

Visibility = Literal["chunk", "token"]


def visible_keys(
    first: int,
    last: int,
    seq_len: int,
    *,
    visibility: Visibility,
    chunk_size: int,
    causal: bool,
    local_window: int = 0,
    device: torch.device | None = None,
) -> Tensor:
    """Which keys the queries first..last-1 see: [last - first, seq_len] bool.

    chunk: the keys of earlier chunks; token: all of the past and itself. Not causal: every key.
    A local window's keys are seen besides."""
    query = torch.arange(first, last, device=device)[:, None]
    key = torch.arange(seq_len, device=device)
    if not causal:
        return torch.ones(last - first, seq_len, dtype=torch.bool, device=device)
    if visibility == "token":
        return key <= query
    return (key // chunk_size < query // chunk_size) | ((key <= query) & (query - key < local_window))


@torch.no_grad()
def nearest_keys(
    q: Tensor,
    k: Tensor,
    *,
    top_k: int,
    visibility: Visibility,
    chunk_size: int,
    causal: bool,
    key_padding_mask: Tensor | None = None,
) -> Tensor:
    """The top_k visible keys truly nearest to each query by Euclidean distance, ties by position.

    q, k: [batch, heads, seq_len, d_K]. Returns: [batch, heads, seq_len, top_k] int64 positions in order of
    position, -1 past the end. What the Z-order curve approximates: it bounds recall."""
    batch, heads, seq_len, _ = q.shape
    ids = torch.full((batch, heads, seq_len, top_k), -1, dtype=torch.int64, device=q.device)
    take = min(top_k, seq_len)
    for first, last in query_blocks(0, seq_len, batch * heads * seq_len * 40, block_bytes(q.device)):
        see = visible_keys(
            first, last, seq_len, visibility=visibility, chunk_size=chunk_size, causal=causal, device=q.device
        )
        if key_padding_mask is not None:
            see = see & ~key_padding_mask[:, None, None]
        far = squared_distances(q[:, :, first:last], k).masked_fill(~see, torch.inf)
        nearest = smallest(far, take)
        visible = see.expand(far.shape).gather(-1, nearest)
        nearest = torch.where(visible, nearest, seq_len).sort(-1).values
        ids[:, :, first:last, :take] = torch.where(nearest < seq_len, nearest, -1)
    return ids


def smallest(values: Tensor, count: int) -> Tensor:
    """Where the `count` smallest of each row are, in no order; ties by position, but for infinity, where any will do.

    values: [..., n] floats. Returns: [..., count] int64."""
    found, places = values.topk(count, largest=False, sorted=False)
    last = found.amax(-1, keepdim=True)
    # topk takes any of those that tie for its last places: such rows are few, and are sorted.
    tied = ((values <= last).sum(-1) > count) & last[..., 0].isfinite()
    if tied.any():
        places[tied] = values[tied].argsort(dim=-1, stable=True)[..., :count]
    return places


def dense_attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    gamma: Tensor,
    score: Score,
    visibility: Visibility,
    chunk_size: int,
    causal: bool,
    history_mean: bool,
    local_window: int,
    key_padding_mask: Tensor | None = None,
) -> Tensor:
    """Weighted mean over all visible keys; shapes and options as in `attend`, gamma [heads]."""
    batch, heads, seq_len, d_k = q.shape
    rows = batch * heads
    dtype = torch.promote_types(torch.promote_types(q.dtype, v.dtype), torch.float32)
    gamma = gamma.to(dtype).repeat(batch)[:, None, None]
    keys, values = (t.reshape(rows, seq_len, -1).to(dtype) for t in (k, v))
    queries = directions(q.reshape(rows, seq_len, d_k).to(dtype), score)
    padded = None if key_padding_mask is None else key_padding_mask.repeat_interleave(heads, dim=0)
    extra = history(queries, keys, values, gamma, score, causal, padded) if history_mean else None
    keys = directions(keys, score)
    parts = []
    for first, last in query_blocks(0, seq_len, rows * seq_len * 6 * keys.element_size(), block_bytes(q.device)):
        see = visible_keys(
            first,
            last,
            seq_len,
            visibility=visibility,
            chunk_size=chunk_size,
            causal=causal,
            local_window=local_window,
            device=q.device,
        )
        empty = (~see).expand(rows, -1, -1) if padded is None else ~see | padded[:, None]
        block = queries[:, first:last]
        close = block @ keys.mT if score == "normalized_dot" else squared_distances(block, keys)
        part = None if extra is None else extra.cut(first, last)
        weight, extra_weight = weights(strength(close, gamma, score), empty, part, score)
        summed, total = weight @ values, weight.sum(-1, keepdim=True)
        if part is not None and extra_weight is not None:
            summed = part.weighted_into(summed, extra_weight)
            total = total + extra_weight[..., None]
        nothing = total.detach() == 0
        parts.append((summed / total.masked_fill(nothing, 1)).masked_fill(nothing, 0))
    return torch.cat(parts, dim=1).view(v.shape).to(v.dtype)


def squared_distances(q: Tensor, k: Tensor) -> Tensor:
    """Squared Euclidean distances [..., queries, keys] by differences, not by products, which lose the small ones.

    q, k: [..., queries, d_K] and [..., keys, d_K]; gradients for both."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    found: Tensor = _SquaredDistances.apply(q.to(dtype), k.to(dtype))  # type: ignore[no-untyped-call]
    return found


class _SquaredDistances(torch.autograd.Function):
    """Keeps q and k alone, not a difference for every pair and dimension."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor) -> Tensor:
        ctx.save_for_backward(q, k)
        if q.device.type == "cpu":
            return torch.cdist(q, k, compute_mode="donot_use_mm_for_euclid_dist").square_()
        return by_dimensions(q, k)  # one pass a dimension

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        q, k = ctx.saved_tensors
        (gradient,) = gradients
        to_q = 2 * (q * gradient.sum(-1, keepdim=True) - gradient @ k)
        to_k = 2 * (k * gradient.sum(-2)[..., None] - gradient.mT @ q)
        return to_q, to_k


def by_dimensions(q: Tensor, k: Tensor) -> Tensor:
    """Squared distances, summed one dimension after the other."""
    total = q.new_zeros(*q.shape[:-1], k.shape[-2])
    for one_q, one_k in zip(q.unbind(-1), k.unbind(-1), strict=True):
        apart = one_q[..., :, None] - one_k[..., None, :]
        total.addcmul_(apart, apart)
    return total

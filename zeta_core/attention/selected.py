"""Exact softmax attention to a list of keys a query."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .heads import masked_softmax

LONGEST_DENSE = 1024
"""Tokens up to which all pairs are multiplied and the list is a mask: faster there than fetching keys, and on a GPU
the same bits each time."""
FETCHED = 1 << 24
"""Numbers of keys that are fetched at a time in longer sequences."""


def attend_selected(q: Tensor, k: Tensor, v: Tensor, index: Tensor, *, longest_dense: int = LONGEST_DENSE) -> Tensor:
    """Softmax of q . k / sqrt(d) over the keys of a list; a key that is named twice counts once.

    q, k: [batch, heads, seq_len, dim]; v: [batch, heads, seq_len, d_V]; index: [batch, heads, seq_len, slots] int64
    positions, -1 for an empty slot. Returns: like v; zeros where the list is empty. Memory: seq_len * slots in the
    end, as what was fetched is fetched again for the gradient."""
    q = q * q.shape[-1] ** -0.5
    if k.shape[2] <= longest_dense:
        return dense(q, k, v, index)
    step = max(1, FETCHED // max(1, q.shape[0] * q.shape[1] * index.shape[-1] * max(q.shape[-1], v.shape[-1])))
    parts = []
    for own_q, own_index in zip(torch.split(q, step, 2), torch.split(index, step, 2), strict=True):
        part = checkpoint(fetched, own_q, k, v, own_index, use_reentrant=False, preserve_rng_state=False)
        assert isinstance(part, Tensor)
        parts.append(part)
    return torch.cat(parts, 2)


def dense(q: Tensor, k: Tensor, v: Tensor, index: Tensor) -> Tensor:
    """All pairs, those off the list masked."""
    seq_len = k.shape[2]
    see = torch.zeros(*index.shape[:3], seq_len + 1, dtype=torch.bool, device=q.device)
    see.scatter_(-1, index.where(index >= 0, seq_len), True)
    return masked_softmax(q @ k.mT, see[..., :seq_len]) @ v


def fetched(q: Tensor, k: Tensor, v: Tensor, index: Tensor) -> Tensor:
    """Keys and values of each list, side by side."""
    index = index.sort(-1).values
    again = torch.zeros_like(index, dtype=torch.bool)
    again[..., 1:] = index[..., 1:] == index[..., :-1]
    see = (index >= 0) & ~again
    places = index.clamp(min=0).flatten(2)[..., None]
    keys, values = (
        torch.unflatten(x.gather(2, places.expand(-1, -1, -1, x.shape[-1])), 2, index.shape[2:]) for x in (k, v)
    )
    weights = masked_softmax((keys @ q[..., None])[..., 0], see)
    out: Tensor = (weights[..., None, :] @ values)[..., 0, :]
    return out

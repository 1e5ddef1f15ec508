"""How spread out the attention is: what the paper says a trained gamma keeps from collapsing or exploding."""

from __future__ import annotations

import torch
from torch import Tensor

from .api import gamma_like
from .reference import history, weights, with_local
from .scores import Score, closeness, directions, strength


@torch.no_grad()
def attention_entropy(
    q: Tensor,
    k: Tensor,
    ids: Tensor,
    *,
    gamma: float | Tensor,
    score: Score,
    history_mean: bool,
    local_window: int,
    causal: bool,
) -> Tensor:
    """Mean entropy in nats of the normalised weights, over the queries that have a candidate: [batch, heads].

    q, k: [batch, heads, seq_len, d_K]; ids: [batch, heads, seq_len, slots] int64, -1 for an empty slot. Options
    as in `attend`. Holds all weights at once: for looking at a few sequences, not for training."""
    batch, heads, seq_len, _ = q.shape
    dtype = torch.promote_types(q.dtype, torch.float32)
    keys, queries = (t.reshape(batch * heads, seq_len, -1).to(dtype) for t in (k, q))
    scale = gamma_like(gamma, q).repeat(batch)[:, None, None]
    queries = directions(queries, score)
    extra = history(queries, keys, keys, scale, score, causal, None) if history_mean else None
    ids = ids.flatten(0, 1)
    if local_window:
        ids = with_local(ids, 0, seq_len, local_window, causal, None)
    flat = ids.clamp(min=0).flatten(1)[..., None].expand(-1, -1, keys.shape[-1])
    gathered = directions(keys, score).gather(1, flat).view(*ids.shape, -1)
    raw = strength(closeness(queries[:, :, None], gathered, score), scale, score)
    weight, extra_weight = weights(raw, ids < 0, extra, score)
    if extra_weight is not None:
        weight = torch.cat((weight, extra_weight[..., None]), dim=-1)
    total = weight.sum(-1, keepdim=True)
    entropy = torch.special.entr(weight / total.clamp(min=torch.finfo(dtype).tiny)).sum(-1)
    some = total[..., 0] > 0
    mean: Tensor = (entropy * some).sum(-1) / some.sum(-1).clamp(min=1)
    return mean.view(batch, heads)

"""The operator's weighted mean from its formula, over all pairs: slow, plain, for float64."""

from __future__ import annotations

import torch
from torch import Tensor

from zeta_core.ops.attend import Score


def weighted_mean(
    q: Tensor, k: Tensor, v: Tensor, gamma: Tensor, see: Tensor, *, score: Score, history_mean: bool, causal: bool
) -> Tensor:
    """Mean of values over the keys that `see` allows, with the history mean as one more candidate if wanted.

    q, k: [batch, heads, seq_len, d_K]; v: [batch, heads, seq_len, d_V]; gamma: 0-d or [heads];
    see: bool, broadcast to [batch, heads, seq_len, seq_len]. Returns: like v.
    Source: ZETA, Adaptive Cauchy-Softmax."""
    gamma = gamma.reshape(-1, 1)
    weight = torch.where(see, weights(q[..., :, None, :], k[..., None, :, :], gamma[..., None], score), 0)
    total, summed = weight.sum(-1, keepdim=True), weight @ v
    if history_mean:
        seq_len = q.shape[2]
        average = torch.ones(seq_len, seq_len, dtype=q.dtype, device=q.device)
        average = average.tril() if causal else average
        average = average / average.sum(-1, keepdim=True)
        extra = weights(q, average @ k, gamma, score)[..., None]
        summed, total = summed + extra * (average @ v), total + extra
    return torch.where(total > 0, summed / torch.where(total > 0, total, 1), 0)


def weights(q: Tensor, k: Tensor, gamma: Tensor, score: Score) -> Tensor:
    """Of keys for queries, before they are normalised."""
    if score == "normalized_dot":
        return torch.exp((torch.cosine_similarity(2 * q - 1, 2 * k - 1, dim=-1) - 1) / gamma)
    squared = (q - k).square().sum(-1)
    if score == "cauchy":
        return 1 / (squared + gamma**2)
    if score == "negative_euclidean":
        return torch.exp(-squared / gamma**2)
    return 1 / ((squared + 1e-300).sqrt() + gamma)


def positions_to_mask(ids: Tensor, seq_len: int) -> Tensor:
    """[..., seq_len] bool from positions [..., slots], where -1 is none."""
    see = torch.zeros(*ids.shape[:-1], seq_len + 1, dtype=torch.bool, device=ids.device)
    return see.scatter_(-1, ids % (seq_len + 1), True)[..., :seq_len]

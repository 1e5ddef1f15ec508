"""Causal linear attention in chunks: sums over the past of products of features."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 64
"""Tokens whose products are formed pair by pair; what lies before them is one matrix of sums."""
SMALLEST = 1e-12
"""Of a normaliser: below, nothing was seen."""


def in_chunks(x: Tensor, size: int) -> Tensor:
    """[batch, heads, seq_len, dim] to [batch, heads, chunks, size, dim], zeros behind the end."""
    return torch.unflatten(F.pad(x, (0, 0, 0, -x.shape[2] % size)), 2, (-1, size))


def sums_before(x: Tensor, lag: int = 1, *, backwards: bool = False) -> Tensor:
    """For each chunk (dimension 2) the sum of x over the chunks at least `lag` before it, or behind it.

    A running sum adds later chunks to a sum that is there already, and so changes no bit of an earlier one."""
    x = x.flip(2) if backwards else x
    total = F.pad(x.cumsum(2), (0, 0, 0, 0, lag, 0))[:, :, : x.shape[2]]
    return total.flip(2) if backwards else total


def causal_sums(q: Tensor, k: Tensor, v: Tensor, chunk: int = CHUNK) -> Tensor:
    """The sum over j <= i of (q_i . k_j) v_j, with time and memory linear in seq_len.

    q, k: [batch, heads, seq_len, features]; v: [batch, heads, seq_len, d_V]. Returns: like v.
    Source: Hua et al. 2022 (Transformer quality in linear time), section 3.3, for the chunks."""
    seq_len = v.shape[2]
    q, k, v = (in_chunks(x, min(chunk, max(seq_len, 1))) for x in (q, k, v))
    own = (q @ k.mT).tril() @ v
    return (own + q @ sums_before(k.mT @ v)).flatten(2, 3)[:, :, :seq_len]


def linear_attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, key_padding_mask: Tensor | None) -> Tensor:
    """The mean of the values visible to i with weights (q_i . k_j), which must not be negative.

    q, k: features [batch, heads, seq_len, features]; v: [batch, heads, seq_len, d_V]; key_padding_mask:
    [batch, seq_len] bool, True = ignore. Returns: like v; zeros where all weights are zero."""
    if key_padding_mask is not None:
        ignored = key_padding_mask[:, None, :, None]
        k, v = k.masked_fill(ignored, 0), v.masked_fill(ignored, 0)
    v = with_ones(v)
    return normalised(causal_sums(q, k, v) if causal else q @ (k.mT @ v))


def linear_step(q: Tensor, k: Tensor, v: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """One token of causal linear attention: q, k, v [batch, heads, 1, dim], state [batch, heads, features, d_V + 1].

    Returns: the output, like v, and the next state; None stands for the state before the first token."""
    added = k.mT @ with_ones(v)
    state = added if state is None else state + added
    return normalised(q @ state), state


def with_ones(v: Tensor) -> Tensor:
    """Values with a last column of ones, whose sums are the normalisers."""
    return torch.cat((v, torch.ones_like(v[..., :1])), dim=-1)


def normalised(sums: Tensor) -> Tensor:
    """Sums of weighted values divided by their last column."""
    return sums[..., :-1] / sums[..., -1:].clamp(min=SMALLEST)

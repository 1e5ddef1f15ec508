"""Local windows in blocks of fixed positions: each block of queries beside the blocks of keys around it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .heads import masked_softmax
from .linear import in_chunks


def beside(blocks: Tensor, before: int, after: int) -> Tensor:
    """[batch, heads, blocks, size, dim] to [..., blocks, (before + 1 + after) * size, dim], zeros outside."""
    count = blocks.shape[2]
    padded = F.pad(blocks, (0, 0, 0, 0, before, after))
    return torch.cat([padded[:, :, start : start + count] for start in range(before + 1 + after)], dim=3)


def ages(size: int, before: int, after: int, device: torch.device) -> Tensor:
    """How many tokens a key of `beside` lies before a query of the block: [size, span] int64."""
    keys = torch.arange((before + 1 + after) * size, device=device) - before * size
    return torch.arange(size, device=device)[:, None] - keys


def real(
    key_padding_mask: Tensor | None, seq_len: int, size: int, before: int, after: int, device: torch.device
) -> Tensor:
    """Which keys of `beside` are tokens that are not padded: [batch or 1, 1, blocks, 1, span] bool."""
    keep = torch.ones(1, seq_len, device=device) if key_padding_mask is None else (~key_padding_mask).float()
    return beside(in_chunks(keep[:, None, :, None], size), before, after).mT > 0


def windowed(
    q: Tensor, k: Tensor, v: Tensor, *, window: int, causal: bool, key_padding_mask: Tensor | None
) -> Tensor:
    """Softmax attention to the last `window` tokens, the query's own among them; if not causal, to those after too.

    q, k: [batch, heads, seq_len, dim]; v: [batch, heads, seq_len, d_V]; key_padding_mask: [batch, seq_len] bool.
    Returns: like v; zeros where no key is seen. Time and memory: seq_len * window."""
    seq_len, after = q.shape[2], 0 if causal else 1
    size = min(window, seq_len)
    age = ages(size, 1, after, q.device)
    near = (age < window) & (age >= 0 if causal else age > -window)
    see = near & real(key_padding_mask, seq_len, size, 1, after, q.device)
    logits = (in_chunks(q, size) * q.shape[-1] ** -0.5) @ beside(in_chunks(k, size), 1, after).mT
    values = beside(in_chunks(v, size), 1, after)
    return (masked_softmax(logits, see) @ values).flatten(2, 3)[:, :, :seq_len]

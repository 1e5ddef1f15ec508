"""The weighted mean of values over each query's candidates."""

from __future__ import annotations

import torch
from torch import Tensor

from zeta_core.errors import ShapeError

from ..impl import Impl, resolve_impl
from ..windows.api import WindowPlan
from . import reference
from .scores import Score


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    plan: WindowPlan,
    *,
    gamma: float | Tensor,
    score: Score = "cauchy",
    history_mean: bool = True,
    local_window: int = 0,
    causal: bool = True,
    key_padding_mask: Tensor | None = None,
    impl: Impl = "auto",
) -> Tensor:
    """Mean of values over each query's candidates, weighted by score; gradients for q, k, v and gamma.

    Candidates: the plan's window; with history_mean the mean of keys and of values over 0..i (over the whole
    sequence if not causal) as one more; with local_window w the tokens i-w+1..i (|i - j| < w if not causal),
    a key that is also in the window counting once. A row with no candidate gives zeros and zero gradients.

    q, k: [batch, heads, seq_len, d_K]; v: [batch, heads, seq_len, d_V]; any float dtype, computed in float32
    at least. gamma: float, 0-d or [heads]. key_padding_mask: [batch, seq_len] bool, True = ignore the key.
    Returns: like v. Raises: ShapeError. Source: ZETA, Adaptive Cauchy-Softmax and history mean."""
    if q.shape != k.shape or q.shape[:-1] != v.shape[:-1]:
        raise ShapeError(f"q {list(q.shape)}, k {list(k.shape)} and v {list(v.shape)} do not fit each other")
    resolve_impl(impl, q.device)
    return reference.attend(
        q,
        k,
        v,
        plan.indices(),
        gamma=gamma_like(gamma, q),
        score=score,
        history_mean=history_mean,
        local_window=local_window,
        causal=causal,
        key_padding_mask=key_padding_mask,
    )


def gamma_like(gamma: float | Tensor, q: Tensor) -> Tensor:
    """gamma as a [heads] tensor in the dtype that the operator computes in (float32 at least)."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    return torch.as_tensor(gamma, dtype=dtype, device=q.device).expand(q.shape[1])

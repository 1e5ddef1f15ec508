"""The weighted mean of values over each query's candidates."""

from __future__ import annotations

import torch
from torch import Tensor

from zeta_core.errors import OptionError, ShapeError

from ..impl import Impl, resolve_impl
from ..windows.api import WindowPlan
from ..windows.reference import ReferencePlan
from . import reference
from .scores import SCORES, Score

MAX_D_V = 256
"""Wider values than this go to the reference."""


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
    if v.numel() == 0:
        return v * 0
    if resolve_impl(impl, q.device) == "triton" and not isinstance(plan, ReferencePlan):
        return attend_by_kernels(q, k, v, plan, gamma, score, history_mean, local_window, causal, key_padding_mask)
    if impl == "triton":
        raise OptionError("impl='triton' needs a plan that the kernels made: call zeta_plan with impl='triton'")
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


def attend_by_kernels(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    plan: WindowPlan,
    gamma: float | Tensor,
    score: Score,
    history_mean: bool,
    local_window: int,
    causal: bool,
    key_padding_mask: Tensor | None,
) -> Tensor:
    """`attend` by the Triton kernels, for a plan that they made."""
    from .. import kernel_ops

    options = (SCORES.index(score), history_mean, local_window, causal, key_padding_mask)
    return kernel_ops.attend_plan(q, k, v, plan, gamma_tensor(gamma, q), *options)


def gamma_tensor(gamma: float | Tensor, q: Tensor) -> Tensor:
    """gamma as the kernels read it: float32 where q is, 0-d or [heads]."""
    if isinstance(gamma, Tensor):
        as_read = gamma.dtype is torch.float32 and gamma.device == q.device
        return gamma if as_read else gamma.to(dtype=torch.float32, device=q.device)
    return torch.full((), gamma, dtype=torch.float32, device=q.device)


def unfused(q: Tensor, k: Tensor, v: Tensor) -> str | None:
    """Why the kernels cannot take these tensors; None if they can."""
    if torch.float64 in (q.dtype, k.dtype, v.dtype):
        return "float64 inputs; the kernels compute in float32"
    if v.shape[-1] > MAX_D_V:
        return f"d_V={v.shape[-1]} is above {MAX_D_V}"
    if v.shape[-2] * max(v.shape[-1], q.shape[-1]) >= 2**31:
        return "one head has 2^31 numbers or more"
    return None


def gamma_like(gamma: float | Tensor, q: Tensor) -> Tensor:
    """gamma as a [heads] tensor in the dtype that the operator computes in (float32 at least)."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    if not isinstance(gamma, Tensor):
        return torch.full((q.shape[1],), gamma, dtype=dtype, device=q.device)
    return gamma.to(dtype=dtype, device=q.device).expand(q.shape[1])

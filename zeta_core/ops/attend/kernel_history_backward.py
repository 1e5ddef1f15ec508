"""The gradient of the history mean: a pass in token order, then one from the end that returns to keys and values."""

from __future__ import annotations

import triton
import triton.language as tl

from .kernel_history import add_up, compared, is_finite, means
from .kernel_pairs import NORMALIZED_DOT, gamma_factor, inverse, pull_factor, slopes, unit_of, weigh


@triton.jit
def history_backward_steps(
    q_base, k_base, v_base, out_base, grad_base, mask_base, stat_ptr, delta_ptr, dq_ptr, share_ptr, pull_ptr, base,
    values, keys, count, gamma, unit, begin, seq_len, stretch, stride_qn, stride_kn, stride_vn, stride_on, stride_gn,
    DIMS: tl.constexpr, PAD_K: tl.constexpr, D_V: tl.constexpr, PAD_V: tl.constexpr, SCORE: tl.constexpr,
    CAUSAL: tl.constexpr, PADDED: tl.constexpr, HISTORY: tl.constexpr, FINITE: tl.constexpr, BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    dim, coord = tl.arange(0, PAD_V), tl.arange(0, PAD_K)
    sent_v = tl.zeros([BLOCK, PAD_V], tl.float32)
    sent_k = tl.zeros([BLOCK, PAD_K], tl.float32)
    dgamma = tl.zeros([BLOCK], tl.float32)
    for i in tl.range(0, stretch, BLOCK, num_stages=STAGES):
        token = begin + i + tl.arange(0, BLOCK)
        valid = token < seq_len
        wide = valid[:, None] & (dim < D_V)[None, :]
        # grad, out: [BLOCK, PAD_V]
        grad = tl.load(grad_base + (token * stride_gn)[:, None] + dim[None, :], mask=wide, other=0.0).to(tl.float32)
        out = tl.load(out_base + (token * stride_on)[:, None] + dim[None, :], mask=wide, other=0.0).to(tl.float32)
        delta = tl.sum(grad * out, 1)
        tl.store(delta_ptr + base + token, delta, mask=valid)
        narrow = valid[:, None] & (coord < DIMS)[None, :]
        own = (base + token)[:, None] * DIMS + coord[None, :]
        if HISTORY:
            u, x, number, values, keys, count = means(
                token, valid, v_base, k_base, stride_vn, stride_kn, mask_base, values, keys, count, DIMS, PAD_K, D_V,
                PAD_V, CAUSAL, PADDED, FINITE, BLOCK,
            )  # fmt: skip
            # q: [BLOCK, PAD_K], stat: [BLOCK]
            q = tl.load(q_base + (token * stride_qn)[:, None] + coord[None, :], mask=narrow, other=0.0)
            q = q.to(tl.float32) * unit
            stat = tl.load(stat_ptr + base + token, mask=valid, other=1.0)
            close, x, norm, short = compared(q, x, gamma, unit, DIMS, PAD_K, SCORE)
            P, e, of_gamma = slopes(
                valid & (number > 0), close, tl.sum(grad * u, 1), delta, inverse(stat, SCORE), gamma, SCORE
            )  # fmt: skip
            dgamma += of_gamma
            each = 1.0 / tl.maximum(number, 1.0)
            if SCORE == NORMALIZED_DOT:
                dq = e[:, None] * x
                flat = q - x * tl.sum(q * x, 1)[:, None]
                pull = tl.where(short, 0.0, 2 * e / norm)[:, None] * flat * each[:, None]
            else:
                dq = pull_factor(unit, SCORE) * e[:, None] * (q - x)
                pull = -dq * each[:, None]
            pull = tl.where(narrow, pull, 0.0)
            tl.store(dq_ptr + own, dq, mask=narrow)
            tl.store(pull_ptr + own, pull, mask=narrow)
            tl.store(share_ptr + base + token, P * each, mask=valid)
            sent_v += grad * (P * each)[:, None]
            sent_k += pull
        else:
            tl.store(dq_ptr + own, tl.zeros([BLOCK, PAD_K], tl.float32), mask=narrow)
    return tl.sum(sent_v, 0), tl.sum(sent_k, 0), tl.sum(dgamma, 0)


@triton.jit
def history_backward_kernel(
    q_ptr, k_ptr, v_ptr, gamma_ptr, mask_ptr, sums_ptr, out_ptr, stat_ptr, grad_ptr, delta_ptr, dq_ptr, share_ptr,
    pull_ptr, later_ptr, dgamma_ptr, heads, seq_len, stretches, stretch, dgamma_stride, stride_qb, stride_qh,
    stride_qn, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn, stride_ob, stride_oh, stride_on,
    stride_gb, stride_gh, stride_gn, DIMS: tl.constexpr, PAD_K: tl.constexpr, D_V: tl.constexpr, PAD_V: tl.constexpr,
    SCORE: tl.constexpr, GAMMA_STEP: tl.constexpr, CAUSAL: tl.constexpr, PADDED: tl.constexpr, HISTORY: tl.constexpr,
    BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """delta of every row; with HISTORY also this candidate's part of dq and dgamma, and what it sends back.

    share [rows, seq_len] is P / c and pull [rows, seq_len, DIMS] the gradient of the mean key over c; later
    [rows, stretches, PAD_V + PAD_K + 1] sums of share * dO and of pull. dq is written, not added to."""
    pid = tl.program_id(0)
    row = pid // stretches
    index = pid % stretches
    batch = (row // heads).to(tl.int64)
    head = (row % heads).to(tl.int64)
    q_base = q_ptr + batch * stride_qb + head * stride_qh
    k_base = k_ptr + batch * stride_kb + head * stride_kh
    v_base = v_ptr + batch * stride_vb + head * stride_vh
    out_base = out_ptr + batch * stride_ob + head * stride_oh
    grad_base = grad_ptr + batch * stride_gb + head * stride_gh
    mask_base = mask_ptr + batch * seq_len
    base = row.to(tl.int64) * seq_len
    dim, coord = tl.arange(0, PAD_V), tl.arange(0, PAD_K)
    gamma = tl.load(gamma_ptr + head * GAMMA_STEP)
    unit = unit_of(gamma, SCORE)
    gamma *= unit
    values, keys, count = tl.zeros([PAD_V], tl.float32), tl.zeros([PAD_K], tl.float32), 0.0
    finite = pid >= 0
    if HISTORY:
        finite = is_finite(sums_ptr, pid, PAD_K, PAD_V)
        upto = index if CAUSAL else stretches
        values, keys, count = add_up(sums_ptr, row, 0, upto, stretches, PAD_K, PAD_V)
    if finite:
        sent_v, sent_k, dgamma = history_backward_steps(
            q_base, k_base, v_base, out_base, grad_base, mask_base, stat_ptr, delta_ptr, dq_ptr, share_ptr, pull_ptr,
            base, values, keys, count, gamma, unit, index * stretch, seq_len, stretch, stride_qn, stride_kn,
            stride_vn, stride_on, stride_gn, DIMS, PAD_K, D_V, PAD_V, SCORE, CAUSAL, PADDED, HISTORY, True, BLOCK,
            STAGES,
        )  # fmt: skip
    else:
        sent_v, sent_k, dgamma = history_backward_steps(
            q_base, k_base, v_base, out_base, grad_base, mask_base, stat_ptr, delta_ptr, dq_ptr, share_ptr, pull_ptr,
            base, values, keys, count, gamma, unit, index * stretch, seq_len, stretch, stride_qn, stride_kn,
            stride_vn, stride_on, stride_gn, DIMS, PAD_K, D_V, PAD_V, SCORE, CAUSAL, PADDED, HISTORY, False, BLOCK,
            STAGES,
        )  # fmt: skip
    tl.store(dgamma_ptr + row * dgamma_stride + index, gamma_factor(gamma, unit, SCORE) * dgamma)
    if HISTORY:
        to = later_ptr + pid.to(tl.int64) * (PAD_V + PAD_K + 1)
        tl.store(to + dim, sent_v)
        tl.store(to + PAD_V + coord, sent_k)
        tl.store(to + PAD_V + PAD_K, 0.0)


@triton.jit
def history_return_kernel(
    grad_ptr, mask_ptr, share_ptr, pull_ptr, later_ptr, dk_ptr, dv_ptr, heads, seq_len, stretches, stretch,
    stride_gb, stride_gh, stride_gn, stride_vb, stride_vh, stride_vn, DIMS: tl.constexpr, PAD_K: tl.constexpr,
    D_V: tl.constexpr, PAD_V: tl.constexpr, CAUSAL: tl.constexpr, PADDED: tl.constexpr, NEED_V: tl.constexpr,
    BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Add to dv_j and dk_j what the means over 0..i send back from every i >= j (from every i, if not causal)."""
    pid = tl.program_id(0)
    row = pid // stretches
    index = pid % stretches
    batch = (row // heads).to(tl.int64)
    head = (row % heads).to(tl.int64)
    grad_base = grad_ptr + batch * stride_gb + head * stride_gh
    dv_base = dv_ptr + batch * stride_vb + head * stride_vh
    base = row.to(tl.int64) * seq_len
    dim, coord = tl.arange(0, PAD_V), tl.arange(0, PAD_K)
    since = index + 1 if CAUSAL else 0
    values, keys, _count = add_up(later_ptr, row, since, stretches, stretches, PAD_K, PAD_V)
    for i in tl.range(0, stretch, BLOCK, num_stages=STAGES):
        token = index * stretch + stretch - BLOCK - i + tl.arange(0, BLOCK)
        valid = token < seq_len
        wide = valid[:, None] & (dim < D_V)[None, :]
        narrow = valid[:, None] & (coord < DIMS)[None, :]
        own = (base + token)[:, None] * DIMS + coord[None, :]
        if CAUSAL:
            # pull: [BLOCK, PAD_K]
            pull = tl.load(pull_ptr + own, mask=narrow, other=0.0)
            to_k = keys[None, :] + tl.cumsum(pull, 0, reverse=True)
            keys += tl.sum(pull, 0)
        else:
            to_k = keys[None, :] + tl.zeros([BLOCK, PAD_K], tl.float32)
        if NEED_V:
            if CAUSAL:
                # grad: [BLOCK, PAD_V], share: [BLOCK]
                grad = tl.load(grad_base + (token * stride_gn)[:, None] + dim[None, :], mask=wide, other=0.0)
                share = tl.load(share_ptr + base + token, mask=valid, other=0.0)
                line = tl.arange(0, BLOCK)
                above = tl.where(line[:, None] <= line[None, :], share[None, :], 0.0)
                to_v = values[None, :] + weigh(above, grad)
                values += tl.sum(grad.to(tl.float32) * share[:, None], 0)
            else:
                to_v = values[None, :] + tl.zeros([BLOCK, PAD_V], tl.float32)
        if PADDED:
            # ignored: [BLOCK] bool
            kept = tl.load(mask_ptr + batch * seq_len + token, mask=valid, other=1) == 0
            wide = wide & kept[:, None]
            narrow = narrow & kept[:, None]
        # dk: [BLOCK, PAD_K]
        dk = tl.load(dk_ptr + own, mask=narrow, other=0.0)
        tl.store(dk_ptr + own, dk + to_k, mask=narrow)
        if NEED_V:
            dv_at = dv_base + (token * stride_vn)[:, None] + dim[None, :]
            # dv: [BLOCK, PAD_V]
            dv = tl.load(dv_at, mask=wide, other=0.0).to(tl.float32)
            tl.store(dv_at, (dv + to_v).to(dv_ptr.dtype.element_ty), mask=wide)

"""The local window, in token order: the last tokens whatever their chunk (both sides if not causal)."""

from __future__ import annotations

import triton
import triton.language as tl

from .kernel_pairs import (
    NORMALIZED_DOT,
    closeness,
    columns,
    corrected,
    exponential,
    gamma_factor,
    inverse,
    merged,
    nothing_yet,
    product,
    pull_factor,
    rounded,
    slopes,
    strength,
    unit_of,
    weigh_apart,
    wide_rows,
)


@triton.jit
def near(query, key, local, CAUSAL: tl.constexpr):
    if CAUSAL:
        return (key <= query) & (query - key < local)
    else:
        return tl.abs(query - key) < local


@triton.jit
def counted(key, mask_ptr, batch, seq_len, PADDED: tl.constexpr):
    ok = (key >= 0) & (key < seq_len)
    if PADDED:
        # ignored: like key, bool
        ok = ok & (tl.load(mask_ptr + batch * seq_len + key, mask=ok, other=1) == 0)
    return ok


@triton.jit
def local_kernel(
    q_ptr, k_ptr, v_ptr, gamma_ptr, mask_ptr, out_ptr, stat_ptr, heads, seq_len, local, first_row, blocks, stride_qb,
    stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn, stride_ob, stride_oh,
    stride_on, DIMS: tl.constexpr, D_V: tl.constexpr, PAD_V: tl.constexpr, SCORE: tl.constexpr, GAMMA_STEP:
    tl.constexpr, CAUSAL: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Merge the local tokens into out and stat; rows before first_row hold nothing yet."""
    pid = tl.program_id(0)
    row = pid // blocks
    first = (pid % blocks) * BLOCK
    batch = (row // heads).to(tl.int64)
    head = (row % heads).to(tl.int64)
    token = first + tl.arange(0, BLOCK)
    valid = token < seq_len
    safe = tl.minimum(token, seq_len - 1)
    q_at = q_ptr + batch * stride_qb + head * stride_qh + safe * stride_qn
    gamma = tl.load(gamma_ptr + head * GAMMA_STEP)
    unit = unit_of(gamma, SCORE)
    gamma *= unit
    dim = tl.arange(0, PAD_V)
    # q: [BLOCK, 1], one coordinate each
    q0, q1, q2, q3 = columns(q_at[:, None], unit, DIMS)
    summed = tl.zeros([BLOCK, PAD_V], tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    used = tl.zeros([BLOCK], tl.float32)
    top = tl.full([BLOCK], float("-inf"), tl.float32)
    begin = tl.maximum(first - local + 1, 0)
    end = tl.minimum(first + BLOCK if CAUSAL else first + BLOCK + local - 1, seq_len)
    for n in range(begin, end, BLOCK):
        key = n + tl.arange(0, BLOCK)
        inside = counted(key, mask_ptr, batch, seq_len, PADDED)
        other = tl.minimum(key, seq_len - 1)
        k_at = k_ptr + batch * stride_kb + head * stride_kh + other * stride_kn
        # x: [1, BLOCK], one coordinate each; values: [BLOCK, PAD_V]
        x0, x1, x2, x3 = columns(k_at[None, :], unit, DIMS)
        values = wide_rows(v_ptr + batch * stride_vb + head * stride_vh, other * stride_vn, D_V, PAD_V)
        close = closeness(q0, q1, q2, q3, x0, x1, x2, x3, q_at[:, None], k_at[None, :], unit, gamma, DIMS, SCORE)
        ok = inside[None, :] & near(token[:, None], key[None, :], local, CAUSAL)
        weight = strength(close, gamma, SCORE)
        if exponential(SCORE):
            weight = tl.where(ok, weight, float("-inf"))
            higher = tl.maximum(top, tl.max(weight, 1))
            scale = tl.where(higher == float("-inf"), 0.0, higher)
            weight = tl.exp(weight - scale[:, None])
            before = tl.exp(top - scale)
            total = total * before + tl.sum(weight, 1)
            used = used * before + tl.sum(rounded(weight, values), 1)
            summed = summed * before[:, None] + weigh_apart(weight, ok, values)
            top = higher
        else:
            weight = tl.where(ok, weight, 0.0)
            total += tl.sum(weight, 1)
            used += tl.sum(rounded(weight, values), 1)
            summed += weigh_apart(weight, ok, values)
    summed *= corrected(total, used)[:, None]
    known = valid & (token >= first_row)
    out_at = out_ptr + batch * stride_ob + head * stride_oh + (token * stride_on)[:, None] + dim[None, :]
    stat_at = stat_ptr + row.to(tl.int64) * seq_len + token
    # out: [BLOCK, PAD_V], stat: [BLOCK]
    old = tl.load(out_at, mask=known[:, None] & (dim < D_V)[None, :], other=0.0).to(tl.float32)
    stat = tl.where(known, tl.load(stat_at, mask=known, other=0.0), nothing_yet(total, SCORE))
    out, stat = merged(old, stat, summed, total, top, SCORE)
    tl.store(out_at, out.to(out_ptr.dtype.element_ty), mask=valid[:, None] & (dim < D_V)[None, :])
    tl.store(stat_at, stat, mask=valid)


@triton.jit
def local_backward_kernel(
    q_ptr, k_ptr, v_ptr, gamma_ptr, mask_ptr, grad_ptr, stat_ptr, delta_ptr, dq_ptr, dgamma_ptr, heads, seq_len,
    local, blocks, dgamma_stride, stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, stride_vb,
    stride_vh, stride_vn, stride_gb, stride_gh, stride_gn, DIMS: tl.constexpr, PAD_K: tl.constexpr, D_V: tl.constexpr,
    PAD_V: tl.constexpr, SCORE: tl.constexpr, GAMMA_STEP: tl.constexpr, CAUSAL: tl.constexpr, PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Add the local tokens' part to dq, and write theirs of dgamma."""
    pid = tl.program_id(0)
    row = pid // blocks
    first = (pid % blocks) * BLOCK
    batch = (row // heads).to(tl.int64)
    head = (row % heads).to(tl.int64)
    base = row.to(tl.int64) * seq_len
    token = first + tl.arange(0, BLOCK)
    valid = token < seq_len
    safe = tl.minimum(token, seq_len - 1)
    q_at = q_ptr + batch * stride_qb + head * stride_qh + safe * stride_qn
    gamma = tl.load(gamma_ptr + head * GAMMA_STEP)
    unit = unit_of(gamma, SCORE)
    gamma *= unit
    coord = tl.arange(0, PAD_K)
    # q: [BLOCK, 1], one coordinate each; grad: [BLOCK, PAD_V]; stat, delta: [BLOCK]
    q0, q1, q2, q3 = columns(q_at[:, None], unit, DIMS)
    grad = wide_rows(grad_ptr + batch * stride_gb + head * stride_gh, safe * stride_gn, D_V, PAD_V)
    inverted = inverse(tl.load(stat_ptr + base + safe), SCORE)
    delta = tl.load(delta_ptr + base + safe)
    narrow = valid[:, None] & (coord < DIMS)[None, :]
    dq_at = dq_ptr + (base + token)[:, None] * DIMS + coord[None, :]
    # q, dq: [BLOCK, PAD_K]
    q = tl.load(q_at[:, None] + coord[None, :], mask=narrow, other=0.0).to(tl.float32) * unit
    dq = tl.load(dq_at, mask=narrow, other=0.0)
    pulled = tl.zeros([BLOCK, PAD_K], tl.float32)
    sent = tl.zeros([BLOCK], tl.float32)
    dgamma = tl.zeros([BLOCK], tl.float32)
    begin = tl.maximum(first - local + 1, 0)
    end = tl.minimum(first + BLOCK if CAUSAL else first + BLOCK + local - 1, seq_len)
    for n in range(begin, end, BLOCK):
        key = n + tl.arange(0, BLOCK)
        inside = counted(key, mask_ptr, batch, seq_len, PADDED)
        other = tl.minimum(key, seq_len - 1)
        k_at = k_ptr + batch * stride_kb + head * stride_kh + other * stride_kn
        # x: [1, BLOCK], one coordinate each; values: [BLOCK, PAD_V]
        x0, x1, x2, x3 = columns(k_at[None, :], unit, DIMS)
        values = wide_rows(v_ptr + batch * stride_vb + head * stride_vh, other * stride_vn, D_V, PAD_V)
        close = closeness(q0, q1, q2, q3, x0, x1, x2, x3, q_at[:, None], k_at[None, :], unit, gamma, DIMS, SCORE)
        ok = valid[:, None] & inside[None, :] & near(token[:, None], key[None, :], local, CAUSAL)
        _P, e, of_gamma = slopes(
            ok, close, product(grad, tl.trans(values)), delta[:, None], inverted[:, None], gamma, SCORE
        )  # fmt: skip
        dgamma += tl.sum(of_gamma, 1)
        # x: [BLOCK, PAD_K]
        x = tl.load(k_at[:, None] + coord[None, :], mask=(coord < DIMS)[None, :], other=0.0).to(tl.float32) * unit
        pulled += tl.dot(e, x, input_precision="ieee")
        sent += tl.sum(e, 1)
    if SCORE != NORMALIZED_DOT:
        pulled = q * sent[:, None] - pulled
    tl.store(dq_at, dq + pull_factor(unit, SCORE) * pulled, mask=narrow)
    tl.store(dgamma_ptr + row * dgamma_stride + pid % blocks, gamma_factor(gamma, unit, SCORE) * tl.sum(dgamma, 0))


@triton.jit
def local_keys_kernel(
    q_ptr, k_ptr, v_ptr, gamma_ptr, mask_ptr, grad_ptr, stat_ptr, delta_ptr, dk_ptr, dv_ptr, heads, seq_len, local,
    blocks, stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
    stride_gb, stride_gh, stride_gn, stride_wb, stride_wh, stride_wn, DIMS: tl.constexpr, PAD_K: tl.constexpr,
    D_V: tl.constexpr, PAD_V: tl.constexpr, SCORE: tl.constexpr, GAMMA_STEP: tl.constexpr, CAUSAL: tl.constexpr,
    PADDED: tl.constexpr, NEED_V: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add the part of the queries near a key to dk and dv."""
    pid = tl.program_id(0)
    row = pid // blocks
    first = (pid % blocks) * BLOCK
    batch = (row // heads).to(tl.int64)
    head = (row % heads).to(tl.int64)
    base = row.to(tl.int64) * seq_len
    key = first + tl.arange(0, BLOCK)
    held = counted(key, mask_ptr, batch, seq_len, PADDED)
    safe = tl.minimum(key, seq_len - 1)
    k_at = k_ptr + batch * stride_kb + head * stride_kh + safe * stride_kn
    gamma = tl.load(gamma_ptr + head * GAMMA_STEP)
    unit = unit_of(gamma, SCORE)
    gamma *= unit
    dim, coord = tl.arange(0, PAD_V), tl.arange(0, PAD_K)
    # x: [BLOCK, 1], one coordinate each; values: [BLOCK, PAD_V]
    x0, x1, x2, x3 = columns(k_at[:, None], unit, DIMS)
    values = wide_rows(v_ptr + batch * stride_vb + head * stride_vh, safe * stride_vn, D_V, PAD_V)
    pulled = tl.zeros([BLOCK, PAD_K], tl.float32)
    sent = tl.zeros([BLOCK], tl.float32)
    dv = tl.zeros([BLOCK, PAD_V], tl.float32)
    begin = first if CAUSAL else tl.maximum(first - local + 1, 0)
    end = tl.minimum(first + BLOCK + local - 1, seq_len)
    for n in range(begin, end, BLOCK):
        query = n + tl.arange(0, BLOCK)
        valid = query < seq_len
        other = tl.minimum(query, seq_len - 1)
        q_at = q_ptr + batch * stride_qb + head * stride_qh + other * stride_qn
        # q: [1, BLOCK], one coordinate each; grad: [BLOCK, PAD_V]; stat, delta: [BLOCK]
        q0, q1, q2, q3 = columns(q_at[None, :], unit, DIMS)
        grad = wide_rows(grad_ptr + batch * stride_gb + head * stride_gh, other * stride_gn, D_V, PAD_V)
        inverted = inverse(tl.load(stat_ptr + base + other), SCORE)
        delta = tl.load(delta_ptr + base + other)
        close = closeness(q0, q1, q2, q3, x0, x1, x2, x3, q_at[None, :], k_at[:, None], unit, gamma, DIMS, SCORE)
        ok = held[:, None] & valid[None, :] & near(query[None, :], key[:, None], local, CAUSAL)
        P, e, _of_gamma = slopes(
            ok, close, product(values, tl.trans(grad)), delta[None, :], inverted[None, :], gamma, SCORE
        )  # fmt: skip
        if NEED_V:
            if grad.dtype == tl.float32:
                dv += tl.dot(P, grad, input_precision="ieee")
            else:
                dv += tl.dot(P.to(grad.dtype), grad)
        # q: [BLOCK, PAD_K]
        q = tl.load(q_at[:, None] + coord[None, :], mask=(coord < DIMS)[None, :], other=0.0).to(tl.float32) * unit
        pulled += tl.dot(e, q, input_precision="ieee")
        sent += tl.sum(e, 1)
    narrow = held[:, None] & (coord < DIMS)[None, :]
    if SCORE != NORMALIZED_DOT:
        # x: [BLOCK, PAD_K]
        x = tl.load(k_at[:, None] + coord[None, :], mask=narrow, other=0.0).to(tl.float32) * unit
        pulled = x * sent[:, None] - pulled
    pulled *= pull_factor(unit, SCORE)
    dk_at = dk_ptr + (base + key)[:, None] * DIMS + coord[None, :]
    # dk: [BLOCK, PAD_K]
    tl.store(dk_at, tl.load(dk_at, mask=narrow, other=0.0) + pulled, mask=narrow)
    if NEED_V:
        dv_at = dv_ptr + batch * stride_wb + head * stride_wh + (key * stride_wn)[:, None] + dim[None, :]
        wide = held[:, None] & (dim < D_V)[None, :]
        # dv: [BLOCK, PAD_V]
        dv += tl.load(dv_at, mask=wide, other=0.0).to(tl.float32)
        tl.store(dv_at, dv.to(dv_ptr.dtype.element_ty), mask=wide)

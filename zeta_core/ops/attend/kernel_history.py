"""The history mean, in token order: one more candidate, the mean key and value over tokens 0..i.

A program takes a stretch of tokens. Sums of every stretch come first; then each program adds up the sums
before its own and goes on block by block with a carry. The backward pass does the same from the end."""

from __future__ import annotations

import triton
import triton.language as tl

from .kernel_pairs import (
    CAUCHY,
    NORMALIZED_DOT,
    SMALLEST_NORM,
    exponential,
    merged,
    nothing_yet,
    strength,
    term,
    unit_of,
)

TABLE = tl.constexpr(4096)
"""Elements of the sums that are added up at once: rows of 64 values, 64 at a time."""


@triton.jit
def sums_kernel(
    k_ptr, v_ptr, mask_ptr, sums_ptr, heads, seq_len, stretches, stretch, stride_kb, stride_kh, stride_kn, stride_vb,
    stride_vh, stride_vn, DIMS: tl.constexpr, PAD_K: tl.constexpr, D_V: tl.constexpr, PAD_V: tl.constexpr,
    PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums of v, of k and the number of keys of every stretch: [rows, stretches, PAD_V + PAD_K + 1]."""
    pid = tl.program_id(0)
    row = pid // stretches
    first = (pid % stretches) * stretch
    batch = (row // heads).to(tl.int64)
    head = (row % heads).to(tl.int64)
    k_base = k_ptr + batch * stride_kb + head * stride_kh
    v_base = v_ptr + batch * stride_vb + head * stride_vh
    dim, coord = tl.arange(0, PAD_V), tl.arange(0, PAD_K)
    values = tl.zeros([BLOCK, PAD_V], tl.float32)
    keys = tl.zeros([BLOCK, PAD_K], tl.float32)
    count = tl.zeros([BLOCK], tl.float32)
    for i in tl.range(0, stretch, BLOCK, num_stages=1):
        token = first + i + tl.arange(0, BLOCK)
        valid = token < seq_len
        if PADDED:
            # ignored: [BLOCK] bool
            ignored = tl.load(mask_ptr + batch * seq_len + token, mask=valid, other=1)
            valid = valid & (ignored == 0)
        # v: [BLOCK, PAD_V], k: [BLOCK, PAD_K]
        values += tl.load(
            v_base + (token * stride_vn)[:, None] + dim[None, :],
            mask=valid[:, None] & (dim < D_V)[None, :],
            other=0.0,
        ).to(tl.float32)
        keys += tl.load(
            k_base + (token * stride_kn)[:, None] + coord[None, :],
            mask=valid[:, None] & (coord < DIMS)[None, :],
            other=0.0,
        ).to(tl.float32)
        count += valid.to(tl.float32)
    to = sums_ptr + pid.to(tl.int64) * (PAD_V + PAD_K + 1)
    tl.store(to + dim, tl.sum(values, 0))
    tl.store(to + PAD_V + coord, tl.sum(keys, 0))
    tl.store(to + PAD_V + PAD_K, tl.sum(count, 0))


@triton.jit
def add_up(sums_ptr, row, begin, end, stretches, PAD_K: tl.constexpr, PAD_V: tl.constexpr):
    """The sums of the stretches begin..end-1 of one row, in their order: [PAD_V], [PAD_K] and a number."""
    dim, coord = tl.arange(0, PAD_V), tl.arange(0, PAD_K)
    values = tl.zeros([(TABLE // PAD_V), PAD_V], tl.float32)
    keys = tl.zeros([(TABLE // PAD_V), PAD_K], tl.float32)
    count = tl.zeros([(TABLE // PAD_V)], tl.float32)
    for i in range(begin, end, (TABLE // PAD_V)):
        at = i + tl.arange(0, (TABLE // PAD_V))
        valid = at < end
        from_row = sums_ptr + (row * stretches + at).to(tl.int64) * (PAD_V + PAD_K + 1)
        # sums of v, of k, counts: one row a stretch
        values += tl.load(from_row[:, None] + dim[None, :], mask=valid[:, None] & (dim >= 0)[None, :], other=0.0)
        keys += tl.load(
            from_row[:, None] + PAD_V + coord[None, :], mask=valid[:, None] & (coord >= 0)[None, :], other=0.0
        )
        count += tl.load(from_row + PAD_V + PAD_K, mask=valid, other=0.0)
    return tl.sum(values, 0), tl.sum(keys, 0), tl.sum(count, 0)


@triton.jit
def directions(x, DIMS: tl.constexpr, PAD_K: tl.constexpr):
    """Unit vectors of 2 x - 1 over the first DIMS columns, their length before, and whether it was too short."""
    inside = (tl.arange(0, PAD_K) < DIMS)[None, :]
    centred = tl.where(inside, 2 * x - 1, 0.0)
    squared = tl.sum(centred * centred, 1)
    short = squared < SMALLEST_NORM * SMALLEST_NORM
    norm = tl.where(short, SMALLEST_NORM, tl.sqrt(tl.where(short, 1.0, squared)))
    return centred / norm[:, None], norm, short


@triton.jit
def running_sum(v, FINITE: tl.constexpr, BLOCK: tl.constexpr):
    """Inclusive sums of v [BLOCK, PAD_V] over rows in float32.

    Half precision goes through a product with a triangle of ones, which is exact; but there 0 times the NaN of
    a later token is NaN, so it is for stretches that hold nothing of the kind."""
    if v.dtype == tl.float32 or not FINITE:
        return tl.cumsum(v.to(tl.float32), 0)
    else:
        line = tl.arange(0, BLOCK)
        return tl.dot((line[:, None] >= line[None, :]).to(v.dtype), v)


@triton.jit
def is_finite(sums_ptr, pid, PAD_K: tl.constexpr, PAD_V: tl.constexpr):
    """Whether the values of a stretch are all finite, by their sum."""
    # sums of v of this stretch: [PAD_V]
    own = tl.load(sums_ptr + pid.to(tl.int64) * (PAD_V + PAD_K + 1) + tl.arange(0, PAD_V))
    return tl.sum((own * 0 != 0).to(tl.int32), 0) == 0


@triton.jit
def means(
    token, valid, v_base, k_base, stride_vn, stride_kn, mask_base, values, keys, count, DIMS: tl.constexpr,
    PAD_K: tl.constexpr, D_V: tl.constexpr, PAD_V: tl.constexpr, CAUSAL: tl.constexpr, PADDED: tl.constexpr,
    FINITE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Mean value, mean key and number of keys for a block of tokens, and the carries after it."""
    if CAUSAL:
        dim, coord = tl.arange(0, PAD_V), tl.arange(0, PAD_K)
        counted = valid
        if PADDED:
            # ignored: [BLOCK] bool
            counted = valid & (tl.load(mask_base + token, mask=valid, other=1) == 0)
        # v: [BLOCK, PAD_V], k: [BLOCK, PAD_K]
        v = tl.load(
            v_base + (token * stride_vn)[:, None] + dim[None, :],
            mask=counted[:, None] & (dim < D_V)[None, :],
            other=0.0,
        )
        k = tl.load(
            k_base + (token * stride_kn)[:, None] + coord[None, :],
            mask=counted[:, None] & (coord < DIMS)[None, :],
            other=0.0,
        ).to(tl.float32)
        if PADDED:
            ones = counted.to(tl.float32)
            number = count + tl.cumsum(ones, 0)
            count += tl.sum(ones, 0)
        else:
            number = (token + 1).to(tl.float32)
        each = 1.0 / tl.maximum(number, 1.0)
        here = tl.sum(v.to(tl.float32), 0)
        u = (values[None, :] + running_sum(v, FINITE, BLOCK)) * each[:, None]
        x = (keys[None, :] + tl.cumsum(k, 0)) * each[:, None]
        return u, x, number, values + here, keys + tl.sum(k, 0), count
    else:
        number = count + valid.to(tl.float32) * 0
        each = 1.0 / tl.maximum(number, 1.0)
        return values[None, :] * each[:, None], keys[None, :] * each[:, None], number, values, keys, count


@triton.jit
def compared(q, x, gamma, unit, DIMS: tl.constexpr, PAD_K: tl.constexpr, SCORE: tl.constexpr):
    """`closeness` of each query to its own candidate, and x as compared: a direction, or in units of the kernel.

    q [BLOCK, PAD_K] comes as compared already. The last two are of directions alone."""
    if SCORE == NORMALIZED_DOT:
        x, norm, short = directions(x, DIMS, PAD_K)
        return tl.sum(term(q, x, SCORE), 1), x, norm, short
    else:
        x *= unit
        close = tl.sum(tl.where((tl.arange(0, PAD_K) < DIMS)[None, :], term(q, x, SCORE), 0.0), 1)
        if SCORE == CAUCHY:
            close += gamma * gamma
        return close, x, close, close < 0


@triton.jit
def history_steps(
    q_base, k_base, v_base, out_base, stat_base, mask_base, values, keys, count, gamma, unit, begin, seq_len, stretch,
    first_row, stride_qn, stride_kn, stride_vn, stride_on, DIMS: tl.constexpr, PAD_K: tl.constexpr, D_V: tl.constexpr,
    PAD_V: tl.constexpr, SCORE: tl.constexpr, CAUSAL: tl.constexpr, PADDED: tl.constexpr, FINITE: tl.constexpr,
    BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    dim, coord = tl.arange(0, PAD_V), tl.arange(0, PAD_K)
    for i in tl.range(0, stretch, BLOCK, num_stages=STAGES):
        token = begin + i + tl.arange(0, BLOCK)
        valid = token < seq_len
        u, x, number, values, keys, count = means(
            token, valid, v_base, k_base, stride_vn, stride_kn, mask_base, values, keys, count, DIMS, PAD_K, D_V,
            PAD_V, CAUSAL, PADDED, FINITE, BLOCK,
        )  # fmt: skip
        # q: [BLOCK, PAD_K]
        q = (
            tl.load(
                q_base + (token * stride_qn)[:, None] + coord[None, :],
                mask=valid[:, None] & (coord < DIMS)[None, :],
                other=0.0,
            ).to(tl.float32)
            * unit
        )
        close, _x, _norm, _short = compared(q, x, gamma, unit, DIMS, PAD_K, SCORE)
        weight = strength(close, gamma, SCORE)
        known = valid & (token >= first_row)
        exists = number > 0
        out_at = out_base + (token * stride_on)[:, None] + dim[None, :]
        # out: [BLOCK, PAD_V], stat: [BLOCK]
        out = tl.load(out_at, mask=known[:, None] & (dim < D_V)[None, :], other=0.0).to(tl.float32)
        stat = tl.where(known, tl.load(stat_base + token, mask=known, other=0.0), nothing_yet(weight, SCORE))
        if exponential(SCORE):
            one = tl.where(exists, 1.0, 0.0)
            out, stat = merged(out, stat, u * one[:, None], one, tl.where(exists, weight, float("-inf")), SCORE)
        else:
            weight = tl.where(exists, weight, 0.0)
            out, stat = merged(out, stat, u * weight[:, None], weight, weight, SCORE)
        tl.store(out_at, out.to(out_base.dtype.element_ty), mask=valid[:, None] & (dim < D_V)[None, :])
        tl.store(stat_base + token, stat, mask=valid)


@triton.jit
def history_kernel(
    q_ptr, k_ptr, v_ptr, gamma_ptr, mask_ptr, sums_ptr, out_ptr, stat_ptr, heads, seq_len, stretches, stretch,
    first_row, stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
    stride_ob, stride_oh, stride_on, DIMS: tl.constexpr, PAD_K: tl.constexpr, D_V: tl.constexpr, PAD_V: tl.constexpr,
    SCORE: tl.constexpr, GAMMA_STEP: tl.constexpr, CAUSAL: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Merge the history mean into out and stat; rows before first_row hold nothing yet."""
    pid = tl.program_id(0)
    row = pid // stretches
    index = pid % stretches
    batch = (row // heads).to(tl.int64)
    head = (row % heads).to(tl.int64)
    q_base = q_ptr + batch * stride_qb + head * stride_qh
    k_base = k_ptr + batch * stride_kb + head * stride_kh
    v_base = v_ptr + batch * stride_vb + head * stride_vh
    out_base = out_ptr + batch * stride_ob + head * stride_oh
    stat_base = stat_ptr + row.to(tl.int64) * seq_len
    mask_base = mask_ptr + batch * seq_len
    gamma = tl.load(gamma_ptr + head * GAMMA_STEP)
    unit = unit_of(gamma, SCORE)
    gamma *= unit
    upto = index if CAUSAL else stretches
    values, keys, count = add_up(sums_ptr, row, 0, upto, stretches, PAD_K, PAD_V)
    if is_finite(sums_ptr, pid, PAD_K, PAD_V):
        history_steps(
            q_base, k_base, v_base, out_base, stat_base, mask_base, values, keys, count, gamma, unit, index * stretch,
            seq_len, stretch, first_row, stride_qn, stride_kn, stride_vn, stride_on, DIMS, PAD_K, D_V, PAD_V, SCORE,
            CAUSAL, PADDED, True, BLOCK, STAGES,
        )  # fmt: skip
    else:
        history_steps(
            q_base, k_base, v_base, out_base, stat_base, mask_base, values, keys, count, gamma, unit, index * stretch,
            seq_len, stretch, first_row, stride_qn, stride_kn, stride_vn, stride_on, DIMS, PAD_K, D_V, PAD_V, SCORE,
            CAUSAL, PADDED, False, BLOCK, STAGES,
        )  # fmt: skip

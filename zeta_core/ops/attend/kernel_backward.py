"""The window's part of the gradients of q and gamma: the walk of the forward pass once more."""

from __future__ import annotations

import triton
import triton.language as tl

from ..kernel_layout import LEVELS, list_of_segment, list_offset, query_tile
from ..kernel_masks import selected
from .kernel_forward import LONG
from .kernel_pairs import (
    NORMALIZED_DOT,
    UNROLLED,
    closeness,
    columns,
    gamma_slope,
    product,
    share,
    slope,
    strength,
)


@triton.jit
def pull_term(e, q, x, SCORE: tl.constexpr):
    """A pair's part of the gradient of q, without the factor 2 of distances."""
    if SCORE == NORMALIZED_DOT:
        return e * x
    else:
        return e * (q - x)


@triton.jit
def backward_block(
    r0, highest, start, stop, token, valid, grad, stat, delta, d0, d1, d2, d3, rest, sent, dgamma, q0, q1, q2, q3,
    q_at, ids, k_base, v_base, gamma, stride_kn, stride_vn, chunk, local, plan_row, curve_size, place_at, first_at,
    last_at, bound_at, tie_at, q_cells, k_cells, DIMS: tl.constexpr, PAD_K: tl.constexpr, CELL_DIMS: tl.constexpr,
    D_V: tl.constexpr, PAD_V: tl.constexpr, SCORE: tl.constexpr, MODE: tl.constexpr, CURVE: tl.constexpr,
    REFINE: tl.constexpr, LOCAL: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """d0..d3, dgamma: [BLOCK, BLOCK_N], summed over the last at the end; rest: [BLOCK, PAD_K] beyond 4 dimensions."""
    r = r0 + tl.arange(0, BLOCK_N)
    inside = r < highest
    # key: [BLOCK_N] int32
    key = tl.load(ids + r, mask=inside, other=0)
    k_at = k_base + key * stride_kn
    # x: [1, BLOCK_N], one coordinate each
    x0, x1, x2, x3 = columns(k_at[None, :], inside[None, :], DIMS)
    dim = tl.arange(0, PAD_V)
    # values: [BLOCK_N, PAD_V]
    values = tl.load(
        v_base + (key * stride_vn)[:, None] + dim[None, :], mask=inside[:, None] & (dim < D_V)[None, :], other=0.0
    )
    close = closeness(
        q0, q1, q2, q3, x0, x1, x2, x3, q_at[:, None], k_at[None, :], valid[:, None], inside[None, :], DIMS, SCORE
    )
    ok = (r[None, :] >= start[:, None]) & (r[None, :] < stop[:, None])
    ok = selected(
        ok, token[:, None], key[None, :], chunk, local, plan_row, curve_size, place_at, first_at, last_at, bound_at,
        tie_at, q_cells, k_cells, CELL_DIMS, MODE, CURVE, CURVE, REFINE, LOCAL,
    )  # fmt: skip
    P = share(strength(close, gamma, SCORE), stat[:, None], SCORE)
    G = tl.where(ok, P * (product(grad, tl.trans(values)) - delta[:, None]), 0.0)
    e = slope(G, close, gamma, SCORE)
    dgamma += gamma_slope(G, e, close, gamma, SCORE)
    if DIMS <= UNROLLED:
        d0 += pull_term(e, q0, x0, SCORE)
        if DIMS > 1:
            d1 += pull_term(e, q1, x1, SCORE)
        if DIMS > 2:
            d2 += pull_term(e, q2, x2, SCORE)
        if DIMS > 3:
            d3 += pull_term(e, q3, x3, SCORE)
    else:
        coord = tl.arange(0, PAD_K)
        # x: [BLOCK_N, PAD_K]
        x = tl.load(k_at[:, None] + coord[None, :], mask=inside[:, None] & (coord < DIMS)[None, :], other=0.0)
        rest += tl.dot(e, x.to(tl.float32), input_precision="ieee")
        sent += tl.sum(e, 1)
    return d0, d1, d2, d3, rest, sent, dgamma


@triton.jit
def backward_kernel(
    q_ptr, k_ptr, v_ptr, gamma_ptr, grad_ptr, stat_ptr, delta_ptr, dq_ptr, dgamma_ptr, sorted_ptr, ends_ptr, plan_ptr,
    q_cells, k_cells, heads, rows, seq_len, chunk, window, local, tiles, dgamma_stride, stride_qb, stride_qh,
    stride_qn, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn, stride_gb, stride_gh, stride_gn,
    list_ids, curve_size, order_at, start_at, stop_at, visible_at, place_at, first_at, last_at, bound_at, tie_at,
    DIMS: tl.constexpr, PAD_K: tl.constexpr, CELL_DIMS: tl.constexpr, D_V: tl.constexpr, PAD_V: tl.constexpr,
    SCORE: tl.constexpr, MODE: tl.constexpr, NUM_LISTS: tl.constexpr, WIDTH: tl.constexpr, CURVE: tl.constexpr,
    REFINE: tl.constexpr, LOCAL: tl.constexpr, BLOCK: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Adds to dq. Also writes, in the order of sorted queries, what the pass over keys reads of each query:
    sorted [2 + DIMS, rows, seq_len] its stat, delta and (up to 4) coordinates, ends [2, rows, seq_len] the
    places of the first and last key of its window."""
    pid = tl.program_id(0)
    row = pid // tiles
    segment, begin, end = query_tile(pid % tiles, seq_len, chunk, MODE, NUM_LISTS, BLOCK)
    partial = dgamma_ptr + row * dgamma_stride + pid % tiles
    if begin >= end:
        tl.store(partial, 0.0)
        return
    batch = (row // heads).to(tl.int64)
    head = (row % heads).to(tl.int64)
    fields = plan_ptr + curve_size * CURVE
    base = row.to(tl.int64) * seq_len
    place = begin + tl.arange(0, BLOCK)
    valid = place < end
    # token, start: [BLOCK] int32
    token = tl.load(fields + order_at + base + place, mask=valid, other=0)
    start = tl.load(fields + start_at + base + place, mask=valid, other=0)
    index = list_of_segment(segment, MODE)
    if MODE == LEVELS:
        # stop: [BLOCK] int32
        stop = tl.load(fields + stop_at + base + place, mask=valid, other=0)
    else:
        stop = start + tl.minimum(tl.load(fields + visible_at + row * WIDTH + index), window)
        stop = tl.where(valid, stop, 0)
    lowest = tl.min(tl.where(valid, start, seq_len), 0)
    highest = tl.max(stop, 0)
    ids = fields + row.to(tl.int64) * list_ids + list_offset(index, chunk, MODE)
    q_at = q_ptr + batch * stride_qb + head * stride_qh + token * stride_qn
    k_base = k_ptr + batch * stride_kb + head * stride_kh
    v_base = v_ptr + batch * stride_vb + head * stride_vh
    q_cells += base * CELL_DIMS
    k_cells += base * CELL_DIMS
    plan_row = plan_ptr + base
    gamma = tl.load(gamma_ptr + head)
    # q: [BLOCK, 1], one coordinate each
    q0, q1, q2, q3 = columns(q_at[:, None], valid[:, None], DIMS)
    dim = tl.arange(0, PAD_V)
    # grad: [BLOCK, PAD_V]; stat, delta: [BLOCK]
    grad = tl.load(
        grad_ptr + batch * stride_gb + head * stride_gh + (token * stride_gn)[:, None] + dim[None, :],
        mask=valid[:, None] & (dim < D_V)[None, :],
        other=0.0,
    )
    stat = tl.load(stat_ptr + base + token, mask=valid, other=1.0)
    delta = tl.load(delta_ptr + base + token, mask=valid, other=0.0)
    some = stop > start
    # ids of both ends of a window, then their places: [BLOCK] int32
    first = tl.load(fields + place_at + base + tl.load(ids + start, mask=some, other=0), mask=some, other=1)
    last = tl.load(fields + place_at + base + tl.load(ids + stop - 1, mask=some, other=0), mask=some, other=0)
    tokens = rows.to(tl.int64) * seq_len
    tl.store(ends_ptr + base + place, first, mask=valid)
    tl.store(ends_ptr + tokens + base + place, last, mask=valid)
    tl.store(sorted_ptr + base + place, stat, mask=valid)
    tl.store(sorted_ptr + tokens + base + place, delta, mask=valid)

    zero = tl.zeros([BLOCK, BLOCK_N], tl.float32)
    d0, d1, d2, d3, dgamma = zero, zero, zero, zero, zero
    rest = tl.zeros([BLOCK, PAD_K], tl.float32)
    sent = tl.zeros([BLOCK], tl.float32)
    if highest - lowest <= LONG * BLOCK_N:
        for r0 in tl.range(lowest, highest, BLOCK_N, num_stages=STAGES):
            d0, d1, d2, d3, rest, sent, dgamma = backward_block(
                r0, highest, start, stop, token, valid, grad, stat, delta, d0, d1, d2, d3, rest, sent, dgamma, q0, q1,
                q2, q3, q_at, ids, k_base, v_base, gamma, stride_kn, stride_vn, chunk, local, plan_row, curve_size,
                place_at, first_at, last_at, bound_at, tie_at, q_cells, k_cells, DIMS, PAD_K, CELL_DIMS, D_V, PAD_V,
                SCORE, MODE, CURVE, REFINE, LOCAL, BLOCK_N,
            )  # fmt: skip
    else:
        r0 = lowest
        while r0 < highest:
            d0, d1, d2, d3, rest, sent, dgamma = backward_block(
                r0, highest, start, stop, token, valid, grad, stat, delta, d0, d1, d2, d3, rest, sent, dgamma, q0, q1,
                q2, q3, q_at, ids, k_base, v_base, gamma, stride_kn, stride_vn, chunk, local, plan_row, curve_size,
                place_at, first_at, last_at, bound_at, tie_at, q_cells, k_cells, DIMS, PAD_K, CELL_DIMS, D_V, PAD_V,
                SCORE, MODE, CURVE, REFINE, LOCAL, BLOCK_N,
            )  # fmt: skip
            r0 += BLOCK_N
            r0 = tl.min(tl.where(stop > r0, tl.maximum(start, r0), highest), 0)
    tl.store(partial, tl.sum(tl.sum(dgamma, 1), 0))
    dq_at = dq_ptr + (base + token) * DIMS
    double = 1.0 if SCORE == NORMALIZED_DOT else 2.0
    if DIMS <= UNROLLED:
        to = sorted_ptr + 2 * tokens + base + place
        q_line = q_at
        for d in tl.static_range(DIMS):
            pulled = d0 if d == 0 else (d1 if d == 1 else (d2 if d == 2 else d3))
            # dq, q: [BLOCK], one coordinate
            old = tl.load(dq_at + d, mask=valid, other=0.0)
            tl.store(dq_at + d, old + double * tl.sum(pulled, 1), mask=valid)
            tl.store(to + d * tokens, tl.load(q_line + d, mask=valid, other=0.0).to(tl.float32), mask=valid)
    else:
        coord = tl.arange(0, PAD_K)
        narrow = valid[:, None] & (coord < DIMS)[None, :]
        # q, dq: [BLOCK, PAD_K]
        q = tl.load(q_at[:, None] + coord[None, :], mask=narrow, other=0.0).to(tl.float32)
        old = tl.load(dq_at[:, None] + coord[None, :], mask=narrow, other=0.0)
        pulled = rest if SCORE == NORMALIZED_DOT else 2 * (q * sent[:, None] - rest)
        tl.store(dq_at[:, None] + coord[None, :], old + pulled, mask=narrow)

"""The window's part of the gradients of q and gamma: the walk of the forward pass once more."""

from __future__ import annotations

import triton
import triton.language as tl

from ..kernel_layout import ends, list_of_segment, list_offset, query_tile
from ..kernel_masks import selected
from .kernel_forward import LONG, in_window
from .kernel_pairs import (
    NORMALIZED_DOT,
    UNROLLED,
    closeness,
    columns,
    gamma_factor,
    inverse,
    product,
    pull_factor,
    pull_term,
    slopes,
    unit_of,
    wide_rows,
)


@triton.jit
def backward_block(
    r0, highest, start, count, token, grad, inverted, delta, d0, d1, d2, d3, rest, sent, dgamma, q0, q1, q2, q3, q_at,
    ids, k_base, v_base, gamma, unit, stride_kn, stride_vn, chunk, local, plan_row, curve_size, place_at, first_at,
    last_at, bound_at, tie_at, q_cells, k_cells, DIMS: tl.constexpr, PAD_K: tl.constexpr, CELL_DIMS: tl.constexpr,
    D_V: tl.constexpr, PAD_V: tl.constexpr, SCORE: tl.constexpr, MODE: tl.constexpr, CURVE: tl.constexpr,
    REFINE: tl.constexpr, LOCAL: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """d0..d3, dgamma: [BLOCK, BLOCK_N], summed over the last at the end; rest: [BLOCK, PAD_K] beyond 4 dimensions."""
    r = r0 + tl.arange(0, BLOCK_N)
    # key: [BLOCK_N] int32; past the end the last one again, which the mask leaves out
    key = tl.load(ids + tl.minimum(r, highest - 1))
    k_at = k_base + key * stride_kn
    # x: [1, BLOCK_N], one coordinate each; values: [BLOCK_N, PAD_V]
    x0, x1, x2, x3 = columns(k_at[None, :], unit, DIMS)
    values = wide_rows(v_base, key * stride_vn, D_V, PAD_V)
    close = closeness(
        q0, q1, q2, q3, x0, x1, x2, x3, q_at[:, None], k_at[None, :], unit, gamma, DIMS, SCORE
    )  # fmt: skip
    ok = in_window(r[None, :], start[:, None], count[:, None])
    ok = selected(
        ok, token[:, None], key[None, :], chunk, local, plan_row, curve_size, place_at, first_at, last_at, bound_at,
        tie_at, q_cells, k_cells, CELL_DIMS, MODE, CURVE, CURVE, REFINE, LOCAL,
    )  # fmt: skip
    _P, e, of_gamma = slopes(
        ok, close, product(grad, tl.trans(values)), delta[:, None], inverted[:, None], gamma, SCORE
    )  # fmt: skip
    dgamma += of_gamma
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
        x = tl.load(k_at[:, None] + coord[None, :], mask=(coord < DIMS)[None, :], other=0.0).to(tl.float32) * unit
        rest += tl.dot(e, x, input_precision="ieee")
        sent += tl.sum(e, 1)
    return d0, d1, d2, d3, rest, sent, dgamma


@triton.jit
def pair_of(low, high):
    """Two 32-bit numbers in one of 64 bits."""
    return (low.to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF) | (
        high.to(tl.int32, bitcast=True).to(tl.int64) << 32
    )


@triton.jit
def write_record(at, valid, first, count, inverted, delta, q_at, token, unit, DIMS: tl.constexpr):
    """32 bytes a query: window (place of its first key, places to its last one), `inverse` and delta, scaled
    coordinates up to 4; the token in place of the fourth if there are fewer."""
    # q: [BLOCK], one coordinate each
    q0, q1, q2, q3 = columns(q_at, unit, DIMS)
    tl.store(at, pair_of(first, count), mask=valid)
    tl.store(at + 1, pair_of(inverted, delta), mask=valid)
    tl.store(at + 2, pair_of(q0, q1), mask=valid)
    if DIMS <= 3:
        tl.store(at + 3, pair_of(q2, token), mask=valid)
    else:
        tl.store(at + 3, pair_of(q2, q3), mask=valid)


@triton.jit
def backward_kernel(
    q_ptr, k_ptr, v_ptr, gamma_ptr, grad_ptr, stat_ptr, delta_ptr, dq_ptr, dgamma_ptr, record_ptr, plan_ptr,
    q_cells, k_cells, heads, seq_len, chunk, window, local, tiles, dgamma_stride, stride_qb, stride_qh,
    stride_qn, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn, stride_gb, stride_gh, stride_gn,
    list_ids, curve_size, order_at, start_at, stop_at, visible_at, place_at, first_at, last_at, bound_at, tie_at,
    DIMS: tl.constexpr, PAD_K: tl.constexpr, CELL_DIMS: tl.constexpr, D_V: tl.constexpr, PAD_V: tl.constexpr,
    SCORE: tl.constexpr, GAMMA_STEP: tl.constexpr, MODE: tl.constexpr, NUM_LISTS: tl.constexpr, WIDTH: tl.constexpr,
    CURVE: tl.constexpr, REFINE: tl.constexpr, LOCAL: tl.constexpr, BLOCK: tl.constexpr, BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Adds to dq. Also writes, in the order of sorted queries, what the pass over keys reads of each query:
    record [rows, seq_len, 4] int64, as `write_record` packs it."""
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
    token, start, stop, valid = ends(
        fields, row, begin, end, segment, seq_len, order_at, start_at, stop_at, visible_at, window, MODE, WIDTH, BLOCK
    )
    count = stop - start
    lowest = tl.min(tl.where(valid, start, seq_len), 0)
    highest = tl.max(stop, 0)
    ids = fields + row.to(tl.int64) * list_ids + list_offset(list_of_segment(segment, MODE), chunk, MODE)
    q_at = q_ptr + batch * stride_qb + head * stride_qh + token * stride_qn
    k_base = k_ptr + batch * stride_kb + head * stride_kh
    v_base = v_ptr + batch * stride_vb + head * stride_vh
    q_cells += base * CELL_DIMS
    k_cells += base * CELL_DIMS
    plan_row = plan_ptr + base
    gamma = tl.load(gamma_ptr + head * GAMMA_STEP)
    unit = unit_of(gamma, SCORE)
    gamma *= unit
    # q: [BLOCK, 1], one coordinate each; grad: [BLOCK, PAD_V]; stat, delta: [BLOCK]
    q0, q1, q2, q3 = columns(q_at[:, None], unit, DIMS)
    grad = wide_rows(grad_ptr + batch * stride_gb + head * stride_gh, token * stride_gn, D_V, PAD_V)
    inverted = inverse(tl.load(stat_ptr + base + token), SCORE)
    delta = tl.load(delta_ptr + base + token)
    some = count > 0
    # ids of both ends of a window, then their places: [BLOCK] int32
    first = tl.load(fields + place_at + base + tl.load(ids + start, mask=some, other=0), mask=some, other=1)
    last = tl.load(fields + place_at + base + tl.load(ids + stop - 1, mask=some, other=0), mask=some, other=0)
    place = begin + tl.arange(0, BLOCK)
    write_record(
        record_ptr.to(tl.pointer_type(tl.int64)) + (base + place) * 4, valid, first, tl.where(some, last - first + 1,
        0), inverted, delta, q_at, token, unit, DIMS,
    )  # fmt: skip

    zero = tl.zeros([BLOCK, BLOCK_N], tl.float32)
    d0, d1, d2, d3, dgamma = zero, zero, zero, zero, zero
    rest = tl.zeros([BLOCK, PAD_K], tl.float32)
    sent = tl.zeros([BLOCK], tl.float32)
    if highest - lowest <= LONG * BLOCK_N:
        for r0 in tl.range(lowest, highest, BLOCK_N, num_stages=STAGES):
            d0, d1, d2, d3, rest, sent, dgamma = backward_block(
                r0, highest, start, count, token, grad, inverted, delta, d0, d1, d2, d3, rest, sent, dgamma, q0, q1,
                q2, q3, q_at, ids, k_base, v_base, gamma, unit, stride_kn, stride_vn, chunk, local, plan_row,
                curve_size, place_at, first_at, last_at, bound_at, tie_at, q_cells, k_cells, DIMS, PAD_K, CELL_DIMS,
                D_V, PAD_V, SCORE, MODE, CURVE, REFINE, LOCAL, BLOCK_N,
            )  # fmt: skip
    else:
        r0 = lowest
        while r0 < highest:
            d0, d1, d2, d3, rest, sent, dgamma = backward_block(
                r0, highest, start, count, token, grad, inverted, delta, d0, d1, d2, d3, rest, sent, dgamma, q0, q1,
                q2, q3, q_at, ids, k_base, v_base, gamma, unit, stride_kn, stride_vn, chunk, local, plan_row,
                curve_size, place_at, first_at, last_at, bound_at, tie_at, q_cells, k_cells, DIMS, PAD_K, CELL_DIMS,
                D_V, PAD_V, SCORE, MODE, CURVE, REFINE, LOCAL, BLOCK_N,
            )  # fmt: skip
            r0 += BLOCK_N
            r0 = tl.min(tl.where(start + count > r0, tl.maximum(start, r0), highest), 0)
    tl.store(partial, gamma_factor(gamma, unit, SCORE) * tl.sum(tl.sum(dgamma, 1), 0))
    dq_at = dq_ptr + (base + token) * DIMS
    factor = pull_factor(unit, SCORE)
    if DIMS <= UNROLLED:
        for d in tl.static_range(DIMS):
            pulled = d0 if d == 0 else (d1 if d == 1 else (d2 if d == 2 else d3))
            # dq: [BLOCK], one coordinate
            old = tl.load(dq_at + d, mask=valid, other=0.0)
            tl.store(dq_at + d, old + factor * tl.sum(pulled, 1), mask=valid)
    else:
        coord = tl.arange(0, PAD_K)
        narrow = valid[:, None] & (coord < DIMS)[None, :]
        # q, dq: [BLOCK, PAD_K]
        q = tl.load(q_at[:, None] + coord[None, :], mask=narrow, other=0.0).to(tl.float32) * unit
        old = tl.load(dq_at[:, None] + coord[None, :], mask=narrow, other=0.0)
        pulled = rest if SCORE == NORMALIZED_DOT else q * sent[:, None] - rest
        tl.store(dq_at[:, None] + coord[None, :], old + factor * pulled, mask=narrow)


@triton.jit
def gamma_kernel(partials_ptr, dgamma_ptr, rows, apart, partials, BLOCK: tl.constexpr):
    """dgamma [apart], from partials [rows, partials]: row r belongs to r % apart. One program each, in order."""
    pid = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    count = (rows // apart) * partials
    for first in range(0, count, BLOCK):
        number = first + tl.arange(0, BLOCK)
        row = (number // partials) * apart + pid
        # partial sums: [BLOCK]
        total += tl.load(partials_ptr + row * partials + number % partials, mask=number < count, other=0.0)
    tl.store(dgamma_ptr + pid, tl.sum(total, 0))

"""The window's part of the forward pass: 16 neighbouring queries walk the stretch of a list that they share.

They do so in blocks that begin at fixed places of the list, whatever the other queries are: later tokens of a chunk
then change no bit of an earlier one's sums. A NaN among the values of a block does reach all 16 queries, and only
such as see its key's chunk."""

from __future__ import annotations

import triton
import triton.language as tl

from ..kernel_layout import LEVELS, ends, list_of_segment, list_offset, query_tile
from ..kernel_masks import selected
from .kernel_pairs import (
    closeness,
    columns,
    corrected,
    exponential,
    merged,
    nothing_yet,
    rounded,
    strength,
    unit_of,
    weigh,
    weigh_apart,
    wide_rows,
)

LONG = tl.constexpr(8)
"""A stretch of more blocks than this may have gaps that no window needs: jump over them."""


@triton.jit
def in_window(r, start, count):
    """start <= r < start + count, as one comparison; r, start and count broadcast."""
    return (r - start).to(tl.uint32, bitcast=True) < count.to(tl.uint32, bitcast=True)


@triton.jit
def forward_block(
    r0, highest, start, count, token, summed, total, used, top, q0, q1, q2, q3, q_at, ids, k_base, v_base, gamma,
    unit, stride_kn, stride_vn, chunk, local, plan_row, curve_size, place_at, first_at, last_at, bound_at, tie_at,
    q_cells, k_cells, DIMS: tl.constexpr, CELL_DIMS: tl.constexpr, D_V: tl.constexpr, PAD_V: tl.constexpr,
    SCORE: tl.constexpr, MODE: tl.constexpr, CURVE: tl.constexpr, REFINE: tl.constexpr, LOCAL: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
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
    weight = strength(close, gamma, SCORE)
    if exponential(SCORE):
        weight = tl.where(ok, weight, float("-inf"))
        higher = tl.maximum(top, tl.max(weight, 1))
        scale = tl.where(higher == float("-inf"), 0.0, higher)
        weight = tl.exp(weight - scale[:, None])
        before = tl.exp(top - scale)
        summed *= before[:, None]
        total = total * before[:, None] + weight
        used = used * before[:, None] + rounded(weight, values)
        top = higher
    else:
        weight = tl.where(ok, weight, 0.0)
        total += weight
        used += rounded(weight, values)
    # Elsewhere all queries of a tile may see every key of their list.
    if MODE == LEVELS:
        summed += weigh_apart(weight, ok, values)
    else:
        summed += weigh(weight, values)
    return summed, total, used, top


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, gamma_ptr, out_ptr, stat_ptr, plan_ptr, q_cells, k_cells, heads, seq_len, chunk, window,
    local, tiles, stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
    stride_ob, stride_oh, stride_on, list_ids, curve_size, order_at, start_at, stop_at, visible_at, place_at,
    first_at, last_at, bound_at, tie_at, DIMS: tl.constexpr, CELL_DIMS: tl.constexpr, D_V: tl.constexpr,
    PAD_V: tl.constexpr, SCORE: tl.constexpr, GAMMA_STEP: tl.constexpr, MODE: tl.constexpr, NUM_LISTS: tl.constexpr,
    WIDTH: tl.constexpr, CURVE: tl.constexpr, REFINE: tl.constexpr, LOCAL: tl.constexpr, BLOCK: tl.constexpr, BLOCK_N:
    tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    row = pid // tiles
    segment, begin, end = query_tile(pid % tiles, seq_len, chunk, MODE, NUM_LISTS, BLOCK)
    if begin >= end:
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
    # q: [BLOCK, 1], one coordinate each
    q0, q1, q2, q3 = columns(q_at[:, None], unit, DIMS)
    summed = tl.zeros([BLOCK, PAD_V], tl.float32)
    # Weights, and weights as products round them; summed over their columns once, at the end.
    total = tl.zeros([BLOCK, BLOCK_N], tl.float32)
    used = tl.zeros([BLOCK, BLOCK_N], tl.float32)
    top = tl.full([BLOCK], float("-inf"), tl.float32)
    lowest = lowest // BLOCK_N * BLOCK_N
    if highest - lowest <= LONG * BLOCK_N:
        for r0 in tl.range(lowest, highest, BLOCK_N, num_stages=STAGES):
            summed, total, used, top = forward_block(
                r0, highest, start, count, token, summed, total, used, top, q0, q1, q2, q3, q_at, ids, k_base,
                v_base, gamma, unit, stride_kn, stride_vn, chunk, local, plan_row, curve_size, place_at, first_at,
                last_at, bound_at, tie_at, q_cells, k_cells, DIMS, CELL_DIMS, D_V, PAD_V, SCORE, MODE, CURVE, REFINE,
                LOCAL, BLOCK_N,
            )  # fmt: skip
    else:
        r0 = lowest
        while r0 < highest:
            summed, total, used, top = forward_block(
                r0, highest, start, count, token, summed, total, used, top, q0, q1, q2, q3, q_at, ids, k_base,
                v_base, gamma, unit, stride_kn, stride_vn, chunk, local, plan_row, curve_size, place_at, first_at,
                last_at, bound_at, tie_at, q_cells, k_cells, DIMS, CELL_DIMS, D_V, PAD_V, SCORE, MODE, CURVE, REFINE,
                LOCAL, BLOCK_N,
            )  # fmt: skip
            r0 += BLOCK_N
            needed = tl.min(tl.where(start + count > r0, tl.maximum(start, r0), highest), 0)
            r0 = tl.maximum(r0, needed // BLOCK_N * BLOCK_N)
    total = tl.sum(total, 1)
    summed *= corrected(total, tl.sum(used, 1))[:, None]
    dim = tl.arange(0, PAD_V)
    out_at = out_ptr + batch * stride_ob + head * stride_oh + (token * stride_on)[:, None] + dim[None, :]
    out_mask = valid[:, None] & (dim < D_V)[None, :]
    old = nothing_yet(total, SCORE)
    before = tl.zeros([BLOCK, PAD_V], tl.float32)
    if CURVE > 0:
        # before: [BLOCK, PAD_V] float32, stat: [BLOCK]: what earlier curves gave
        before = tl.load(out_at, mask=out_mask, other=0.0).to(tl.float32)
        old = tl.load(stat_ptr + base + token, mask=valid, other=1.0)
    out, stat = merged(before, old, summed, total, top, SCORE)
    tl.store(out_at, out.to(out_ptr.dtype.element_ty), mask=out_mask)
    tl.store(stat_ptr + base + token, stat, mask=valid)

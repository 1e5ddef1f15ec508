"""What lies between a window's ends: places of its ends, the cut of `refine`, and explicit indices."""

from __future__ import annotations

import triton
import triton.language as tl

from ..kernel_layout import LEVELS, ends, list_of_segment, list_offset, query_tile
from ..kernel_masks import grid_distance, selected

NEVER = tl.constexpr(2147483647)


@triton.jit
def bounds_kernel(
    fields, seq_len, chunk, window, tiles, list_ids, order_at, start_at, stop_at, visible_at, place_at, first_at,
    last_at, MODE: tl.constexpr, NUM_LISTS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The places, among all sorted keys, of the first and last key of each window, by token."""
    pid = tl.program_id(0)
    row = pid // tiles
    segment, begin, end = query_tile(pid % tiles, seq_len, chunk, MODE, NUM_LISTS, BLOCK)
    token, start, stop, valid = ends(
        fields, row, begin, end, segment, seq_len, order_at, start_at, stop_at, visible_at, window, MODE, WIDTH, BLOCK
    )
    ids = fields + row.to(tl.int64) * list_ids + list_offset(list_of_segment(segment, MODE), chunk, MODE)
    some = stop > start
    base = row.to(tl.int64) * seq_len
    # ids of both ends, then their places: [BLOCK] int32
    first = tl.load(fields + place_at + base + tl.load(ids + start, mask=some, other=0), mask=some, other=1)
    last = tl.load(fields + place_at + base + tl.load(ids + stop - 1, mask=some, other=0), mask=some, other=0)
    tl.store(fields + first_at + base + token, first, mask=valid)
    tl.store(fields + last_at + base + token, last, mask=valid)


@triton.jit
def span_distances(ids, r, stop, start, token, q_cells, k_cells, chunk, CELL_DIMS: tl.constexpr, MODE: tl.constexpr):
    """Keys at places r of a list and their distances to every query; NEVER outside a window."""
    inside = (r[None, :] >= start[:, None]) & (r[None, :] < stop[:, None])
    # key: [BLOCK_N] int32
    key = tl.load(ids + r, mask=r < tl.max(stop, 0), other=0)
    if MODE == LEVELS:
        inside = inside & (key[None, :] < ((token // chunk) * chunk)[:, None])
    far = grid_distance(q_cells, k_cells, token[:, None], key[None, :], CELL_DIMS)
    return key, tl.where(inside, far, NEVER)


@triton.jit
def refine_kernel(
    fields, q_cells, k_cells, seq_len, chunk, window, share, tiles, list_ids, order_at, start_at, stop_at,
    visible_at, place_at, bound_at, tie_at, CELL_DIMS: tl.constexpr, MODE: tl.constexpr, NUM_LISTS: tl.constexpr,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, BLOCK_N: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """For each query the distance of the last of its `share` nearest keys, and the place of the last tie kept.

    By bisection on the distance: counts are exact and need no sort."""
    pid = tl.program_id(0)
    row = pid // tiles
    segment, begin, end = query_tile(pid % tiles, seq_len, chunk, MODE, NUM_LISTS, BLOCK)
    token, start, stop, valid = ends(
        fields, row, begin, end, segment, seq_len, order_at, start_at, stop_at, visible_at, window, MODE, WIDTH, BLOCK
    )
    base = row.to(tl.int64) * seq_len
    ids = fields + row.to(tl.int64) * list_ids + list_offset(list_of_segment(segment, MODE), chunk, MODE)
    q_cells += base * CELL_DIMS
    k_cells += base * CELL_DIMS
    lowest = tl.min(tl.where(valid, start, seq_len), 0)
    highest = tl.max(stop, 0)
    low = token * 0
    high = token * 0 + CELL_DIMS * 4095 * 4095
    for _ in range(STEPS):
        middle = low + (high - low) // 2
        count = token * 0
        for r0 in range(lowest, highest, BLOCK_N):
            _key, far = span_distances(
                ids, r0 + tl.arange(0, BLOCK_N), stop, start, token, q_cells, k_cells, chunk, CELL_DIMS, MODE
            )
            count += tl.sum((far <= middle[:, None]).to(tl.int32), 1)
        enough = count >= share
        high = tl.where(enough & (low < high), middle, high)
        low = tl.where(enough, low, tl.minimum(middle + 1, high))
    below, total = token * 0, token * 0
    for r0 in range(lowest, highest, BLOCK_N):
        _key, far = span_distances(
            ids, r0 + tl.arange(0, BLOCK_N), stop, start, token, q_cells, k_cells, chunk, CELL_DIMS, MODE
        )
        below += tl.sum((far < high[:, None]).to(tl.int32), 1)
        total += tl.sum((far < NEVER).to(tl.int32), 1)
    wanted = share - below
    seen, tie = token * 0, token * 0
    for r0 in range(lowest, highest, BLOCK_N):
        key, far = span_distances(
            ids, r0 + tl.arange(0, BLOCK_N), stop, start, token, q_cells, k_cells, chunk, CELL_DIMS, MODE
        )
        equal = (far == high[:, None]).to(tl.int32)
        turn = seen[:, None] + tl.cumsum(equal, 1)
        # place: [BLOCK_N] int32
        place = tl.load(fields + place_at + base + key)
        tie += tl.sum(tl.where((equal > 0) & (turn == wanted[:, None]), place[None, :], 0), 1)
        seen += tl.sum(equal, 1)
    cut = total > share
    tl.store(fields + bound_at + base + token, tl.where(cut, high, NEVER), mask=valid)
    tl.store(fields + tie_at + base + token, tl.where(cut, tie, NEVER), mask=valid)


@triton.jit
def indices_kernel(
    plan_ptr, q_cells, k_cells, out_ptr, seq_len, chunk, window, share, top_k, tiles, list_ids, curve_size,
    order_at, start_at, stop_at, visible_at, place_at, first_at, last_at, bound_at, tie_at,
    CELL_DIMS: tl.constexpr, MODE: tl.constexpr, NUM_LISTS: tl.constexpr, WIDTH: tl.constexpr,
    CURVE: tl.constexpr, REFINE: tl.constexpr, BLOCK: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Write the keys of one curve's windows in order; a key that an earlier curve has keeps its slot as -1."""
    pid = tl.program_id(0)
    row = pid // tiles
    segment, begin, end = query_tile(pid % tiles, seq_len, chunk, MODE, NUM_LISTS, BLOCK)
    fields = plan_ptr + curve_size * CURVE
    token, start, stop, valid = ends(
        fields, row, begin, end, segment, seq_len, order_at, start_at, stop_at, visible_at, window, MODE, WIDTH, BLOCK
    )
    base = row.to(tl.int64) * seq_len
    ids = fields + row.to(tl.int64) * list_ids + list_offset(list_of_segment(segment, MODE), chunk, MODE)
    q_cells += base * CELL_DIMS
    k_cells += base * CELL_DIMS
    lowest = tl.min(tl.where(valid, start, seq_len), 0)
    highest = tl.max(stop, 0)
    filled = token * 0
    out = out_ptr + (base + token)[:, None] * top_k + CURVE * share
    for r0 in range(lowest, highest, BLOCK_N):
        r = r0 + tl.arange(0, BLOCK_N)
        # key: [BLOCK_N] int32
        key = tl.load(ids + r, mask=r < highest, other=0)
        ok = (r[None, :] >= start[:, None]) & (r[None, :] < stop[:, None])
        ok = selected(
            ok, token[:, None], key[None, :], chunk, 0, plan_ptr + base, curve_size, place_at, first_at, last_at,
            bound_at, tie_at, q_cells, k_cells, CELL_DIMS, MODE, CURVE, 0, REFINE, False,
        )  # fmt: skip
        new = selected(
            ok, token[:, None], key[None, :], chunk, 0, plan_ptr + base, curve_size, place_at, first_at, last_at,
            bound_at, tie_at, q_cells, k_cells, CELL_DIMS, MODE, CURVE, CURVE, REFINE, False,
        )  # fmt: skip
        taken = ok.to(tl.int32)
        slot = filled[:, None] + tl.cumsum(taken, 1) - taken
        value = tl.where(new, tl.broadcast_to(key[None, :], (BLOCK, BLOCK_N)), -1).to(tl.int64)
        tl.store(out + slot, value, mask=ok)
        filled += tl.sum(taken, 1)

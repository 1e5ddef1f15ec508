"""The window's part of the gradients of k and v: neighbouring sorted keys and all queries that see them.

The queries of one segment whose windows may meet a tile of keys are a contiguous range; the ranges of all
segments are laid end to end. A tile that very many queries see is cut into parts that are added up in order.
Everything is written once, by one program: no atomics. Work is key-major, so that no product is transposed
before a `dot`, for which wrong gradients have been reported on Hopper."""

from __future__ import annotations

import triton
import triton.language as tl

from ..kernel_layout import ALL, LEVELS, list_of_segment, segment_start
from ..kernel_masks import selected
from .kernel_forward import in_window
from .kernel_pairs import (
    NORMALIZED_DOT,
    UNROLLED,
    closeness,
    columns,
    product,
    pull_factor,
    pull_term,
    slopes,
    unit_of,
    wide_rows,
)


@triton.jit
def first_at_least(values, low, high, bound, STEPS: tl.constexpr):
    """The first place in low..high whose value, plus nothing, is at least bound; high if none is."""
    for _ in range(STEPS):
        middle = (low + high) // 2
        active = low < high
        # value: like bound, by bisection
        value = tl.load(values + middle, mask=active, other=0)
        right = active & (value < bound)
        low = tl.where(right, middle + 1, low)
        high = tl.where(active & (value >= bound), middle, high)
    return low


@triton.jit
def ranges_kernel(
    tiles_ptr, visible_ptr, start_ptr, stop_ptr, since_ptr, shift_ptr, visits_ptr, seq_len, chunk, window, key_tiles,
    segments, num_lists, MODE: tl.constexpr, WIDTH: tl.constexpr, KEY_TILE: tl.constexpr, BLOCK: tl.constexpr,
    STEPS: tl.constexpr,
):  # fmt: skip
    """For each tile of keys, visits [rows, key_tiles]: the queries that may see one of its keys.

    They are numbered segment by segment: since [rows, key_tiles, WIDTH] is the first number of a segment, and
    a number plus the segment's shift is the place of its query. A segment without keys in the tile is left out
    even if windows span the tile."""
    blocks = tl.cdiv(key_tiles, BLOCK)
    pid = tl.program_id(0)
    row = pid // blocks
    tile = (pid % blocks) * BLOCK + tl.arange(0, BLOCK)
    segment = tl.arange(0, WIDTH)
    index = list_of_segment(segment, MODE)
    exists = (index >= 0) & (segment < segments)
    index = tl.maximum(index, 0)
    starts = start_ptr + row.to(tl.int64) * seq_len
    stops = stop_ptr + row.to(tl.int64) * seq_len
    total = tl.load(visible_ptr + row * WIDTH + num_lists - 1)
    # size: [WIDTH] int32
    size = tl.load(visible_ptr + row * WIDTH + index, mask=exists, other=0)
    table = tiles_ptr + (row * key_tiles + tile)[:, None] * WIDTH + index[None, :]
    now = ((tile < key_tiles) & (tile * KEY_TILE < total))[:, None] & exists[None, :]
    later = ((tile + 1) * KEY_TILE < total)[:, None] & exists[None, :]
    # c0, c1: [BLOCK, WIDTH] int32, keys of each list before and up to the end of each tile
    c0 = tl.load(table, mask=now, other=0)
    c1 = tl.where(later, tl.load(table + WIDTH, mask=later, other=0), size[None, :])
    some = now & (c0 < c1)
    begin = tl.minimum(segment_start(segment, chunk, MODE), seq_len)
    end = tl.minimum(segment_start(segment + 1, chunk, MODE), seq_len)
    if MODE == ALL:
        end += seq_len
    begin = begin[None, :] + c0 * 0
    end = tl.where(some, end[None, :] + c0 * 0, begin)
    if MODE == LEVELS:
        first = first_at_least(stops, begin, end, c0 + 1, STEPS)
    else:
        first = first_at_least(starts, begin, end, c0 + 1 - tl.minimum(size, window)[None, :], STEPS)
    last = tl.maximum(first_at_least(starts, begin, end, c1, STEPS), first)
    count = tl.where(some, last - first, 0)
    since = tl.cumsum(count, 1) - count
    shift = tl.where(some, first, 0) - since
    to = (row * key_tiles + tile)[:, None] * WIDTH + segment[None, :]
    written = (tile < key_tiles)[:, None] & (segment >= 0)[None, :]
    tl.store(since_ptr + to, since, mask=written)
    tl.store(shift_ptr + to, shift, mask=written)
    tl.store(visits_ptr + row * key_tiles + tile, tl.sum(count, 1), mask=tile < key_tiles)


@triton.jit
def parts_kernel(visits_ptr, parts_ptr, size_ptr, key_tiles, most, LEAST: tl.constexpr, BLOCK: tl.constexpr):
    """Number the parts of tiles that are visited too often: parts [rows, key_tiles + 1] is how many come before
    a tile, size [rows] the visits a part. Half of `most` parts hold all visits of a row, so `most` are enough."""
    row = tl.program_id(0)
    visits_ptr += row * key_tiles
    total = tl.zeros([BLOCK], tl.int32)
    for first in range(0, key_tiles, BLOCK):
        tile = first + tl.arange(0, BLOCK)
        # visits: [BLOCK] int32
        total += tl.load(visits_ptr + tile, mask=tile < key_tiles, other=0)
    each = tl.cdiv(tl.sum(total, 0), most // 2)
    size = tl.maximum(LEAST, tl.cdiv(each, 16) * 16)
    tl.store(size_ptr + row, size)
    to = parts_ptr + row * (key_tiles + 1)
    before = size * 0
    for first in range(0, key_tiles, BLOCK):
        tile = first + tl.arange(0, BLOCK)
        # visits: [BLOCK] int32
        visits = tl.load(visits_ptr + tile, mask=tile < key_tiles, other=0)
        parts = tl.where(visits > size, tl.cdiv(visits, size), 0)
        tl.store(to + tile, before + tl.cumsum(parts, 0) - parts, mask=tile < key_tiles)
        before += tl.sum(parts, 0)
    tl.store(to + key_tiles, before)


@triton.jit
def tile_of_part(parts, part, key_tiles, STEPS: tl.constexpr):
    """The last tile with at most `part` parts before it."""
    low, high = part * 0, key_tiles
    for _ in range(STEPS):
        middle = (low + high) // 2
        # parts before a tile: one number
        before = tl.load(parts + middle)
        right = (low < high) & (before <= part)
        high = tl.where((low < high) & (before > part), middle, high)
        low = tl.where(right, middle + 1, low)
    return low - 1


@triton.jit
def store_gradients(
    token, held, base, d0, d1, d2, d3, rest, dv, dk_ptr, dv_base, stride_vn, DIMS: tl.constexpr, PAD_K: tl.constexpr,
    D_V: tl.constexpr, PAD_V: tl.constexpr, CURVE: tl.constexpr, NEED_V: tl.constexpr,
):  # fmt: skip
    """Write (for later curves: add) one tile's dk, as [T] columns or as rest [T, PAD_K], and dv [T, PAD_V]."""
    dk_at = dk_ptr + (base + token) * DIMS
    if DIMS <= UNROLLED:
        for d in tl.static_range(DIMS):
            new = d0 if d == 0 else (d1 if d == 1 else (d2 if d == 2 else d3))
            if CURVE > 0:
                # dk: [T], one coordinate
                new += tl.load(dk_at + d, mask=held, other=0.0)
            tl.store(dk_at + d, new, mask=held)
    else:
        coord = tl.arange(0, PAD_K)
        at, narrow = dk_at[:, None] + coord[None, :], held[:, None] & (coord < DIMS)[None, :]
        if CURVE > 0:
            # dk: [T, PAD_K]
            rest += tl.load(at, mask=narrow, other=0.0)
        tl.store(at, rest, mask=narrow)
    if NEED_V:
        dim = tl.arange(0, PAD_V)
        at, wide = dv_base + (token * stride_vn)[:, None] + dim[None, :], held[:, None] & (dim < D_V)[None, :]
        if CURVE > 0:
            # dv: [T, PAD_V]
            dv += tl.load(at, mask=wide, other=0.0).to(tl.float32)
        tl.store(at, dv.to(dv_base.dtype.element_ty), mask=wide)


@triton.jit
def keys_kernel(
    q_ptr, k_ptr, v_ptr, gamma_ptr, grad_ptr, record_ptr, dk_ptr, dv_ptr, slots_ptr, since_ptr, shift_ptr,
    visits_ptr, parts_ptr, size_ptr, plan_ptr, q_cells, k_cells, heads, seq_len, chunk, local, key_tiles, most,
    stride_qb,
    stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn, stride_gb, stride_gh,
    stride_gn, stride_wb, stride_wh, stride_wn, list_ids, full_at, curve_size, order_at, visible_at, place_at,
    first_at, last_at, bound_at, tie_at, num_lists, DIMS: tl.constexpr, PAD_K: tl.constexpr, CELL_DIMS: tl.constexpr,
    D_V: tl.constexpr, PAD_V: tl.constexpr, SCORE: tl.constexpr, GAMMA_STEP: tl.constexpr, MODE: tl.constexpr, WIDTH:
    tl.constexpr, CURVE: tl.constexpr, REFINE: tl.constexpr, LOCAL: tl.constexpr, NEED_V: tl.constexpr, CUT:
    tl.constexpr, KEY_TILE: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Of each row the first `most` programs take parts of long tiles, the others a tile each.

    CUT False: no tile can be that long, and `most` is 0."""
    each = most + key_tiles
    pid = tl.program_id(0)
    row = pid // each
    task = pid % each
    parts = parts_ptr + row * (key_tiles + 1)
    is_part = task < most
    if is_part:
        exists = task < tl.load(parts + key_tiles)
        tile = tl.minimum(tile_of_part(parts, task, key_tiles, STEPS), key_tiles - 1)
        size = tl.load(size_ptr + row)
        visit = (task - tl.load(parts + tile)) * size
    else:
        tile = task - most
        exists = tile >= 0
        if CUT:
            exists = tl.load(parts + tile + 1) == tl.load(parts + tile)
        size = tl.load(visits_ptr + row * key_tiles + tile)
        visit = size * 0
    if exists == 0:
        return
    until = tl.minimum(visit + size, tl.load(visits_ptr + row * key_tiles + tile))
    column = tl.arange(0, WIDTH)
    # the first visit of each segment, and the change of what to add to a visit's number: [WIDTH] int32
    table = (row * key_tiles + tile) * WIDTH + column
    since = tl.load(since_ptr + table)
    jump = tl.load(shift_ptr + table) - tl.load(shift_ptr + table - 1, mask=column > 0, other=0)
    batch = (row // heads).to(tl.int64)
    head = (row % heads).to(tl.int64)
    base = row.to(tl.int64) * seq_len
    fields = plan_ptr + curve_size * CURVE
    place = tile * KEY_TILE + tl.arange(0, KEY_TILE)
    held = place < tl.load(fields + visible_at + row * WIDTH + num_lists - 1)
    # key: [T] int32
    key = tl.load(fields + row.to(tl.int64) * list_ids + full_at + place, mask=held, other=0)
    k_at = k_ptr + batch * stride_kb + head * stride_kh + key * stride_kn
    q_base = q_ptr + batch * stride_qb + head * stride_qh
    grad_base = grad_ptr + batch * stride_gb + head * stride_gh
    dim, coord = tl.arange(0, PAD_V), tl.arange(0, PAD_K)
    gamma = tl.load(gamma_ptr + head * GAMMA_STEP)
    unit = unit_of(gamma, SCORE)
    gamma *= unit
    # x: [T, 1], one coordinate each; values: [T, PAD_V]
    x0, x1, x2, x3 = columns(k_at[:, None], unit, DIMS)
    values = wide_rows(v_ptr + batch * stride_vb + head * stride_vh, key * stride_vn, D_V, PAD_V)
    q_cells += base * CELL_DIMS
    k_cells += base * CELL_DIMS
    zero = tl.zeros([KEY_TILE, BLOCK], tl.float32)
    d0, d1, d2, d3 = zero, zero, zero, zero
    rest = tl.zeros([KEY_TILE, PAD_K], tl.float32)
    sent = tl.zeros([KEY_TILE], tl.float32)
    dv = tl.zeros([KEY_TILE, PAD_V], tl.float32)
    # Places that no window holds, for rows past the last key; and the first token that sees a key.
    place = tl.where(held, place, 2147483647)
    limit = (key // chunk) * chunk + chunk
    for n in tl.range(visit, until, BLOCK, num_stages=STAGES):
        number = n + tl.arange(0, BLOCK)
        slot = tl.minimum(number, until - 1)
        slot += tl.sum(tl.where(slot[:, None] >= since[None, :], jump[None, :], 0), 1)
        # record: [BLOCK] int64 each, pairs of numbers as kernel_backward.write_record packs them
        record = record_ptr.to(tl.pointer_type(tl.int64)) + (base + slot) * 4
        window, scales = tl.load(record), tl.load(record + 1)
        first = window.to(tl.int32)
        count = tl.where(number < until, (window >> 32).to(tl.int32), 0)
        inverted = scales.to(tl.int32).to(tl.float32, bitcast=True)
        delta = (scales >> 32).to(tl.int32).to(tl.float32, bitcast=True)
        low, high = tl.load(record + 2), tl.load(record + 3)
        q0 = low.to(tl.int32).to(tl.float32, bitcast=True)[None, :]
        q1 = (low >> 32).to(tl.int32).to(tl.float32, bitcast=True)[None, :]
        q2 = high.to(tl.int32).to(tl.float32, bitcast=True)[None, :]
        q3 = (high >> 32).to(tl.int32).to(tl.float32, bitcast=True)[None, :]
        query = (high >> 32).to(tl.int32)
        if DIMS > 3:
            # query: [BLOCK] int32
            query = tl.load(fields + order_at + base + slot)
        q_at = q_base + query * stride_qn
        # grad: [BLOCK, PAD_V]
        grad = wide_rows(grad_base, query * stride_gn, D_V, PAD_V)
        close = closeness(
            q0, q1, q2, q3, x0, x1, x2, x3, q_at[None, :], k_at[:, None], unit, gamma, DIMS, SCORE
        )  # fmt: skip
        ok = in_window(place[:, None], first[None, :], count[None, :])
        if MODE != ALL:
            ok = ok & (limit[:, None] <= query[None, :])
        ok = selected(
            ok, query[None, :], key[:, None], chunk, local, plan_ptr + base, curve_size, place_at, first_at, last_at,
            bound_at, tie_at, q_cells, k_cells, CELL_DIMS, MODE, CURVE, CURVE, REFINE, LOCAL,
        )  # fmt: skip
        P, e, _of_gamma = slopes(
            ok, close, product(values, tl.trans(grad)), delta[None, :], inverted[None, :], gamma, SCORE
        )  # fmt: skip
        if NEED_V:
            if grad.dtype == tl.float32:
                dv += tl.dot(P, grad, input_precision="ieee")
            else:
                dv += tl.dot(P.to(grad.dtype), grad)
        if DIMS <= UNROLLED:
            d0 += pull_term(e, x0, q0, SCORE)
            if DIMS > 1:
                d1 += pull_term(e, x1, q1, SCORE)
            if DIMS > 2:
                d2 += pull_term(e, x2, q2, SCORE)
            if DIMS > 3:
                d3 += pull_term(e, x3, q3, SCORE)
        else:
            # q: [BLOCK, PAD_K]
            q = tl.load(q_at[:, None] + coord[None, :], mask=(coord < DIMS)[None, :], other=0.0)
            rest += tl.dot(e, q.to(tl.float32) * unit, input_precision="ieee")
            sent += tl.sum(e, 1)
    factor = pull_factor(unit, SCORE)
    s0, s1 = factor * tl.sum(d0, 1), factor * tl.sum(d1, 1)
    s2, s3 = factor * tl.sum(d2, 1), factor * tl.sum(d3, 1)
    if DIMS > UNROLLED:
        if SCORE != NORMALIZED_DOT:
            # x: [T, PAD_K]
            x = tl.load(k_at[:, None] + coord[None, :], mask=(coord < DIMS)[None, :], other=0.0)
            rest = x.to(tl.float32) * unit * sent[:, None] - rest
        rest *= factor
    if is_part:
        slot_at = slots_ptr + (row * most + task).to(tl.int64) * (KEY_TILE * (PAD_V + PAD_K))
        line = tl.arange(0, KEY_TILE)
        tl.store(slot_at + line[:, None] * PAD_V + dim[None, :], dv)
        slot_at += KEY_TILE * PAD_V
        if DIMS <= UNROLLED:
            tl.store(slot_at + line * PAD_K, s0)
            if DIMS > 1:
                tl.store(slot_at + line * PAD_K + 1, s1)
            if DIMS > 2:
                tl.store(slot_at + line * PAD_K + 2, s2)
            if DIMS > 3:
                tl.store(slot_at + line * PAD_K + 3, s3)
        else:
            tl.store(slot_at + line[:, None] * PAD_K + coord[None, :], rest)
    else:
        store_gradients(
            key, held, base, s0, s1, s2, s3, rest, dv, dk_ptr, dv_ptr + batch * stride_wb + head * stride_wh,
            stride_wn, DIMS, PAD_K, D_V, PAD_V, CURVE, NEED_V,
        )  # fmt: skip


@triton.jit
def combine_kernel(
    slots_ptr, parts_ptr, plan_ptr, dk_ptr, dv_ptr, heads, seq_len, key_tiles, most, stride_wb, stride_wh, stride_wn,
    list_ids, full_at, curve_size, visible_at, num_lists, DIMS: tl.constexpr, PAD_K: tl.constexpr,
    D_V: tl.constexpr, PAD_V: tl.constexpr, WIDTH: tl.constexpr, CURVE: tl.constexpr, NEED_V: tl.constexpr,
    KEY_TILE: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """Add up the parts of long tiles in their order; the program of a tile's first part does it."""
    pid = tl.program_id(0)
    row = pid // most
    part = pid % most
    parts = parts_ptr + row * (key_tiles + 1)
    if part >= tl.load(parts + key_tiles):
        return
    tile = tile_of_part(parts, part, key_tiles, STEPS)
    if part != tl.load(parts + tile):
        return
    dim, coord, line = tl.arange(0, PAD_V), tl.arange(0, PAD_K), tl.arange(0, KEY_TILE)
    dv = tl.zeros([KEY_TILE, PAD_V], tl.float32)
    dk = tl.zeros([KEY_TILE, PAD_K], tl.float32)
    for i in range(part, tl.load(parts + tile + 1)):
        slot_at = slots_ptr + (row * most + i).to(tl.int64) * (KEY_TILE * (PAD_V + PAD_K))
        # dv: [T, PAD_V], dk: [T, PAD_K] of one part
        dv += tl.load(slot_at + line[:, None] * PAD_V + dim[None, :])
        dk += tl.load(
            slot_at + KEY_TILE * PAD_V + line[:, None] * PAD_K + coord[None, :],
            mask=(line >= 0)[:, None] & (coord < DIMS)[None, :],
            other=0.0,
        )
    place = tile * KEY_TILE + line
    held = place < tl.load(plan_ptr + curve_size * CURVE + visible_at + row * WIDTH + num_lists - 1)
    # key: [T] int32
    key = tl.load(plan_ptr + curve_size * CURVE + row.to(tl.int64) * list_ids + full_at + place, mask=held, other=0)
    base = row.to(tl.int64) * seq_len
    at, narrow = (dk_ptr + (base + key) * DIMS)[:, None] + coord[None, :], held[:, None] & (coord < DIMS)[None, :]
    if CURVE > 0:
        # dk: [T, PAD_K]
        dk += tl.load(at, mask=narrow, other=0.0)
    tl.store(at, dk, mask=narrow)
    if NEED_V:
        batch = (row // heads).to(tl.int64)
        head = (row % heads).to(tl.int64)
        at = dv_ptr + batch * stride_wb + head * stride_wh + (key * stride_wn)[:, None] + dim[None, :]
        wide = held[:, None] & (dim < D_V)[None, :]
        if CURVE > 0:
            # dv: [T, PAD_V]
            dv += tl.load(at, mask=wide, other=0.0).to(tl.float32)
        tl.store(at, dv.to(dv_ptr.dtype.element_ty), mask=wide)

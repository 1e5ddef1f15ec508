"""The joint order of queries and keys of short rows, and from such an order to lists of keys and windows.

Short rows are sorted here, since torch's radix sort takes some twenty launches, which then cost more than the work:
a code and the place of its point in the row share one 64-bit number, so that no two are equal and the sort is
stable; tiles are sorted alone, and every point's rank is counted in each of them.

Of a tile of the order, count the keys of every list and the queries of every segment; sum the counts over
tiles; then each key knows its place in every list that holds it, and each query the keys that sort before
it in its own list, which is where its window lies."""

from __future__ import annotations

import triton
import triton.language as tl

from ..kernel_layout import LEVELS, key_list, list_of_segment, list_offset, query_segment, segment_start
from ..zorder.kernel import cell_of, spread

MOST_COUNTED = 128
"""Keys or queries of a tile: a count of them fits 8 bits."""
NO_POINT = tl.constexpr(0x7FFFFFFFFFFFFFFF)
"""Sorts after every point."""
ONE = tl.constexpr(1)
ONES = tl.constexpr(0x0101010101010101)


@triton.jit
def tiles_kernel(
    q_ptr, k_ptr, sorted_ptr, outer_ptr, seq_len, heads, tiles, stride_qb, stride_qh, stride_qn, stride_kb, stride_kh,
    stride_kn, DIMS: tl.constexpr, ORDER: tl.constexpr, PLACE_BITS: tl.constexpr, ALONE: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """sorted [rows, tiles, TILE] int64: of each point its code above its place, queries before keys; ascending in
    every tile. A tile that is ALONE in its row is the order: outer [rows, 2 seq_len] int32."""
    pid = tl.program_id(0)
    row = pid // tiles
    batch = (row // heads).to(tl.int64)
    head = (row % heads).to(tl.int64)
    place = (pid % tiles) * TILE + tl.arange(0, TILE)
    is_query = place < seq_len
    is_key = (place >= seq_len) & (place < 2 * seq_len)
    token = tl.where(is_query, place, place - seq_len).to(tl.int64)
    q_at = q_ptr + batch * stride_qb + head * stride_qh + token * stride_qn
    k_at = k_ptr + batch * stride_kb + head * stride_kh + token * stride_kn
    code = place.to(tl.int64) * 0
    for d in tl.static_range(DIMS):
        at = (ORDER >> (3 * d)) & 7
        # one coordinate of every point: [TILE]
        of_query = cell_of(tl.load(q_at + at, mask=is_query, other=0.0), 4095)
        of_key = cell_of(tl.load(k_at + at, mask=is_key, other=0.0), 4095)
        code |= spread(tl.where(is_query, of_query, of_key), d, DIMS)
    number = tl.where(is_query | is_key, (code << PLACE_BITS) | place, NO_POINT)
    number = tl.sort(number)
    if ALONE:
        rank = tl.arange(0, TILE)
        found = (number & ((1 << PLACE_BITS) - 1)).to(tl.int32)
        tl.store(outer_ptr + row.to(tl.int64) * (2 * seq_len) + rank, found, mask=rank < 2 * seq_len)
    else:
        tl.store(sorted_ptr + pid.to(tl.int64) * TILE + tl.arange(0, TILE), number)


@triton.jit
def ranks_kernel(
    sorted_ptr, outer_ptr, seq_len, tiles, PLACE_BITS: tl.constexpr, TILES: tl.constexpr, TILE: tl.constexpr,
    HALVINGS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """outer [rows, 2 seq_len] int32, the place of every point in its row: the points before it are counted in each
    of the row's sorted tiles by bisection, all tiles at once."""
    blocks = tiles * (TILE // BLOCK)
    pid = tl.program_id(0)
    row = (pid // blocks).to(tl.int64)
    mine = sorted_ptr + row * tiles * TILE
    # number: [BLOCK] int64
    number = tl.load(mine + (pid % blocks) * BLOCK + tl.arange(0, BLOCK))
    tile = tl.arange(0, TILES)
    exists = (tile < tiles)[None, :]
    before = tl.zeros([BLOCK, TILES], tl.int32)
    for halving in tl.static_range(HALVINGS):
        # one number of each tile for every point: [BLOCK, TILES] int64
        other = tl.load(
            mine + tile[None, :] * TILE + before + (TILE >> (halving + 1)) - 1, mask=exists, other=NO_POINT
        )
        before += tl.where(other < number[:, None], TILE >> (halving + 1), 0)
    # The last number of a tile, which halving never asks for.
    other = tl.load(mine + tile[None, :] * TILE + before, mask=exists, other=NO_POINT)
    before += (other < number[:, None]).to(tl.int32)
    found = (number & ((1 << PLACE_BITS) - 1)).to(tl.int32)
    tl.store(outer_ptr + row * (2 * seq_len) + tl.sum(before, 1), found, mask=number != NO_POINT)


@triton.jit
def count_kernel(
    outer_ptr,
    inner_ptr,
    mask_ptr,
    joint_ptr,
    counts_ptr,
    seq_len,
    chunk,
    heads,
    tiles,
    HAS_INNER: tl.constexpr,
    FLAT: tl.constexpr,
    PADDED: tl.constexpr,
    MODE: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
):
    """counts: [rows, 2, tiles, WIDTH]. joint: [rows, 2 seq_len], the order; -1 for a padded key."""
    pid = tl.program_id(0)
    row = pid // tiles
    tile = pid % tiles
    length = 2 * seq_len
    place = tile * TILE + tl.arange(0, TILE)
    inside = place < length
    base = row.to(tl.int64) * length
    # at: [TILE] int64, indices of a sort
    at = tl.load(outer_ptr + base + place, mask=inside, other=0)
    if HAS_INNER:
        # at: [TILE] int64, gathered
        at = tl.load(inner_ptr + at, mask=inside, other=0)
    if FLAT:
        at -= base
    at = at.to(tl.int32)
    is_key = inside & (at >= seq_len)
    is_query = inside & (at < seq_len)
    token = tl.where(is_key, at - seq_len, at)
    token = tl.where(inside, token, 0)
    if PADDED:
        # ignored: [TILE] bool
        ignored = tl.load(mask_ptr + (row // heads).to(tl.int64) * seq_len + token, mask=is_key, other=0)
        is_key = is_key & (ignored == 0)
        at = tl.where(is_key | is_query, at, -1)
    tl.store(joint_ptr + base + place, at, mask=inside)
    column = tl.arange(0, WIDTH)
    keys = is_key[:, None] & (key_list(token, chunk, MODE)[:, None] <= column[None, :])
    queries = is_query[:, None] & (query_segment(token, chunk, MODE)[:, None] == column[None, :])
    to = counts_ptr + (row * 2 * tiles + tile) * WIDTH + column
    tl.store(to, tl.sum(keys.to(tl.int32), 0))
    tl.store(to + tiles * WIDTH, tl.sum(queries.to(tl.int32), 0))


@triton.jit
def scan_kernel(counts_ptr, visible_ptr, tiles, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Exclusive sums over tiles, in place; the totals of keys are the lengths of lists."""
    pid = tl.program_id(0)
    column = tl.arange(0, WIDTH)
    before = tl.zeros([WIDTH], tl.int32)
    for first in range(0, tiles, BLOCK):
        tile = first + tl.arange(0, BLOCK)
        at = counts_ptr + (pid * tiles + tile)[:, None] * WIDTH + column[None, :]
        # here: [BLOCK, WIDTH] int32
        here = tl.load(at, mask=(tile < tiles)[:, None], other=0)
        tl.store(at, before[None, :] + tl.cumsum(here, 0) - here, mask=(tile < tiles)[:, None])
        before += tl.sum(here, 0)
    if pid % 2 == 0:
        tl.store(visible_ptr + (pid // 2) * WIDTH + column, before)


@triton.jit
def emit_kernel(
    joint_ptr,
    counts_ptr,
    visible_ptr,
    lists_ptr,
    order_ptr,
    start_ptr,
    tiles_ptr,
    place_ptr,
    seq_len,
    chunk,
    list_ids,
    tiles,
    key_tiles,
    window,
    NUM_LISTS: tl.constexpr,
    KEEP_TILES: tl.constexpr,
    KEEP_PLACE: tl.constexpr,
    MODE: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    KEY_TILE: tl.constexpr,
):
    """Write every list, the order of queries and where their windows start.

    With LEVELS a list holds keys that some of its queries do not see: `start` is then the number of all keys
    that sort before the query, and `levels_kernel` goes on from there."""
    pid = tl.program_id(0)
    row = pid // tiles
    tile = pid % tiles
    length = 2 * seq_len
    place = tile * TILE + tl.arange(0, TILE)
    inside = place < length
    # at: [TILE] int32
    at = tl.load(joint_ptr + row.to(tl.int64) * length + place, mask=inside, other=-1)
    is_key = at >= seq_len
    is_query = (at >= 0) & (at < seq_len)
    token = tl.where(is_key, at - seq_len, tl.maximum(at, 0))
    first_list = key_list(token, chunk, MODE)
    segment = query_segment(token, chunk, MODE)
    own_list = tl.maximum(list_of_segment(segment, MODE), 0)
    table = counts_ptr + (row * 2 * tiles + tile) * WIDTH
    lists = lists_ptr + row.to(tl.int64) * list_ids
    turn, smaller, among_all = place * 0, place * 0, place * 0
    # Eight counts of at most 128 in one word: one scan instead of eight.
    for down in tl.static_range(NUM_LISTS // 8 + 1):
        group = NUM_LISTS // 8 - down
        byte = tl.maximum(first_list - 8 * group, 0)
        mine = tl.where(is_key & (byte < 8), ONES << (8 * tl.minimum(byte, 7)).to(tl.int64), 0)
        counted = tl.cumsum(mine, 0) - mine
        asking = is_query & (segment // 8 == group)
        asked = tl.where(asking, ONE << (8 * (segment % 8)).to(tl.int64), 0)
        waiting = ((tl.cumsum(asked, 0) - asked) >> (8 * (segment % 8)).to(tl.int64)) & 255
        turn += tl.where(asking, waiting.to(tl.int32), 0)
        ranked = (counted >> (8 * (own_list % 8)).to(tl.int64)) & 255
        smaller += tl.where(own_list // 8 == group, ranked.to(tl.int32), 0)
        if group == (NUM_LISTS - 1) // 8:
            among_all = tl.load(table + NUM_LISTS - 1) + ((counted >> (8 * ((NUM_LISTS - 1) % 8))) & 255).to(tl.int32)
        for i in tl.static_range(8):
            if 8 * group + i < NUM_LISTS:
                index = 8 * group + i
                # keys of this list before this tile: one number
                rank = tl.load(table + index) + ((counted >> (8 * i)) & 255).to(tl.int32)
                to = lists + list_offset(row * 0 + index, chunk, MODE) + rank
                tl.store(to, token, mask=is_key & (first_list <= index))
                if KEEP_TILES:
                    into = tiles_ptr + (row * key_tiles + among_all // KEY_TILE) * WIDTH + index
                    tl.store(into, rank, mask=is_key & (among_all % KEY_TILE == 0))
    if KEEP_PLACE:
        tl.store(place_ptr + row.to(tl.int64) * seq_len + token, among_all, mask=is_key)
    # queries of the segment before this tile: [TILE] int32
    turn += tl.load(table + tiles * WIDTH + segment)
    slot = row.to(tl.int64) * seq_len + segment_start(segment, chunk, MODE) + turn
    tl.store(order_ptr + slot, token, mask=is_query)
    if MODE == LEVELS:
        tl.store(start_ptr + slot, among_all, mask=is_query)
    else:
        # keys of the query's list before this tile, and in all: [TILE] int32
        smaller += tl.load(table + own_list)
        size = tl.load(visible_ptr + row * WIDTH + own_list)
        taken = tl.minimum(size, window)
        start = tl.minimum(tl.maximum(smaller - window // 2, 0), size - taken)
        tl.store(start_ptr + slot, start, mask=is_query)

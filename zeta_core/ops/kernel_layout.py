"""Where lists and segments lie, for kernels: the arithmetic of `layout.Layout`."""

from __future__ import annotations

import triton
import triton.language as tl

EXACT = tl.constexpr(0)
LEVELS = tl.constexpr(1)
ALL = tl.constexpr(2)


@triton.jit
def bit_length(x):
    bits = x * 0
    for i in tl.static_range(31):
        bits += ((x >> i) > 0).to(tl.int32)
    return bits


@triton.jit
def key_list(token, chunk, MODE: tl.constexpr):
    """The first list that holds a key; so do all later ones."""
    if MODE == EXACT:
        return token // chunk
    elif MODE == LEVELS:
        return bit_length(token // chunk)
    else:
        return token * 0


@triton.jit
def query_segment(token, chunk, MODE: tl.constexpr):
    if MODE == EXACT:
        return token // chunk
    elif MODE == LEVELS:
        m = token // chunk
        return tl.where(m == 0, 0, 1 + bit_length(tl.maximum(m - 1, 0)))
    else:
        return token * 0


@triton.jit
def list_of_segment(segment, MODE: tl.constexpr):
    """-1: the segment sees nothing."""
    if MODE == ALL:
        return segment
    else:
        return segment - 1


@triton.jit
def segment_start(segment, chunk, MODE: tl.constexpr):
    if MODE == EXACT:
        return segment * chunk
    elif MODE == LEVELS:
        later = ((1 << tl.maximum(segment - 2, 0)) + 1) * chunk
        return tl.where(segment == 0, 0, tl.where(segment == 1, chunk, later))
    else:
        return segment * 0


@triton.jit
def list_offset(index, chunk, MODE: tl.constexpr):
    if MODE == EXACT:
        return chunk * (index * (index + 1) // 2)
    elif MODE == LEVELS:
        return chunk * ((1 << index) - 1)
    else:
        return index * 0


@triton.jit
def list_tokens(index, chunk, seq_len, MODE: tl.constexpr):
    """The tokens below a list's limit."""
    if MODE == EXACT:
        return tl.minimum((index + 1) * chunk, seq_len)
    elif MODE == LEVELS:
        return tl.minimum((1 << index) * chunk, seq_len)
    else:
        return seq_len


@triton.jit
def query_tile(tile, seq_len, chunk, MODE: tl.constexpr, NUM_LISTS: tl.constexpr, BLOCK: tl.constexpr):
    """Segment, first row and last row + 1 of one tile of sorted queries."""
    if MODE == EXACT:
        each = tl.cdiv(chunk, BLOCK)
        segment = 1 + tile // each
        first = segment * chunk + (tile % each) * BLOCK
        return segment, first, tl.minimum((segment + 1) * chunk, seq_len)
    elif MODE == LEVELS:
        segment, first, last, before = tile * 0, tile * 0, tile * 0, tile * 0
        for s in tl.static_range(1, NUM_LISTS + 1):
            a = tl.minimum(segment_start(s + tile * 0, chunk, MODE), seq_len)
            b = tl.minimum(segment_start(s + 1 + tile * 0, chunk, MODE), seq_len)
            count = tl.cdiv(b - a, BLOCK)
            here = (tile >= before) & (tile < before + count)
            segment = tl.where(here, s, segment)
            first = tl.where(here, a + (tile - before) * BLOCK, first)
            last = tl.where(here, b, last)
            before += count
        return segment, first, last
    else:
        return tile * 0, tile * BLOCK, seq_len


@triton.jit
def ends(fields, row, begin, end, segment, seq_len, order_at, start_at, stop_at, visible_at, window,
         MODE: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Tokens of a tile of sorted queries and the ends of their windows in their list; empty past the end."""
    place = begin + tl.arange(0, BLOCK)
    valid = place < end
    base = row.to(tl.int64) * seq_len + place
    # token, start: [BLOCK] int32
    token = tl.load(fields + order_at + base, mask=valid, other=0)
    start = tl.load(fields + start_at + base, mask=valid, other=0)
    if MODE == LEVELS:
        # stop: [BLOCK] int32
        stop = tl.load(fields + stop_at + base, mask=valid, other=0)
    else:
        size = tl.load(fields + visible_at + row * WIDTH + list_of_segment(segment, MODE))
        stop = tl.where(valid, start + tl.minimum(size, window), start)
    return token, start, stop, valid

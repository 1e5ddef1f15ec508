"""Windows where a list holds keys that its queries do not all see (a short chunk in a long sequence).

A wavelet matrix over the places of keys, in token order, counts the keys before token r that sort before
place p, and finds the s-th of them, in log2(N) steps whatever the points are."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ..kernel_layout import LEVELS, list_of_segment, list_tokens, query_tile


def zeros_before(place: torch.Tensor, bits: int) -> torch.Tensor:
    """The wavelet matrix of place [rows, seq_len] int32: [bits, rows, seq_len + 1] int32.

    For each bit from the top, how many of the first i numbers have it 0, the numbers being parted by the
    bits above. The last column holds the totals."""
    rows, seq_len = place.shape
    matrix = torch.zeros(bits, rows, seq_len + 1, dtype=torch.int32, device=place.device)
    numbers = place
    index = torch.arange(seq_len, dtype=torch.int64, device=place.device)
    for level in range(bits):
        zero = ((numbers >> (bits - 1 - level)) & 1) == 0
        through = zero.cumsum(1)
        matrix[level, :, 1:] = through
        before = through - zero.long()
        to = torch.where(zero, before, through[:, -1:] + index - before)
        numbers = torch.empty_like(numbers).scatter_(1, to, numbers)
    return matrix


@triton.jit
def smaller_before(matrix, level_stride, seq_len, tokens, bound, BITS: tl.constexpr):
    """How many of the first `tokens` keys have a place below bound."""
    low, high, count = tokens * 0, tokens, tokens * 0
    for level in tl.static_range(BITS):
        at = matrix + level * level_stride
        # [BLOCK] int32 each, by number
        low_zeros, high_zeros, zeros = tl.load(at + low), tl.load(at + high), tl.load(at + seq_len)
        one = ((bound >> (BITS - 1 - level)) & 1) == 1
        count += tl.where(one, high_zeros - low_zeros, 0)
        low = tl.where(one, zeros + low - low_zeros, low_zeros)
        high = tl.where(one, zeros + high - high_zeros, high_zeros)
    return count


@triton.jit
def nth_before(matrix, level_stride, seq_len, tokens, nth, BITS: tl.constexpr):
    """The nth smallest place, from 0, of the first `tokens` keys."""
    low, high, value = tokens * 0, tokens, tokens * 0
    for level in tl.static_range(BITS):
        at = matrix + level * level_stride
        # [BLOCK] int32 each, by number
        low_zeros, high_zeros, zeros = tl.load(at + low), tl.load(at + high), tl.load(at + seq_len)
        one = nth >= high_zeros - low_zeros
        nth -= tl.where(one, high_zeros - low_zeros, 0)
        low = tl.where(one, zeros + low - low_zeros, low_zeros)
        high = tl.where(one, zeros + high - high_zeros, high_zeros)
        value = value * 2 + one.to(tl.int32)
    return value


@triton.jit
def levels_kernel(
    matrix_ptr,
    order_ptr,
    start_ptr,
    stop_ptr,
    first_ptr,
    last_ptr,
    rows,
    seq_len,
    chunk,
    window,
    tiles,
    SEVERAL: tl.constexpr,
    NUM_LISTS: tl.constexpr,
    BITS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Turn `start`, the number of keys before a query, into the ends of its window in its list."""
    pid = tl.program_id(0)
    row = pid // tiles
    segment, begin, end = query_tile(pid % tiles, seq_len, chunk, LEVELS, NUM_LISTS, BLOCK)
    place = begin + tl.arange(0, BLOCK)
    valid = place < end
    base = row.to(tl.int64) * seq_len
    # token, before: [BLOCK] int32
    token = tl.load(order_ptr + base + place, mask=valid, other=0)
    before = tl.load(start_ptr + base + place, mask=valid, other=0)
    matrix = matrix_ptr + row.to(tl.int64) * (seq_len + 1)
    stride = rows.to(tl.int64) * (seq_len + 1)
    tokens = (token // chunk) * chunk
    smaller = smaller_before(matrix, stride, seq_len, tokens, before, BITS)
    # Padded keys have place seq_len, above every bound that is asked for.
    size = smaller_before(matrix, stride, seq_len, tokens, token * 0 + seq_len, BITS)
    taken = tl.minimum(size, window)
    start = tl.minimum(tl.maximum(smaller - window // 2, 0), size - taken)
    first = nth_before(matrix, stride, seq_len, tokens, start, BITS)
    last = nth_before(matrix, stride, seq_len, tokens, start + tl.maximum(taken, 1) - 1, BITS)
    limit = list_tokens(list_of_segment(segment, LEVELS), chunk, seq_len, LEVELS) + token * 0
    some = taken > 0
    a = smaller_before(matrix, stride, seq_len, limit, first, BITS)
    b = smaller_before(matrix, stride, seq_len, limit, last, BITS) + 1
    tl.store(start_ptr + base + place, tl.where(some, a, 0), mask=valid)
    tl.store(stop_ptr + base + place, tl.where(some, b, 0), mask=valid)
    if SEVERAL:
        tl.store(first_ptr + base + token, tl.where(some, first, 1), mask=valid)
        tl.store(last_ptr + base + token, tl.where(some, last, 0), mask=valid)

"""One stable sort of queries and keys together: by row and code, queries before keys, then by position.

Everything else about windows is counting along this order. torch's radix sort costs by key width, used or
not, so a code is cut where a narrow pass and a 32-bit pass hold it. Short rows are sorted by kernels of our own."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
import triton

from ..kernel_launch import Array, Launch
from ..layout import Layout, next_power
from ..zorder.kernel import joint_codes
from .kernel import ranks_kernel, tiles_kernel

FLAT_FROM = 4096
"""Longer rows are sorted twice by torch; up to here one kernel sorts a row a block."""
FLAT_ROWS = 128
SHORT = 1 << 18
TILE = 1024
"""Points that one program sorts, at most."""
MOST_TILES = 32
"""Rows of more tiles are left to torch: each point is searched in every tile."""
SORT_WARPS = 8
RANKED = 1024
"""Comparisons of a point with a tile that one program makes at once."""


def joint_order(
    q: torch.Tensor, k: torch.Tensor, order: tuple[int, ...]
) -> tuple[torch.Tensor, torch.Tensor | None, bool]:
    """The sorted order of [queries, keys] of every row: (outer, inner, flat).

    Place i of row g holds outer[g, i], or inner[outer[g, i]] if there is an inner; below seq_len it is a
    query, else a key. flat: values count through all rows."""
    row_bits, low_bits, high_bits = widths(*q.shape)
    low, high = joint_codes(q, k, order, row_bits=row_bits, low_bits=low_bits, high_bits=high_bits)
    if not row_bits:
        return order_of_words(high), None, False
    if not low_bits:
        return high.view(-1).sort(stable=True)[1], None, True
    inner = low.view(-1).sort(stable=True)[1]
    return high.view(-1).gather(0, inner).sort(stable=True)[1], inner, True


@lru_cache(maxsize=256)
def widths(batch: int, heads: int, seq_len: int, dims: int) -> tuple[int, int, int]:
    """Bits for the row's number (0: every row is sorted alone), of the low sort key (0: none) and of the high one."""
    rows, bits = batch * heads, 12 * dims
    row_bits = max(1, (rows - 1).bit_length())
    if 2 * seq_len <= FLAT_FROM or rows >= FLAT_ROWS or bits + row_bits > 63:
        return 0, 0, 32 if bits <= 32 else 64
    # A short sort costs launches, not passes.
    return (row_bits, *(cut(bits + row_bits) if 2 * seq_len * rows > SHORT else (0, 64)))


def cut(bits: int) -> tuple[int, int]:
    """Widths of the low and the high sort key for codes of so many bits; low 0 is a single sort."""
    if bits <= 32:
        return 0, 32
    if bits <= 40:
        return 8, 32
    if bits <= 48:
        return 16, 32
    return 0, 64


def order_of_words(words: torch.Tensor) -> torch.Tensor:
    """The stable order of each row of words [words, rows, 2 seq_len], most significant first."""
    order = words[-1].sort(dim=1, stable=True)[1]
    for word in reversed(words[:-1].unbind()):
        order = order.gather(1, word.gather(1, order).sort(dim=1, stable=True)[1])
    return order


def is_short(seq_len: int, dims: int) -> bool:
    """Whether the kernels here take rows of so many queries and as many keys: their codes leave room for a place."""
    return 2 * seq_len <= TILE * MOST_TILES and 12 * dims + place_bits(seq_len) <= 63


def place_bits(seq_len: int) -> int:
    return (2 * seq_len - 1).bit_length()


class Points(NamedTuple):
    """Coordinates that are sorted on the way."""

    dims: int
    order: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    """Of queries and keys"""
    kinds: tuple[torch.dtype, ...]


def sorting(
    points: Points, layout: Layout, heads: int, size: int, arrays: tuple[Array, ...]
) -> list[tuple[Launch, tuple[Array, ...]]]:
    """The launches that sort points in tiles of some size, and then each row's tiles together.

    arrays: coordinates of queries and of keys, sorted, outer."""
    rows, seq_len = layout.rows, layout.seq_len
    tiles, bits = triton.cdiv(2 * seq_len, size), place_bits(seq_len)
    packed = sum(dim << (3 * place) for place, dim in enumerate(points.order))
    strides = (step for stride in points.strides for step in stride[:3])
    alone = Launch(
        tiles_kernel, rows * tiles, seq_len, heads, tiles, *strides, DIMS=points.dims, ORDER=packed, PLACE_BITS=bits,
        ALONE=tiles == 1, TILE=size, num_warps=SORT_WARPS if size >= TILE else 4,
    )  # fmt: skip
    several = next_power(tiles)
    block = min(size, RANKED // several)
    together = Launch(
        ranks_kernel, rows * tiles * (size // block) if tiles > 1 else 0, seq_len, tiles, PLACE_BITS=bits,
        TILES=several, TILE=size, HALVINGS=size.bit_length() - 1, BLOCK=block,
    )  # fmt: skip
    return [(alone, arrays), (together, arrays[2:])]

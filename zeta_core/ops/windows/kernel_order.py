"""One stable sort of queries and keys together: by row and code, queries before keys, then by position.

Everything else about windows is counting along this order. torch's radix sort costs by key width, used or
not, so a code is cut where a narrow pass and a 32-bit pass hold it."""

from __future__ import annotations

from functools import lru_cache

import torch

from ..zorder.kernel import joint_codes

FLAT_FROM = 4096
"""Longer rows are sorted twice by torch; up to here one kernel sorts a row a block."""
FLAT_ROWS = 128
SHORT = 1 << 18


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

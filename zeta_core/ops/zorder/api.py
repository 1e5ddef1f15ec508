"""Morton codes of points in the unit cube, and the orders of dimensions that give several curves."""

from __future__ import annotations

from itertools import permutations

from torch import Tensor

from zeta_core.errors import OptionError, ShapeError

from ..impl import Impl, resolve_impl
from . import reference

NUM_BITS = 12
"""Bits a dimension: the paper's grid of 4,096 cells."""
MAX_D_K = 128
CURVES = (1, 3, 6)


def grid_cells(coords: Tensor, *, num_bits: int = NUM_BITS) -> Tensor:
    """The grid cell of every coordinate: clamp(floor(2^num_bits u), 0, 2^num_bits - 1); NaN takes the last.

    coords: any shape, any float dtype (half precision is upcast exactly). Returns: int64, same shape."""
    return reference.cells(coords, num_bits)


def zorder_codes(coords: Tensor, *, num_bits: int = NUM_BITS, impl: Impl = "auto") -> Tensor:
    """Morton codes: the bits of all dimensions interleaved, most significant first, dimension 1 first.

    coords: [batch, heads, seq_len, d_K] in [0, 1], float; values outside are clamped to the grid.
    Returns: [batch, heads, seq_len, words] int64, most significant word first, 62 bits a word: one word
    while num_bits * d_K <= 62, else several that compare lexicographically (never fewer bits).
    Raises: ShapeError, OptionError. Source: ZETA, section on Z-order curves (num_bits = 12)."""
    check_coords(coords, num_bits)
    if resolve_impl(impl, coords.device) == "triton" and num_bits == NUM_BITS:
        from .kernel import forward

        return forward(coords)
    return reference.forward(grid_cells(coords, num_bits=num_bits), num_bits)


def curve_orders(curves: int, d_k: int) -> tuple[tuple[int, ...], ...]:
    """The order of dimensions of each curve: 1 the identity, 3 the cyclic shifts, 6 all permutations.

    Raises: OptionError if curves is not 1, 3 or 6, or is 3 or 6 with d_k other than 3."""
    if curves not in CURVES:
        raise OptionError(f"curves={curves} is not one of 1, 3, 6")
    if curves == 1:
        return (tuple(range(d_k)),)
    if d_k != 3:
        raise OptionError(f"curves={curves} needs d_k=3, not d_k={d_k}; use curves=1 or d_k=3")
    shifts = ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    return shifts if curves == 3 else shifts + tuple(p for p in permutations(range(3)) if p not in shifts)


def check_coords(coords: Tensor, num_bits: int) -> None:
    """Raises ShapeError or OptionError unless zorder_codes can take these arguments."""
    if coords.dim() != 4:
        raise ShapeError(f"coords has shape {list(coords.shape)}; expected [batch, heads, seq_len, d_K]")
    if not coords.is_floating_point():
        raise ShapeError(f"coords has dtype {coords.dtype}; expected a floating-point dtype")
    if not 1 <= coords.shape[-1] <= MAX_D_K:
        raise ShapeError(f"d_K={coords.shape[-1]} is outside 1..{MAX_D_K}")
    if not 1 <= num_bits <= 16:
        raise OptionError(f"num_bits={num_bits} is outside 1..16")

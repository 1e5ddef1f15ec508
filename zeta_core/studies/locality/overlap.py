"""The overlap of a point's true neighbours with those on its Z-order curves.

A point's neighbours are other points: it is never its own. The true ones are the num_neighbours nearest by Euclidean
distance, ties by position. On a curve they are the num_neighbours points next to it in the order (code, position): as
in ZETA a window from (num_neighbours + 1) // 2 places before it on, shifted to stay inside at both ends. Several
curves share num_neighbours as evenly as it goes (64 over 3: 22, 21, 21), and a point found by two counts once."""

from __future__ import annotations

import torch
from torch import Tensor

from zeta_core.ops.attend.dense import squared_distances
from zeta_core.ops.blocks import BLOCK_BYTES, query_blocks
from zeta_core.ops.windows.reference import single_word
from zeta_core.ops.zorder import curve_orders, zorder_codes

PAIR_BYTES = 40
"""Memory a (point, point) pair takes while a block is compared: distance, packed distance, and topk's own."""


@torch.no_grad()
def nearest_points(space: Tensor, num_neighbours: int, *, block_bytes: int = BLOCK_BYTES) -> Tensor:
    """The true neighbours of each point: [seq_len, num_neighbours] int64, nearest first.

    space: [seq_len, dims] float32. block_bytes: about what the points compared at a time with all others may take;
    the result does not depend on it."""
    seq_len = len(space)
    place = torch.arange(seq_len, device=space.device)
    found = torch.empty(seq_len, num_neighbours, dtype=torch.int64, device=space.device)
    for first, last in query_blocks(0, seq_len, seq_len * PAIR_BYTES, block_bytes):
        far = squared_distances(space[first:last], space)
        far[place[: last - first], place[first:last]] = torch.inf
        # The bits of a distance order like the distance: with the position behind them no two points are tied.
        ordered = (far.view(torch.int32).long() << 32) | place
        found[first:last] = ordered.topk(num_neighbours, largest=False).values & 0xFFFFFFFF
    return found


@torch.no_grad()
def curve_neighbours(coords: Tensor, num_neighbours: int, *, curves: int, num_bits: int) -> Tensor:
    """The neighbours on the curves: [seq_len, num_neighbours] int64; a point found by several curves is there often.

    coords: [seq_len, d_K] in [0, 1]. Raises: OptionError if d_K has no such curves."""
    return torch.cat(
        [
            _on_one_curve(coords[:, list(order)], share, num_bits)
            for order, share in zip(
                curve_orders(curves, coords.shape[1]), shares(num_neighbours, curves), strict=True
            )
        ],
        dim=1,
    )


def shares(num_neighbours: int, curves: int) -> list[int]:
    """How many neighbours each curve gives, as evenly as it goes; the first ones give the odd ones."""
    return [num_neighbours // curves + (curve < num_neighbours % curves) for curve in range(curves)]


def _on_one_curve(coords: Tensor, share: int, num_bits: int) -> Tensor:
    seq_len, width = len(coords), share + 1
    codes = zorder_codes(coords[None, None], num_bits=num_bits, impl="reference").flatten(0, 1)
    order = single_word(codes, codes)[0][0].argsort(stable=True)
    place = torch.arange(seq_len, device=coords.device)
    start = (place - width // 2).clamp(0, seq_len - width)
    slots = start[:, None] + torch.arange(width, device=coords.device)
    others = slots[slots != place[:, None]].view(seq_len, share)  # without the point itself, which is in its window
    found = torch.empty_like(others)
    found[order] = order[others]
    return found


def among(wanted: Tensor, found: Tensor) -> Tensor:
    """Which of `wanted` [..., n] are in `found` [..., m]: bool [..., n]. Negative positions are empty slots."""
    ordered = found.sort(-1).values
    place = torch.searchsorted(ordered, wanted.contiguous()).clamp_(max=found.shape[-1] - 1)
    return (ordered.gather(-1, place) == wanted) & (wanted >= 0)

"""A plan made by kernels: one int32 buffer whose parts are known from shapes alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
import triton
from torch import Tensor

from ..kernel_launch import Launch, Part, Program, places
from ..layout import ALL, KEY_TILE, LEVELS, Fields, Layout, fields_of, layout_of, next_power
from ..zorder.kernel import grid_cells
from .kernel import MOST_COUNTED, count_kernel, emit_kernel, scan_kernel
from .kernel_levels import levels_kernel, zeros_before
from .kernel_order import TILE, Points, is_short, joint_order, order_of_words, sorting
from .kernel_refine import bounds_kernel, indices_kernel, refine_kernel

TABLE = 2048
"""Elements of a tile's table of counts: [queries and keys, width]."""
QUERIES = 16
"""Sorted queries that one program takes where it walks lists."""


@dataclass(frozen=True)
class KernelPlan:
    """Sorted orders, lists of keys and each query's window in its list; see `layout.Fields`."""

    buffer: Tensor
    """[curves, fields.size] int32"""
    cells: Tensor
    """[2, rows, seq_len, d] int16 grid cells of queries and keys if refine > 1, else empty."""
    batch: int
    heads: int
    seq_len: int
    chunk: int | None
    top_k: int
    curves: int
    refine: int
    gradients: bool

    @property
    def layout(self) -> Layout:
        return layout_of(self.batch * self.heads, self.seq_len, self.chunk)

    @property
    def fields(self) -> Fields:
        return fields_of(self.layout, self.curves, self.refine, self.gradients)

    def indices(self) -> Tensor:
        """[batch, heads, seq_len, top_k] int64 key positions; -1 marks an empty slot or a repeat."""
        layout, fields = self.layout, self.fields
        out = torch.full(
            (self.batch, self.heads, self.seq_len, self.top_k), -1, dtype=torch.int64, device=self.buffer.device
        )
        tiles = layout.query_tiles(QUERIES)
        if out.numel() == 0 or tiles == 0:
            return out
        share = self.top_k // self.curves
        for curve in range(self.curves):
            indices_kernel[(layout.rows * tiles,)](
                self.buffer, *cell_sides(self.cells, self.buffer), out, self.seq_len, layout.chunk,
                share * self.refine, share, self.top_k, tiles, layout.list_ids, fields.size, fields.order,
                fields.start, fields.stop, fields.visible, fields.place, fields.first, fields.last, fields.bound,
                fields.tie, CELL_DIMS=self.cells.shape[-1], MODE=layout.mode, NUM_LISTS=layout.num_lists,
                WIDTH=layout.width, CURVE=curve, REFINE=self.refine > 1, BLOCK=QUERIES, BLOCK_N=64,
            )  # fmt: skip
        return out


def cell_sides(cells: Tensor, stand_in: Tensor) -> tuple[Tensor, Tensor]:
    """The cells of queries and of keys; any tensor stands in for those that are not read."""
    return (cells[0], cells[1]) if cells.numel() else (stand_in, stand_in)


def plan_coords(
    code_q: Tensor,
    code_k: Tensor,
    key_padding_mask: Tensor | None,
    orders: tuple[tuple[int, ...], ...],
    *,
    chunk: int | None,
    top_k: int,
    refine: int,
    gradients: bool,
) -> tuple[Tensor, Tensor | None]:
    """The buffer of a plan from coordinates, and its cells if it has any; none of the sizes is 0."""
    batch, heads, seq_len, dims = code_q.shape
    device = code_q.device
    cells = grid_cells(code_q, code_k) if refine > 1 else None
    cell_dims = 1 if cells is None else dims
    padded = None if key_padding_mask is None else key_padding_mask.contiguous()
    short = is_short(seq_len, dims)
    strides = (code_q.stride(), code_k.stride())
    if short and (strides[0][-1] != 1 or strides[1][-1] != 1):
        code_q, code_k = code_q.contiguous(), code_k.contiguous()
        strides = (code_q.stride(), code_k.stride())
    buffer: Tensor | None = None
    for curve, order in enumerate(orders):
        # Sorting comes before the buffer exists: its temporaries are larger than the plan.
        outer, inner, flat = (None, None, False) if short else joint_order(code_q, code_k, order)
        points = Points(dims, order, strides, (code_q.dtype, code_k.dtype)) if short else None
        writer = writer_of(
            batch * heads, heads, seq_len, chunk, curve, len(orders), top_k, refine, gradients, points,
            inner is not None, flat, padded is not None, cell_dims, device,
        )  # fmt: skip
        if buffer is None:
            buffer = torch.empty((len(orders), writer.fields.size), dtype=torch.int32, device=device)
        if outer is None:
            writer.write(buffer, code_q, code_k, padded, cells)
        else:
            writer.write(buffer, outer, outer if inner is None else inner, padded, cells)
    assert buffer is not None
    return buffer, cells


def plan_words(
    q_codes: Tensor,
    k_codes: Tensor,
    key_padding_mask: Tensor | None,
    cells: Tensor | None,
    *,
    chunk: int | None,
    top_k: int,
    refine: int,
) -> KernelPlan:
    """A plan from ready codes [curves, batch, heads, seq_len, words]; cells [2, rows, seq_len, d] int16."""
    curves, batch, heads, seq_len, num_words = q_codes.shape
    rows, device = batch * heads, q_codes.device
    kept = empty_cells(device) if cells is None else cells
    padded = None if key_padding_mask is None else key_padding_mask.contiguous()
    fields = fields_of(layout_of(rows, seq_len, chunk), curves, refine, True)
    buffer = torch.empty((curves, fields.size), dtype=torch.int32, device=device)
    for curve in range(curves):
        both = torch.cat((q_codes[curve], k_codes[curve]), dim=2)
        words = both.reshape(rows, 2 * seq_len, num_words).permute(2, 0, 1).contiguous()
        writer = writer_of(
            rows, heads, seq_len, chunk, curve, curves, top_k, refine, True, None, False, False, padded is not None,
            kept.shape[-1], device,
        )  # fmt: skip
        outer = order_of_words(words)
        writer.write(buffer, outer, outer, padded, cells)
    return KernelPlan(buffer, kept, batch, heads, seq_len, chunk, top_k, curves, refine, True)


def empty_cells(device: torch.device) -> Tensor:
    return torch.empty((2, 0, 0, 1), dtype=torch.int16, device=device)


BUFFER, JOINT, OUTER, INNER, MASK, CELLS, MATRIX = range(7)
"""Places of the tensors that Writer's programs take. OUTER and INNER are as joint_order gives them, or the
coordinates of queries and keys."""


class Writer:
    """Fills one curve's part of a plan from the joint order of its queries and keys: the launches of one shape."""

    def __init__(
        self, layout: Layout, fields: Fields, heads: int, curve: int, share: int, refine: int, points: Points | None,
        has_inner: bool, flat: bool, padded: bool, cell_dims: int,
    ) -> None:  # fmt: skip
        """points: of coordinates that are sorted here, else the order is given."""
        rows, seq_len, width, window = layout.rows, layout.seq_len, layout.width, share * refine
        self.layout, self.fields, self.curve = layout, fields, curve
        tile = max(32, min(MOST_COUNTED, TABLE // width))
        tiles = triton.cdiv(2 * seq_len, tile)
        size = max(16, min(TILE, next_power(2 * seq_len)))
        stretches = triton.cdiv(2 * seq_len, size) if points is not None else 0
        (_joint, counts_at, outer_at, sorted_at), self.temporary = places([
            rows * 2 * seq_len, rows * 2 * tiles * width, rows * 2 * seq_len if points is not None else 0,
            # 8 bytes each
            2 * rows * stretches * size if stretches > 1 else 0,
        ])  # fmt: skip
        outer, coded = OUTER if points is None else Part(JOINT, outer_at), Part(JOINT, sorted_at // 2, torch.int64)
        shape = {"MODE": layout.mode, "WIDTH": width}
        count = Launch(
            count_kernel, rows * tiles, seq_len, layout.chunk, heads, tiles, HAS_INNER=has_inner, FLAT=flat,
            PADDED=padded, TILE=tile, **shape,
        )  # fmt: skip
        scan = Launch(scan_kernel, rows * 2, tiles, WIDTH=width, BLOCK=max(32, TABLE // width))
        emit = Launch(
            emit_kernel, rows * tiles, seq_len, layout.chunk, layout.list_ids, tiles, layout.key_tiles, window,
            NUM_LISTS=layout.num_lists, KEEP_TILES=fields.tiles >= 0, KEEP_PLACE=fields.place >= 0, TILE=tile,
            KEY_TILE=KEY_TILE, **shape,
        )  # fmt: skip
        shape["NUM_LISTS"] = layout.num_lists
        parts = (fields.order, fields.start, fields.stop, fields.visible, fields.place)
        blocks = layout.query_tiles(128)
        self.bits = seq_len.bit_length()
        levels = Launch(
            levels_kernel, rows * blocks if layout.mode == LEVELS else 0, rows, seq_len, layout.chunk, window, blocks,
            SEVERAL=fields.first >= 0, NUM_LISTS=layout.num_lists, BITS=self.bits, BLOCK=128,
        )  # fmt: skip
        several = fields.first >= 0 and layout.mode != LEVELS
        bounds = Launch(
            bounds_kernel, rows * blocks if several else 0, seq_len, layout.chunk, window, blocks, layout.list_ids,
            *parts, fields.first, fields.last, **shape, BLOCK=128,
        )  # fmt: skip
        blocks = layout.query_tiles(QUERIES)
        cut = Launch(
            refine_kernel, rows * blocks if refine > 1 else 0, seq_len, layout.chunk, window, share, blocks,
            layout.list_ids, *parts, fields.bound, fields.tie, CELL_DIMS=cell_dims, **shape, BLOCK=QUERIES,
            BLOCK_N=min(256, max(32, next_power(window))), STEPS=(cell_dims * 4095**2).bit_length(),
        )  # fmt: skip
        base = curve * fields.size

        def part(at: int) -> Part:
            # Arrays that are not kept are not written: any address will do.
            return Part(BUFFER, base + max(at, 0))

        counts, order, start = Part(JOINT, counts_at), part(fields.order), part(fields.start)
        steps = [
            *(() if points is None else sorting(points, layout, heads, size, (OUTER, INNER, coded, outer))),
            (count, (outer, INNER if has_inner else outer, MASK, JOINT, counts)),
            (scan, (counts, part(fields.visible))),
            (
                emit,
                (
                    JOINT, counts, part(fields.visible), part(fields.lists), order, start, part(fields.tiles),
                    part(fields.place),
                ),
            ),
        ]  # fmt: skip
        rest = [
            (levels, (MATRIX, order, start, *(part(at) for at in (fields.stop, fields.first, fields.last)))),
            (bounds, (part(0),)),
            (cut, (part(0), CELLS, Part(CELLS, rows * seq_len * cell_dims if refine > 1 else 0))),
        ]
        by_levels = layout.mode == LEVELS
        self.first = Program(*steps) if by_levels else Program(*steps, *rest)
        self.rest = Program(*rest) if by_levels else None
        self.fills = by_levels or (padded and fields.place >= 0)

    def write(
        self, buffer: Tensor, outer: Tensor, inner: Tensor, padded: Tensor | None, cells: Tensor | None
    ) -> None:
        """buffer: [curves, fields.size] int32; outer and inner as for the programs."""
        layout, begin = self.layout, self.fields.place
        joint = torch.empty(self.temporary, dtype=torch.int32, device=buffer.device)
        place = buffer[self.curve, begin : begin + layout.rows * layout.seq_len] if self.fills else None
        if place is not None and padded is not None:
            # Padded keys have no place: above all others.
            place.fill_(layout.seq_len)
        given = (
            buffer, joint, outer, inner, buffer if padded is None else padded, buffer if cells is None else cells,
        )  # fmt: skip
        self.first(*given)
        if self.rest is not None:
            assert place is not None
            self.rest(*given, zeros_before(place.view(layout.rows, layout.seq_len), self.bits))


@lru_cache(maxsize=256)
def writer_of(
    rows: int, heads: int, seq_len: int, chunk: int | None, curve: int, curves: int, top_k: int, refine: int,
    gradients: bool, points: Points | None, has_inner: bool, flat: bool, padded: bool, cell_dims: int,
    device: torch.device,
) -> Writer:  # fmt: skip
    """The prepared launches for one shape on one device."""
    layout = layout_of(rows, seq_len, chunk)
    fields = fields_of(layout, curves, refine, gradients)
    return Writer(layout, fields, heads, curve, top_k // curves, refine, points, has_inner, flat, padded, cell_dims)


__all__ = ["ALL", "KernelPlan", "cell_sides", "plan_coords", "plan_words"]

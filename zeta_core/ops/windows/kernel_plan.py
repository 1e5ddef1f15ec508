"""A plan made by kernels: one int32 buffer whose parts are known from shapes alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from ..layout import ALL, KEY_TILE, LEVELS, Fields, Layout, fields_of, layout_of, next_power
from ..zorder.kernel import grid_cells
from .kernel import SCAN_BLOCK, count_kernel, emit_kernel, scan_kernel
from .kernel_levels import levels_kernel, zeros_before
from .kernel_order import joint_order, order_of_words
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
) -> tuple[Tensor, Tensor]:
    """The buffer and cells of a plan from coordinates; none of the sizes is 0."""
    layout = layout_of(code_q.shape[0] * code_q.shape[1], code_q.shape[2], chunk)
    fields = fields_of(layout, len(orders), refine, gradients)
    cells = grid_cells(code_q, code_k) if refine > 1 else empty_cells(code_q)
    buffer: Tensor | None = None
    for curve, order in enumerate(orders):
        # Sorting comes before the buffer exists: its temporaries are larger than the plan.
        outer, inner, flat = joint_order(code_q, code_k, order)
        if buffer is None:
            buffer = torch.empty(len(orders), fields.size, dtype=torch.int32, device=code_q.device)
        write_curve(
            buffer[curve], layout, fields, outer, inner, flat, key_padding_mask, cells, heads=code_q.shape[1],
            share=top_k // len(orders), refine=refine,
        )  # fmt: skip
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
    layout = layout_of(batch * heads, seq_len, chunk)
    fields = fields_of(layout, curves, refine, True)
    kept = empty_cells(q_codes) if cells is None else cells
    buffer = torch.zeros(curves, fields.size, dtype=torch.int32, device=q_codes.device)
    for curve in range(curves if buffer.numel() else 0):
        both = torch.cat((q_codes[curve], k_codes[curve]), dim=2)
        words = both.reshape(batch * heads, 2 * seq_len, num_words).permute(2, 0, 1).contiguous()
        write_curve(
            buffer[curve], layout, fields, order_of_words(words), None, False, key_padding_mask, kept, heads=heads,
            share=top_k // curves, refine=refine,
        )  # fmt: skip
    return KernelPlan(buffer, kept, batch, heads, seq_len, chunk, top_k, curves, refine, True)


def empty_cells(like: Tensor) -> Tensor:
    return torch.empty(2, 0, 0, 1, dtype=torch.int16, device=like.device)


def write_curve(
    buffer: Tensor,
    layout: Layout,
    fields: Fields,
    outer: Tensor,
    inner: Tensor | None,
    flat: bool,
    key_padding_mask: Tensor | None,
    cells: Tensor,
    *,
    heads: int,
    share: int,
    refine: int,
) -> None:
    """Fill one curve's part of a plan from the joint order of its queries and keys."""
    rows, seq_len, width, window = layout.rows, layout.seq_len, layout.width, share * refine
    tile = max(16, min(256, TABLE // width))
    tiles = triton.cdiv(2 * seq_len, tile)
    joint = torch.empty(rows, 2 * seq_len, dtype=torch.int32, device=buffer.device)
    counts = torch.empty(rows, 2, tiles, width, dtype=torch.int32, device=buffer.device)
    padded = key_padding_mask is not None
    count_kernel[(rows * tiles,)](
        outer, outer if inner is None else inner, key_padding_mask.contiguous() if padded else outer, joint, counts,
        seq_len, layout.chunk, heads, tiles, HAS_INNER=inner is not None, FLAT=flat, PADDED=padded,
        MODE=layout.mode, WIDTH=width, TILE=tile,
    )  # fmt: skip
    visible = buffer[fields.visible :]
    scan_kernel[(rows * 2,)](counts, visible, tiles, WIDTH=width, BLOCK=SCAN_BLOCK)
    keep_place, keep_tiles = fields.place >= 0, fields.tiles >= 0
    if keep_place and padded:
        # Padded keys have no place: above all others.
        buffer[fields.place : fields.place + rows * seq_len].fill_(seq_len)
    order, start = buffer[fields.order :], buffer[fields.start :]
    emit_kernel[(rows * tiles,)](
        joint, counts, visible, buffer[fields.lists :], order, start, buffer[max(fields.tiles, 0) :],
        buffer[max(fields.place, 0) :], seq_len, layout.chunk, layout.list_ids, tiles, layout.key_tiles, window,
        NUM_LISTS=layout.num_lists, KEEP_TILES=keep_tiles, KEEP_PLACE=keep_place, MODE=layout.mode, WIDTH=width,
        TILE=tile, KEY_TILE=KEY_TILE,
    )  # fmt: skip
    places = (fields.order, fields.start, fields.stop, fields.visible, fields.place)
    shape = {"MODE": layout.mode, "NUM_LISTS": layout.num_lists, "WIDTH": width}
    if layout.mode == LEVELS:
        bits = seq_len.bit_length()
        matrix = zeros_before(buffer[fields.place : fields.place + rows * seq_len].view(rows, seq_len), bits)
        blocks = layout.query_tiles(128)
        levels_kernel[(rows * blocks,)](
            matrix, order, start, buffer[fields.stop :], buffer[max(fields.first, 0) :],
            buffer[max(fields.last, 0) :], rows, seq_len, layout.chunk, window, blocks, SEVERAL=fields.first >= 0,
            NUM_LISTS=layout.num_lists, BITS=bits, BLOCK=128,
        )  # fmt: skip
    elif fields.first >= 0 and layout.query_tiles(128):
        blocks = layout.query_tiles(128)
        bounds_kernel[(rows * blocks,)](
            buffer, seq_len, layout.chunk, window, blocks, layout.list_ids, *places, fields.first, fields.last,
            **shape, BLOCK=128,
        )  # fmt: skip
    blocks = layout.query_tiles(QUERIES)
    if refine > 1 and blocks:
        refine_kernel[(rows * blocks,)](
            buffer, cells[0], cells[1], seq_len, layout.chunk, window, share, blocks, layout.list_ids, *places,
            fields.bound, fields.tie, CELL_DIMS=cells.shape[-1], **shape, BLOCK=QUERIES,
            BLOCK_N=min(256, max(32, next_power(window))),
        )  # fmt: skip


__all__ = ["ALL", "KernelPlan", "cell_sides", "plan_coords", "plan_words"]

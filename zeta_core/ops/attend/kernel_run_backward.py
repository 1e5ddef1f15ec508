"""What the backward pass launches, in order."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from ..kernel_launch import Launch, places
from ..layout import KEY_TILE, LEVELS, Layout
from .kernel_backward import backward_kernel
from .kernel_history_backward import history_backward_kernel, history_return_kernel
from .kernel_keys import combine_kernel, keys_kernel, parts_kernel, ranges_kernel
from .kernel_local import local_backward_kernel, local_keys_kernel
from .kernel_run import (
    DOT,
    LOCAL_BLOCK,
    Facts,
    Setting,
    Shape,
    along,
    compared,
    facts_of,
    shape_of,
    sums_size,
    window_places,
)
from .scores import SMALLEST_NORM
from .tiles import tiles_for, walks_for

RANGES = 16
"""Tiles of keys that one program finds the ranges of."""
PART = 512
"""Visits that one program of the pass over keys takes at least before a tile is cut."""


class Need(NamedTuple):
    """Which gradients are wanted."""

    q: bool
    k: bool
    v: bool
    gamma: bool


def most_parts(seq_len: int) -> int:
    """Parts that long tiles of a row can be cut into: twice min(32, ceil(seq_len / PART)). Each has its own sums."""
    return 2 * min(32, -(-seq_len // PART))


def monotone(start: Tensor, stop: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """Ends of windows [rows, seq_len] made monotone within each segment, so that ranges can be bisected.

    With LEVELS queries of several chunks share a segment and their windows' ends need not rise with the code:
    the smallest start from here on and the largest stop up to here bound them; masks do the rest."""
    slot = torch.arange(layout.seq_len, dtype=torch.int64, device=start.device)
    before = (torch.div(slot, layout.chunk, rounding_mode="floor") - 1).clamp_(min=0)
    segment = (slot >= layout.chunk).long()
    for bit in range(layout.num_lists):
        segment += (before >> bit) > 0
    apart = segment * (2 * layout.seq_len + 2)
    # Segment 0 sees nothing, and its ends were never written.
    some = (stop > start) & (segment > 0)
    low = torch.where(some, start, layout.seq_len + 1) + apart
    high = torch.where(some, stop, 0) + apart
    low = low.flip(1).cummin(1).values.flip(1) - apart
    return low.int(), (high.cummax(1).values - apart).int()


def through_directions(gradient: Tensor, points: Tensor) -> Tensor:
    """The gradient of points [batch, heads, seq_len, d] from that of `scores.directions` of them."""
    centred = 2 * points.float() - 1
    squared = centred.square().sum(-1, keepdim=True)
    short = squared < SMALLEST_NORM**2
    norm = torch.where(short, 1, squared).sqrt()
    unit = centred / norm
    return torch.where(short, 0, 2 * (gradient - unit * (unit * gradient).sum(-1, keepdim=True)) / norm)


class Backward:
    """The launches of a backward pass for one shape on one device, and the sizes of its temporaries."""

    def __init__(
        self, strides: tuple[tuple[int, ...], ...], shape: Shape, setting: Setting, facts: Facts, need: Need
    ) -> None:
        """strides: of q, k as compared, k as given, v, out, its gradient and the gradient of v."""
        q, k, raw_k, v, out, grad, dv = (stride[:3] for stride in strides)
        layout, fields = shape.layout, shape.fields
        rows, seq_len, key_tiles = layout.rows, layout.seq_len, layout.key_tiles
        size = tiles_for(facts.itemsize, shape.d_v)
        tiles = layout.query_tiles(size.backward.rows)
        blocks = triton.cdiv(seq_len, LOCAL_BLOCK) if setting.local else 0
        curves = setting.curves if tiles else 0
        self.programs = programs = shape.stretches + tiles * curves + blocks
        self.tiles, self.blocks, self.key_tiles = tiles, blocks, key_tiles
        pad_k = shape.pad_dot if shape.d_k > 4 else shape.pad_k
        cut = seq_len > PART
        most = most_parts(seq_len) if cut else 0
        self.floats_at, self.floats = places([
            rows * programs,
            rows * seq_len,
            *((rows * seq_len, rows * seq_len * shape.d_k, prod(sums_size(shape))) if setting.history else (0, 0, 0)),
            rows * most * KEY_TILE * (shape.pad_v + pad_k),
            8 * rows * seq_len if curves else 0,
        ])  # fmt: skip
        table = rows * key_tiles * layout.width
        self.integers_at, self.integers = places([table, table, rows * key_tiles, rows * (key_tiles + 1), rows])
        same = {"DIMS": shape.d_k, "D_V": shape.d_v, "PAD_V": shape.pad_v}
        order = {"CAUSAL": setting.causal, "PADDED": facts.padded}
        walks = walks_for(shape.pad_v, shape.pad_k, facts.itemsize)
        self.tokens = Launch(
            history_backward_kernel, rows * shape.stretches, shape.heads, seq_len, shape.stretches, shape.stretch,
            programs, *q, *raw_k, *v, *out, *grad, **same, SCORE=setting.score, GAMMA_STEP=facts.gamma_step, **order,
            HISTORY=setting.history, PAD_K=shape.pad_k, **walks.backward.options(),
        )  # fmt: skip
        self.back = Launch(
            history_return_kernel, rows * shape.stretches, shape.heads, seq_len, shape.stretches, shape.stretch,
            *grad, *dv, **same, **order, NEED_V=need.v, PAD_K=shape.pad_k, **walks.back.options(),
        )  # fmt: skip
        window = setting.share * setting.refine
        windows = {
            **same, "CELL_DIMS": facts.cell_dims, "SCORE": setting.score, "GAMMA_STEP": facts.gamma_step, "MODE":
            layout.mode, "WIDTH": layout.width, "REFINE": setting.refine > 1, "LOCAL": setting.local > 0, "PAD_K":
            pad_k,
        }  # fmt: skip
        steps = key_tiles.bit_length() + 1
        self.queries, self.keys, self.combine = [], [], []
        for curve in range(curves):
            tile = size.backward
            self.queries.append(Launch(
                backward_kernel, rows * tiles, shape.heads, seq_len, layout.chunk, window, setting.local, tiles,
                programs, *q, *k, *v, *grad, layout.list_ids, fields.size, *window_places(fields), **windows,
                CURVE=curve, NUM_LISTS=layout.num_lists, BLOCK=tile.rows, BLOCK_N=tile.width, STAGES=tile.stages,
                **tile.options(),
            ))  # fmt: skip
            tile = size.keys
            self.keys.append(Launch(
                keys_kernel, rows * (most + key_tiles), shape.heads, seq_len, layout.chunk, setting.local,
                key_tiles, most, *q, *k, *v, *grad, *dv, layout.list_ids, layout.full_list, fields.size, fields.order,
                fields.visible, fields.place, fields.first, fields.last, fields.bound, fields.tie, layout.num_lists,
                **windows, CURVE=curve, NEED_V=need.v, CUT=cut, KEY_TILE=KEY_TILE, BLOCK=tile.width, STEPS=steps,
                STAGES=tile.stages, **tile.options(),
            ))  # fmt: skip
            self.combine.append(Launch(
                combine_kernel, rows * most, shape.heads, seq_len, key_tiles, most, *dv, layout.list_ids,
                layout.full_list, fields.size, fields.visible, layout.num_lists, **same, PAD_K=pad_k,
                WIDTH=layout.width, CURVE=curve, NEED_V=need.v, KEY_TILE=KEY_TILE, STEPS=steps,
            ))  # fmt: skip
        self.ranges = Launch(
            ranges_kernel, rows * triton.cdiv(key_tiles, RANGES), seq_len, layout.chunk, window, key_tiles,
            layout.segments, layout.num_lists, MODE=layout.mode, WIDTH=layout.width, KEY_TILE=KEY_TILE, BLOCK=RANGES,
            STEPS=seq_len.bit_length() + 1, num_warps=2,
        )  # fmt: skip
        self.parts = Launch(parts_kernel, rows if cut else 0, key_tiles, most, LEAST=PART, BLOCK=1024)
        near = {
            **same,
            "PAD_K": shape.pad_dot,
            "SCORE": setting.score,
            "GAMMA_STEP": facts.gamma_step,
            **order,
            "BLOCK": LOCAL_BLOCK,
        }
        self.local = Launch(
            local_backward_kernel, rows * blocks, shape.heads, seq_len, setting.local, blocks, programs, *q, *k, *v,
            *grad, **near,
        )  # fmt: skip
        self.local_keys = Launch(
            local_keys_kernel, rows * blocks, shape.heads, seq_len, setting.local, blocks, *q, *k, *v, *grad, *dv,
            **near, NEED_V=need.v,
        )  # fmt: skip


@lru_cache(maxsize=256)
def backward_of(
    q_shape: torch.Size, d_v: int, strides: tuple[tuple[int, ...], ...], setting: Setting, facts: Facts, need: Need,
    device: int,
) -> Backward:  # fmt: skip
    """The prepared launches; device only tells them apart."""
    return Backward(strides, shape_of(q_shape, d_v, setting), setting, facts, need)


def backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gamma: Tensor,
    mask: Tensor | None,
    plan: Tensor,
    cells: Tensor,
    out: Tensor,
    stat: Tensor,
    sums: Tensor,
    setting: Setting,
    need: Need,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v and gamma, 0-d or [heads]; those that are not needed may hold anything."""
    shape = shape_of(q.shape, v.shape[-1], setting)
    layout, fields, device = shape.layout, shape.fields, v.device
    grad, out, raw_q, raw_k, v = along(grad), along(out), along(q), along(k), along(v)
    q, k = compared(raw_q, setting), compared(raw_k, setting)
    ignored = mask.contiguous() if mask is not None else k
    fresh = torch.empty if setting.causal is False or layout.num_chunks > 1 else torch.zeros
    fresh = torch.zeros if mask is not None else fresh
    dq = torch.empty(q.shape, dtype=torch.float32, device=device)
    dk = fresh(k.shape, dtype=torch.float32, device=device)
    wide = torch.float32 if setting.in_float32 else v.dtype
    dv = torch.empty_like(v, dtype=wide)
    dv = dv if dv.stride(-1) == 1 else torch.empty_like(v, dtype=wide, memory_format=torch.contiguous_format)
    if fresh is torch.zeros:
        dv.zero_()
    strides = tuple(t.stride() for t in (q, k, raw_k, v, out, grad, dv))
    facts = facts_of(q, k, v, gamma, mask, cells)
    run = backward_of(q.shape, v.shape[-1], strides, setting, facts, need, v.get_device())
    floats = torch.empty(run.floats, dtype=torch.float32, device=device)
    # record holds pairs of numbers of 4 bytes as one of 8.
    dgamma, delta, portion, pull, later, slots, record = ((floats, at) for at in run.floats_at)
    run.tokens(
        q, raw_k, v, gamma, ignored, sums, out, stat, grad, delta, dq, portion, pull, later, dgamma
    )  # fmt: skip
    side = (cells[0], cells[1]) if cells.numel() else (plan, plan)
    keys_wanted = need.k or need.v
    if run.queries:
        integers = torch.empty(run.integers, dtype=torch.int32, device=device)
        since, shift, visits, parts, size = ((integers, at) for at in run.integers_at)
    for curve, queries in enumerate(run.queries):
        partial = (floats, shape.stretches + run.tiles * curve)
        queries(q, k, v, gamma, grad, stat, delta, dq, partial, record, plan, *side)
        if not keys_wanted:
            continue
        base = curve * fields.size
        start = stop = (plan, base + fields.start)
        if layout.mode == LEVELS:
            start, stop = monotone(
                *(plan[curve, at : at + stat.numel()].view(stat.shape) for at in (fields.start, fields.stop)), layout
            )
        run.ranges(
            (plan, base + fields.tiles), (plan, base + fields.visible), start, stop, since, shift, visits
        )  # fmt: skip
        run.parts(visits, parts, size)
        run.keys[curve](q, k, v, gamma, grad, record, dk, dv, slots, since, shift, visits, parts, size, plan, *side)
        run.combine[curve](slots, parts, plan, dk, dv)
    if setting.local:
        run.local(q, k, v, gamma, ignored, grad, stat, delta, dq, (floats, run.programs - run.blocks))
        if keys_wanted:
            run.local_keys(q, k, v, gamma, ignored, grad, stat, delta, dk, dv)
    if setting.score == DOT:
        dq, dk = through_directions(dq, raw_q), through_directions(dk, raw_k)
    if setting.history and keys_wanted:
        run.back(grad, ignored, portion, pull, later, dk, dv)
    total = gamma
    if need.gamma:
        partial = floats[: layout.rows * run.programs]
        total = partial.view(-1, shape.heads, run.programs).sum((0, 2)) if gamma.dim() else partial.sum()
    return dq.to(raw_q.dtype), dk.to(raw_k.dtype), dv.to(v.dtype), total

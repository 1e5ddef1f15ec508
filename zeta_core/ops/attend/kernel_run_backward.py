"""What the backward pass launches, in order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from ..kernel_launch import Array, Launch, Part, Program, places
from ..layout import KEY_TILE, LEVELS, Layout
from .kernel_backward import backward_kernel, gamma_kernel
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
    is_along,
    key_cells,
    needs_result,
    result_strides,
    shape_of,
    sums_at,
    sums_size,
    taken_as_is,
    window_places,
)
from .scores import SMALLEST_NORM
from .tiles import tiles_for, walks_for

RANGES = 16
"""Tiles of keys that one program finds the ranges of."""
GAMMA_BLOCK = 4096
"""Partial sums of the gradient of gamma that are added up at once."""
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


Q, K, V, GAMMA, MASK, PLAN, CELLS, OUT, KEPT, RAW_K, GRAD, DQ, DK, DV, DGAMMA, WORK, START, STOP = range(18)
"""Places of the tensors that the programs take; Q and K are as compared, RAW_K as given; START and STOP are the ends
of windows if they had to be made monotone first, else any tensors."""


class Backward:
    """The launches of a backward pass for one shape on one device, and the size of its temporaries."""

    def __init__(
        self, strides: tuple[tuple[int, ...], ...], shape: Shape, setting: Setting, facts: Facts, need: Need
    ) -> None:
        """strides: of q, k as compared, k as given, v, out, its gradient and the gradient of v."""
        q, k, raw_k, v, out, grad, dv = (stride[:3] for stride in strides)
        self.layout, self.fields = layout, fields = shape.layout, shape.fields
        rows, seq_len, key_tiles = layout.rows, layout.seq_len, layout.key_tiles
        size = tiles_for(facts.itemsize, shape.d_v)
        tiles = layout.query_tiles(size.backward.rows)
        blocks = triton.cdiv(seq_len, LOCAL_BLOCK) if setting.local else 0
        curves = setting.curves if tiles else 0
        keys_wanted = need.k or need.v
        partials = shape.stretches + tiles * curves + blocks
        pad_k = shape.pad_dot if shape.d_k > 4 else shape.pad_k
        cut = seq_len > PART
        most = most_parts(seq_len) if cut else 0
        table = rows * key_tiles * layout.width
        at, self.work = places([
            rows * partials,
            rows * seq_len,
            *((rows * seq_len, rows * seq_len * shape.d_k, prod(sums_size(shape))) if setting.history else (0, 0, 0)),
            rows * most * KEY_TILE * (shape.pad_v + pad_k),
            # Pairs of numbers of 4 bytes as one of 8.
            8 * rows * seq_len if curves else 0,
            *((table, table, rows * key_tiles, rows * (key_tiles + 1), rows) if curves else ()),
        ])  # fmt: skip
        dgamma, delta, portion, pull, later, slots, record = (Part(WORK, begin) for begin in at[:7])
        integers = [Part(WORK, begin, torch.int32) for begin in at[7:]]
        sums = Part(KEPT, sums_at(shape))
        same = {"DIMS": shape.d_k, "D_V": shape.d_v, "PAD_V": shape.pad_v}
        order = {"CAUSAL": setting.causal, "PADDED": facts.padded}
        walks = walks_for(shape.pad_v, shape.pad_k, facts.itemsize)
        tokens = Launch(
            history_backward_kernel, rows * shape.stretches, shape.heads, seq_len, shape.stretches, shape.stretch,
            partials, *q, *raw_k, *v, *out, *grad, **same, SCORE=setting.score, GAMMA_STEP=facts.gamma_step, **order,
            HISTORY=setting.history, PAD_K=shape.pad_k, **walks.backward.options(),
        )  # fmt: skip
        steps: list[tuple[Launch, Sequence[Array]]] = [(tokens, (
            Q, RAW_K, V, GAMMA, MASK, sums, OUT, KEPT, GRAD, delta, DQ, portion, pull, later, dgamma,
        ))]  # fmt: skip
        window = setting.share * setting.refine
        windows = {
            **same, "CELL_DIMS": facts.cell_dims, "SCORE": setting.score, "GAMMA_STEP": facts.gamma_step, "MODE":
            layout.mode, "WIDTH": layout.width, "REFINE": setting.refine > 1, "LOCAL": setting.local > 0, "PAD_K":
            pad_k,
        }  # fmt: skip
        cells = (CELLS, key_cells(shape, facts, setting))
        depth = key_tiles.bit_length() + 1
        self.parts: list[Program] = []
        """To be run in a row; where there are several, the ends of a curve's windows are made monotone in between."""
        for curve in range(curves):
            base = curve * fields.size
            if layout.mode == LEVELS:
                self.parts.append(Program(*steps))
                steps, ends = [], (START, STOP)
            else:
                ends = (Part(PLAN, base + fields.start),) * 2
            tile = size.backward
            queries = Launch(
                backward_kernel, rows * tiles, shape.heads, seq_len, layout.chunk, window, setting.local, tiles,
                partials, *q, *k, *v, *grad, layout.list_ids, fields.size, *window_places(fields), **windows,
                CURVE=curve, NUM_LISTS=layout.num_lists, BLOCK=tile.rows, BLOCK_N=tile.width, STAGES=tile.stages,
                **tile.options(),
            )  # fmt: skip
            mine = Part(WORK, shape.stretches + tiles * curve)
            steps.append((queries, (Q, K, V, GAMMA, GRAD, KEPT, delta, DQ, mine, record, PLAN, *cells)))
            if not keys_wanted:
                continue
            since, shift, visits, parts, part_size = integers
            ranges = Launch(
                ranges_kernel, rows * triton.cdiv(key_tiles, RANGES), seq_len, layout.chunk, window, key_tiles,
                layout.segments, layout.num_lists, MODE=layout.mode, WIDTH=layout.width, KEY_TILE=KEY_TILE,
                BLOCK=RANGES, STEPS=seq_len.bit_length() + 1, num_warps=2,
            )  # fmt: skip
            cutting = Launch(parts_kernel, rows if cut else 0, key_tiles, most, LEAST=PART, BLOCK=1024)
            tile = size.keys
            keys = Launch(
                keys_kernel, rows * (most + key_tiles), shape.heads, seq_len, layout.chunk, setting.local,
                key_tiles, most, *q, *k, *v, *grad, *dv, layout.list_ids, layout.full_list, fields.size, fields.order,
                fields.visible, fields.place, fields.first, fields.last, fields.bound, fields.tie, layout.num_lists,
                **windows, CURVE=curve, NEED_V=need.v, CUT=cut, KEY_TILE=KEY_TILE, BLOCK=tile.width, STEPS=depth,
                STAGES=tile.stages, **tile.options(),
            )  # fmt: skip
            combine = Launch(
                combine_kernel, rows * most, shape.heads, seq_len, key_tiles, most, *dv, layout.list_ids,
                layout.full_list, fields.size, fields.visible, layout.num_lists, **same, PAD_K=pad_k,
                WIDTH=layout.width, CURVE=curve, NEED_V=need.v, KEY_TILE=KEY_TILE, STEPS=depth,
            )  # fmt: skip
            of_plan = (Part(PLAN, base + fields.tiles), Part(PLAN, base + fields.visible))
            steps += [
                (ranges, (*of_plan, *ends, since, shift, visits)),
                (cutting, (visits, parts, part_size)),
                (keys, (
                    Q, K, V, GAMMA, GRAD, record, DK, DV, slots, since, shift, visits, parts, part_size, PLAN, *cells,
                )),
                (combine, (slots, parts, PLAN, DK, DV)),
            ]  # fmt: skip
        near = {
            **same,
            "PAD_K": shape.pad_dot,
            "SCORE": setting.score,
            "GAMMA_STEP": facts.gamma_step,
            **order,
            "BLOCK": LOCAL_BLOCK,
        }
        local = Launch(
            local_backward_kernel, rows * blocks, shape.heads, seq_len, setting.local, blocks, partials, *q, *k, *v,
            *grad, **near,
        )  # fmt: skip
        local_keys = Launch(
            local_keys_kernel, rows * blocks if keys_wanted else 0, shape.heads, seq_len, setting.local, blocks, *q,
            *k, *v, *grad, *dv, **near, NEED_V=need.v,
        )  # fmt: skip
        back = Launch(
            history_return_kernel, rows * shape.stretches if setting.history and keys_wanted else 0, shape.heads,
            seq_len, shape.stretches, shape.stretch, *grad, *dv, **same, **order, NEED_V=need.v, PAD_K=shape.pad_k,
            **walks.back.options(),
        )  # fmt: skip
        apart = shape.heads if facts.of_heads else 1
        total = Launch(
            gamma_kernel, apart if need.gamma else 0, rows, apart, partials, BLOCK=GAMMA_BLOCK, num_warps=8
        )
        steps += [
            (local, (Q, K, V, GAMMA, MASK, GRAD, KEPT, delta, DQ, Part(WORK, partials - blocks))),
            (local_keys, (Q, K, V, GAMMA, MASK, GRAD, KEPT, delta, DK, DV)),
        ]
        last = [(back, (GRAD, MASK, portion, pull, later, DK, DV)), (total, (dgamma, DGAMMA))]
        self.parts.append(Program(*steps, *(() if setting.score == DOT else last)))
        self.last = Program(*last) if setting.score == DOT else None
        self.zeros = facts.padded or (setting.causal and layout.num_chunks == 1)
        """Whether some keys get no gradient from kernels, since no query can see them."""

    def ends(self, plan: Tensor, curve: int) -> tuple[Tensor, Tensor]:
        """Where the windows of one curve start and stop: [rows, seq_len] each."""
        size = (self.layout.rows, self.layout.seq_len)
        start, stop = (plan[curve, at : at + size[0] * size[1]] for at in (self.fields.start, self.fields.stop))
        return start.view(size), stop.view(size)


@lru_cache(maxsize=256)
def backward_of(
    q_shape: torch.Size, v_shape: torch.Size, setting: Setting, facts: Facts, need: Need, ends: tuple[Any, ...],
    device: int, strides: tuple[tuple[int, ...], ...] | None = None,
) -> Backward | None:  # fmt: skip
    """The prepared launches; device only tells them apart.

    ends: strides of out and of its gradient. strides: as Backward takes them, of tensors that were changed first.
    Without: None if they have to be."""
    if strides is None:
        q, k, v = facts.strides
        plain = taken_as_is(q_shape, v_shape, facts) and all(is_along(v_shape, end) for end in ends)
        if setting.score == DOT or not plain or needs_result(v_shape, v, setting, facts):
            return None
        strides = (q, k, k, v, *ends, result_strides(v_shape, v))
    return Backward(strides, shape_of(q_shape, v_shape[-1], setting), setting, facts, need)


def backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gamma: Tensor,
    mask: Tensor | None,
    plan: Tensor,
    cells: Tensor | None,
    out: Tensor,
    kept: Tensor,
    setting: Setting,
    need: Need,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v and gamma, 0-d or [heads]; those that are not needed may hold anything."""
    device = v.device
    facts, raw_q, raw_k, wide = facts_of(q, k, v, gamma, mask, cells), q, k, v.dtype
    ends = (out.stride(), grad.stride())
    run = backward_of(q.shape, v.shape, setting, facts, need, ends, v.get_device())
    if run is not None:
        dv = torch.empty_like(v)
    else:
        grad, out, raw_q, raw_k, v = along(grad), along(out), along(q), along(k), along(v)
        q, k = compared(raw_q, setting), compared(raw_k, setting)
        wide = torch.float32 if setting.in_float32 else v.dtype
        dv = torch.empty_like(v, dtype=wide)
        dv = dv if dv.stride(-1) == 1 else torch.empty_like(v, dtype=wide, memory_format=torch.contiguous_format)
        strides = tuple(t.stride() for t in (q, k, raw_k, v, out, grad, dv))
        run = backward_of(q.shape, v.shape, setting, facts, need, ends, v.get_device(), strides)
    dq = torch.empty(q.shape, dtype=torch.float32, device=device)
    dk = torch.empty(q.shape, dtype=torch.float32, device=device)
    if run.zeros:
        dk.zero_(), dv.zero_()
    work = torch.empty(run.work, dtype=torch.float32, device=device)
    total = torch.empty_like(gamma, memory_format=torch.contiguous_format)
    ignored = k if mask is None else mask.contiguous()
    sides = plan if cells is None or not cells.numel() else cells
    given = [q, k, v, gamma, ignored, plan, sides, out, kept, raw_k, grad, dq, dk, dv, total, work]
    for curve, part in enumerate(run.parts, -1):
        if curve < 0:
            part(*given, work, work)
        else:
            part(*given, *monotone(*run.ends(plan, curve), run.layout))
    if setting.score == DOT:
        given[DQ], given[DK] = through_directions(dq, raw_q), through_directions(dk, raw_k)
        run.last(*given)
        dq, dk = given[DQ], given[DK]
    return like(dq, raw_q), like(dk, raw_k), like(dv, v), total


def like(gradient: Tensor, of: Tensor) -> Tensor:
    """In the dtype of what it is a gradient of."""
    return gradient if gradient.dtype is of.dtype else gradient.to(of.dtype)

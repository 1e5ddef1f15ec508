"""What the backward pass launches, in order."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from ..layout import KEY_TILE, LEVELS, Layout
from .kernel_backward import backward_kernel
from .kernel_history import history_backward_kernel, history_return_kernel
from .kernel_keys import combine_kernel, keys_kernel, parts_kernel, ranges_kernel
from .kernel_local import local_backward_kernel, local_keys_kernel
from .kernel_run import DOT, LOCAL_BLOCK, Setting, along, compared, history_sums, shape_of, window_places
from .scores import SMALLEST_NORM
from .tiles import tiles_for


class Need(NamedTuple):
    """Which gradients are wanted."""

    q: bool
    k: bool
    v: bool
    gamma: bool


def most_parts(seq_len: int) -> int:
    """Parts that long tiles of a row can be cut into: twice min(64, ceil(seq_len / 512))."""
    return 2 * min(64, -(-seq_len // 512))


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
    setting: Setting,
    need: Need,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v and gamma [heads]; those that are not needed may hold anything."""
    shape = shape_of(q, v, setting)
    layout, fields = shape.layout, shape.fields
    rows, seq_len, device = layout.rows, layout.seq_len, v.device
    grad, out, raw_q, raw_k, v = along(grad), along(out), along(q), along(k), along(v)
    gamma = gamma.contiguous()
    q, k = compared(raw_q, setting), compared(raw_k, setting)
    padded = mask is not None
    ignored = mask.contiguous() if mask is not None else k
    size = tiles_for(v.element_size(), shape.d_v)
    tiles = layout.query_tiles(size.backward.rows)
    blocks = triton.cdiv(seq_len, LOCAL_BLOCK) if setting.local else 0
    programs = shape.stretches + tiles * setting.curves + blocks
    dgamma = torch.empty(rows, programs, dtype=torch.float32, device=device)
    delta = torch.empty(rows, seq_len, dtype=torch.float32, device=device)
    dq = torch.empty(q.shape, dtype=torch.float32, device=device)
    in_order = {"DIMS": shape.d_k, "D_V": shape.d_v, "PAD_V": shape.pad_v}
    of_keys = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
    if setting.history:
        sums = history_sums(raw_k, v, mask, shape)
        portion = torch.empty_like(delta)
        pull = torch.empty_like(dq)
        later = torch.empty_like(sums)
    else:
        sums = portion = pull = later = delta
    history_backward_kernel[(rows * shape.stretches,)](
        q, raw_k, v, gamma, ignored, sums, out, stat, grad, delta, dq, portion, pull, later, dgamma, shape.heads,
        seq_len, shape.stretches, shape.stretch, programs, *q.stride()[:3], *raw_k.stride()[:3], *v.stride()[:3],
        *out.stride()[:3], *grad.stride()[:3], **in_order, PAD_K=shape.pad_k, SCORE=setting.score,
        CAUSAL=setting.causal, PADDED=padded, HISTORY=setting.history, BLOCK=shape.block,
    )  # fmt: skip

    keys_wanted = need.k or need.v
    fresh = torch.empty if tiles and not padded else torch.zeros
    dk = fresh(k.shape, dtype=torch.float32, device=device)
    wide = torch.float32 if setting.in_float32 else v.dtype
    dv = torch.empty_like(v, dtype=wide)
    dv = dv if dv.stride(-1) == 1 else torch.empty_like(v, dtype=wide, memory_format=torch.contiguous_format)
    if fresh is torch.zeros:
        dv.zero_()
    side = (cells[0], cells[1]) if cells.numel() else (plan, plan)
    windows = {
        **in_order, "CELL_DIMS": cells.shape[-1], "SCORE": setting.score, "MODE": layout.mode, "WIDTH": layout.width,
        "REFINE": setting.refine > 1, "LOCAL": setting.local > 0,
        "PAD_K": shape.pad_dot if shape.d_k > 4 else shape.pad_k,
    }  # fmt: skip
    window = setting.share * setting.refine
    for curve in range(setting.curves if tiles else 0):
        held = torch.empty(2 + min(shape.d_k, 4), rows, seq_len, dtype=torch.float32, device=device)
        ends = torch.empty(2, rows, seq_len, dtype=torch.int32, device=device)
        tile = size.backward
        backward_kernel[(rows * tiles,)](
            q, k, v, gamma, grad, stat, delta, dq, dgamma[:, shape.stretches + tiles * curve :], held, ends, plan,
            *side, shape.heads, rows, seq_len, layout.chunk, window, setting.local, tiles, programs, *of_keys,
            *grad.stride()[:3], layout.list_ids, fields.size, *window_places(fields), **windows, CURVE=curve,
            NUM_LISTS=layout.num_lists, BLOCK=tile.rows, BLOCK_N=tile.width, STAGES=tile.stages, num_warps=tile.warps,
        )  # fmt: skip
        if not keys_wanted:
            continue
        part = plan[curve]
        start, stop = part[fields.start :], part[fields.start :]
        if layout.mode == LEVELS:
            start, stop = monotone(
                *(part[at : at + rows * seq_len].view(rows, seq_len) for at in (fields.start, fields.stop)), layout
            )
        key_tiles, most = layout.key_tiles, most_parts(seq_len)
        table = torch.empty(2, rows, key_tiles, layout.width, dtype=torch.int32, device=device)
        visits = torch.empty(rows, 2 * key_tiles + 2, dtype=torch.int32, device=device)
        counts, parts, part_size = visits.view(-1).split(
            (rows * key_tiles, rows * (key_tiles + 1), rows), dim=0
        )  # fmt: skip
        ranges_kernel[(rows * triton.cdiv(key_tiles, 64),)](
            part[fields.tiles :], part[fields.visible :], start, stop, table[0], table[1], counts, seq_len,
            layout.chunk, window, key_tiles, layout.segments, layout.num_lists, MODE=layout.mode, WIDTH=layout.width,
            KEY_TILE=KEY_TILE, BLOCK=64, STEPS=seq_len.bit_length() + 1, num_warps=2,
        )  # fmt: skip
        parts_kernel[(rows,)](counts, parts, part_size, key_tiles, most, BLOCK=1024)
        slots = torch.empty(
            rows * most * KEY_TILE * (shape.pad_v + windows["PAD_K"]), dtype=torch.float32, device=device
        )
        steps = key_tiles.bit_length() + 1
        tile = size.keys
        keys_kernel[(rows * (most + key_tiles),)](
            q, k, v, gamma, grad, held, ends, dk, dv, slots, table[0], table[1], counts, parts, part_size, plan,
            *side, shape.heads, rows, seq_len, layout.chunk, setting.local, key_tiles, most, *of_keys,
            *grad.stride()[:3], *dv.stride()[:3], layout.list_ids, layout.full_list, fields.size, fields.order,
            fields.visible, fields.place, fields.first, fields.last, fields.bound, fields.tie, layout.num_lists,
            **windows, CURVE=curve, NEED_V=need.v, KEY_TILE=KEY_TILE, BLOCK=tile.width, STEPS=steps,
            STAGES=tile.stages, num_warps=tile.warps,
        )  # fmt: skip
        combine_kernel[(rows * most,)](
            slots, parts, plan, dk, dv, shape.heads, seq_len, key_tiles, most, *dv.stride()[:3], layout.list_ids,
            layout.full_list, fields.size, fields.visible, layout.num_lists, DIMS=shape.d_k, PAD_K=windows["PAD_K"],
            D_V=shape.d_v, PAD_V=shape.pad_v, WIDTH=layout.width, CURVE=curve, NEED_V=need.v, KEY_TILE=KEY_TILE,
            STEPS=steps,
        )  # fmt: skip
    if setting.local:
        local = {**in_order, "PAD_K": shape.pad_dot, "SCORE": setting.score, "CAUSAL": setting.causal}
        local_backward_kernel[(rows * blocks,)](
            q, k, v, gamma, ignored, grad, stat, delta, dq, dgamma[:, programs - blocks :], shape.heads, seq_len,
            setting.local, blocks, programs, *of_keys, *grad.stride()[:3], **local, PADDED=padded, BLOCK=LOCAL_BLOCK,
        )  # fmt: skip
        if keys_wanted:
            local_keys_kernel[(rows * blocks,)](
                q, k, v, gamma, ignored, grad, stat, delta, dk, dv, shape.heads, seq_len, setting.local, blocks,
                *of_keys, *grad.stride()[:3], *dv.stride()[:3], **local, PADDED=padded, NEED_V=need.v,
                BLOCK=LOCAL_BLOCK,
            )  # fmt: skip
    if setting.score == DOT:
        dq, dk = through_directions(dq, raw_q), through_directions(dk, raw_k)
    if setting.history and keys_wanted:
        history_return_kernel[(rows * shape.stretches,)](
            grad, ignored, portion, pull, later, dk, dv, shape.heads, seq_len, shape.stretches, shape.stretch,
            *grad.stride()[:3], *dv.stride()[:3], **in_order, PAD_K=shape.pad_k, CAUSAL=setting.causal,
            PADDED=padded, NEED_V=need.v, BLOCK=shape.block,
        )  # fmt: skip
    total = dgamma.view(-1, shape.heads, programs).sum((0, 2)) if need.gamma else gamma
    return dq.to(raw_q.dtype), dk.to(raw_k.dtype), dv.to(v.dtype), total

"""What the forward pass launches, in order."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from ..kernel_launch import Launch
from ..layout import Fields, Layout, fields_of, layout_of, next_power
from .kernel_forward import forward_kernel
from .kernel_history import history_kernel, sums_kernel
from .kernel_local import local_kernel
from .scores import SCORES, directions
from .tiles import stretch_of, tiles_for, walks_for

DOT = SCORES.index("normalized_dot")
LOCAL_BLOCK = 32
BLOCK = 64
"""Tokens that the sums of the history mean are taken of at once; stretches are multiples of it."""


class Setting(NamedTuple):
    """Everything about a call but its tensors."""

    score: int
    """Place in SCORES"""
    chunk: int
    """0: every key is visible"""
    top_k: int
    curves: int
    refine: int
    gradients: bool
    """The plan holds what a backward pass needs."""
    history: bool
    local: int

    @property
    def causal(self) -> bool:
        return self.chunk > 0

    @property
    def share(self) -> int:
        """Keys that one curve gives."""
        return self.top_k // self.curves

    @property
    def in_float32(self) -> bool:
        """More than two parts are summed: half precision would round each."""
        return self.curves > 1 or self.local > 0


class Shape(NamedTuple):
    """Sizes of a call."""

    layout: Layout
    fields: Fields
    heads: int
    d_k: int
    d_v: int
    pad_k: int
    pad_v: int
    pad_dot: int
    """d_K as a `dot` needs it"""
    stretch: int
    stretches: int


class Facts(NamedTuple):
    """What else decides which kernels run."""

    kinds: tuple[torch.dtype, ...]
    """dtypes of q, k and v"""
    padded: bool
    cell_dims: int
    gamma_step: int
    """0: one gamma for all heads"""

    @property
    def itemsize(self) -> int:
        """Bytes of a value's element."""
        return self.kinds[2].itemsize


def facts_of(q: Tensor, k: Tensor, v: Tensor, gamma: Tensor, mask: Tensor | None, cells: Tensor) -> Facts:
    step = gamma.stride(0) if gamma.dim() else 0
    return Facts((q.dtype, k.dtype, v.dtype), mask is not None, cells.shape[-1], step)


@lru_cache(maxsize=256)
def shape_of(q_shape: torch.Size, d_v: int, setting: Setting) -> Shape:
    batch, heads, seq_len, d_k = q_shape
    layout = layout_of(batch * heads, seq_len, setting.chunk or None)
    fields = fields_of(layout, setting.curves, setting.refine, setting.gradients)
    # At least 4 columns, as at least 32 rows: a scan over fewer than the threads of 4 warps does not compile.
    pad_k, pad_v = max(4, next_power(d_k)), max(16, next_power(d_v))
    stretch = stretch_of(layout.rows, seq_len, BLOCK)
    return Shape(layout, fields, heads, d_k, d_v, pad_k, pad_v, max(16, pad_k), stretch, -(-seq_len // stretch))


def along(tensor: Tensor) -> Tensor:
    """The tensor with its last dimension contiguous; other strides are as they come.

    Offsets inside a row are 32 bits wide."""
    narrow = tensor.stride(-1) == 1 and tensor.stride(2) * tensor.shape[2] < 2**31
    return tensor if narrow else tensor.contiguous()


def compared(points: Tensor, setting: Setting) -> Tensor:
    """What the score compares, as scores.directions."""
    return along(directions(points.float(), SCORES[setting.score])) if setting.score == DOT else along(points)  # type: ignore[arg-type]


def window_places(fields: Fields) -> tuple[int, ...]:
    return (
        fields.order, fields.start, fields.stop, fields.visible, fields.place, fields.first, fields.last,
        fields.bound, fields.tie,
    )  # fmt: skip


def sums_size(shape: Shape) -> tuple[int, int, int]:
    return shape.layout.rows, shape.stretches, shape.pad_v + shape.pad_k + 1


class Forward:
    """The launches of a forward pass for one shape on one device."""

    def __init__(self, strides: tuple[tuple[int, ...], ...], shape: Shape, setting: Setting, facts: Facts) -> None:
        """strides: of q, k as compared, k as given, v and the result."""
        q, k, raw_k, v, out = (stride[:3] for stride in strides)
        layout, fields = shape.layout, shape.fields
        rows, seq_len = layout.rows, layout.seq_len
        size = tiles_for(facts.itemsize, shape.d_v).forward
        tiles = layout.query_tiles(size.rows)
        rows_known = layout.first_query if tiles else seq_len
        same = {"DIMS": shape.d_k, "D_V": shape.d_v, "PAD_V": shape.pad_v, "SCORE": setting.score}
        same["GAMMA_STEP"] = facts.gamma_step
        order = {"CAUSAL": setting.causal, "PADDED": facts.padded}
        self.windows = [
            Launch(
                forward_kernel, rows * tiles, shape.heads, seq_len, layout.chunk, setting.share * setting.refine,
                setting.local, tiles, *q, *k, *v, *out, layout.list_ids, fields.size, *window_places(fields), **same,
                CELL_DIMS=facts.cell_dims, MODE=layout.mode, NUM_LISTS=layout.num_lists, WIDTH=layout.width,
                CURVE=curve, REFINE=setting.refine > 1, LOCAL=setting.local > 0, BLOCK=size.rows, BLOCK_N=size.width,
                STAGES=size.stages, **size.options(),
            )
            for curve in range(setting.curves if tiles else 0)
        ]  # fmt: skip
        blocks = triton.cdiv(seq_len, LOCAL_BLOCK)
        self.local = Launch(
            local_kernel, rows * blocks if setting.local else 0, shape.heads, seq_len, setting.local, rows_known,
            blocks, *q, *k, *v, *out, **same, **order, BLOCK=LOCAL_BLOCK,
        )  # fmt: skip
        rows_known = 0 if setting.local else rows_known
        programs = rows * shape.stretches if setting.history else 0
        walk = walks_for(shape.pad_v, shape.pad_k, facts.itemsize).forward
        self.sums = Launch(
            sums_kernel, programs, shape.heads, seq_len, shape.stretches, shape.stretch, *raw_k, *v, DIMS=shape.d_k,
            D_V=shape.d_v, PAD_V=shape.pad_v, PADDED=facts.padded, PAD_K=shape.pad_k, BLOCK=min(BLOCK, max(16, 4096 //
            shape.pad_v)),
        )  # fmt: skip
        self.history = Launch(
            history_kernel, programs, shape.heads, seq_len, shape.stretches, shape.stretch, rows_known, *q, *raw_k,
            *v, *out, **same, **order, PAD_K=shape.pad_k, **walk.options(),
        )  # fmt: skip
        self.unknown = 0 if setting.history else rows_known
        """So many rows nothing has written."""


@lru_cache(maxsize=256)
def forward_of(
    q_shape: torch.Size, d_v: int, strides: tuple[tuple[int, ...], ...], setting: Setting, facts: Facts, device: int
) -> Forward:  # fmt: skip
    """The prepared launches; device only tells them apart."""
    return Forward(strides, shape_of(q_shape, d_v, setting), setting, facts)


def forward(
    q: Tensor, k: Tensor, v: Tensor, gamma: Tensor, mask: Tensor | None, plan: Tensor, cells: Tensor, setting: Setting
) -> tuple[Tensor, Tensor, Tensor]:
    """out like v; stat [rows, seq_len], the sum of weights or its logarithm; the history mean's sums, or empty."""
    shape = shape_of(q.shape, v.shape[-1], setting)
    raw_k, v = along(k), along(v)
    q, k = compared(q, setting), compared(raw_k, setting)
    ignored = k if mask is None else mask.contiguous()
    out = torch.empty_like(v)
    result = out if out.stride(-1) == 1 else torch.empty_like(v, memory_format=torch.contiguous_format)
    if setting.in_float32 and v.dtype != torch.float32:
        result = torch.empty_like(v, dtype=torch.float32, memory_format=torch.contiguous_format)
    stat = torch.empty(shape.layout.rows, shape.layout.seq_len, dtype=torch.float32, device=v.device)
    strides = (q.stride(), k.stride(), raw_k.stride(), v.stride(), result.stride())
    run = forward_of(q.shape, v.shape[-1], strides, setting, facts_of(q, k, v, gamma, mask, cells), v.get_device())
    side = (cells[0], cells[1]) if cells.numel() else (plan, plan)
    for window in run.windows:
        window(q, k, v, gamma, result, stat, plan, *side)
    if setting.local:
        run.local(q, k, v, gamma, ignored, result, stat)
    sums = stat.new_empty(sums_size(shape) if setting.history else 0)
    if setting.history:
        run.sums(raw_k, v, ignored, sums)
        run.history(q, raw_k, v, gamma, ignored, sums, result, stat)
    if run.unknown:
        result[:, :, : run.unknown].zero_()
        stat[:, : run.unknown].fill_(float("-inf") if setting.score in (1, 3) else 0.0)
    if result is not out:
        out.copy_(result)
    return out, stat, sums

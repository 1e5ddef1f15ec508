"""What the forward pass launches, in order."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from ..layout import LEVELS, Fields, Layout, fields_of, layout_of, next_power
from .kernel_forward import forward_kernel
from .kernel_history import history_kernel, sums_kernel
from .kernel_local import local_kernel
from .scores import SCORES, directions
from .tiles import stretch_of, tiles_for

DOT = SCORES.index("normalized_dot")
LOCAL_BLOCK = 32


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
    block: int
    """Tokens that passes in token order take at once"""
    stretch: int
    stretches: int


def shape_of(q: Tensor, v: Tensor, setting: Setting) -> Shape:
    batch, heads, seq_len, d_k = q.shape
    d_v = v.shape[-1]
    layout = layout_of(batch * heads, seq_len, setting.chunk or None)
    fields = fields_of(layout, setting.curves, setting.refine, setting.gradients)
    # At least 32 rows and 4 columns: a scan over fewer than the threads of 4 warps does not compile.
    pad_k, pad_v = max(4, next_power(d_k)), max(16, next_power(d_v))
    block = max(32, min(64, 4096 // pad_v))
    stretch = stretch_of(layout.rows, seq_len, block)
    return Shape(
        layout, fields, heads, d_k, d_v, pad_k, pad_v, max(16, pad_k), block, stretch, -(-seq_len // stretch)
    )


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


def history_sums(k: Tensor, v: Tensor, mask: Tensor | None, shape: Shape) -> Tensor:
    """Sums of every stretch of tokens, as kernel_history.sums_kernel."""
    layout = shape.layout
    sums = torch.empty(
        layout.rows, shape.stretches, shape.pad_v + shape.pad_k + 1, dtype=torch.float32, device=v.device
    )
    sums_kernel[(layout.rows * shape.stretches,)](
        k, v, k if mask is None else mask, sums, shape.heads, layout.seq_len, shape.stretches, shape.stretch,
        *k.stride()[:3], *v.stride()[:3], DIMS=shape.d_k, PAD_K=shape.pad_k, D_V=shape.d_v, PAD_V=shape.pad_v,
        PADDED=mask is not None, BLOCK=shape.block,
    )  # fmt: skip
    return sums


def forward(
    q: Tensor, k: Tensor, v: Tensor, gamma: Tensor, mask: Tensor | None, plan: Tensor, cells: Tensor, setting: Setting
) -> tuple[Tensor, Tensor]:
    """out like v and stat [rows, seq_len]: the sum of weights, or its logarithm for exponential scores."""
    shape = shape_of(q, v, setting)
    layout, fields = shape.layout, shape.fields
    raw_k, v, gamma = along(k), along(v), gamma.contiguous()
    q, k = compared(q, setting), compared(k, setting)
    mask = None if mask is None else mask.contiguous()
    out = torch.empty_like(v)
    result = out if out.stride(-1) == 1 else torch.empty_like(v, memory_format=torch.contiguous_format)
    if setting.in_float32 and v.dtype != torch.float32:
        result = torch.empty_like(v, dtype=torch.float32, memory_format=torch.contiguous_format)
    stat = torch.empty(layout.rows, layout.seq_len, dtype=torch.float32, device=v.device)
    size = tiles_for(v.element_size(), shape.d_v).forward
    tiles = layout.query_tiles(size.rows)
    known = layout.first_query if tiles else layout.seq_len
    side = (cells[0], cells[1]) if cells.numel() else (plan, plan)
    strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *result.stride()[:3])
    if tiles:
        for curve in range(setting.curves):
            forward_kernel[(layout.rows * tiles,)](
                q, k, v, gamma, result, stat, plan, *side, shape.heads, layout.seq_len, layout.chunk,
                setting.share * setting.refine, setting.local, tiles, *strides, layout.list_ids, fields.size,
                *window_places(fields), DIMS=shape.d_k, CELL_DIMS=cells.shape[-1], D_V=shape.d_v, PAD_V=shape.pad_v,
                SCORE=setting.score, MODE=layout.mode, NUM_LISTS=layout.num_lists, WIDTH=layout.width, CURVE=curve,
                REFINE=setting.refine > 1, LOCAL=setting.local > 0, BLOCK=size.rows, BLOCK_N=size.width,
                STAGES=size.stages, num_warps=size.warps,
            )  # fmt: skip
    if setting.local:
        blocks = triton.cdiv(layout.seq_len, LOCAL_BLOCK)
        local_kernel[(layout.rows * blocks,)](
            q, k, v, gamma, k if mask is None else mask, result, stat, shape.heads, layout.seq_len, setting.local,
            known, blocks, *strides, DIMS=shape.d_k, D_V=shape.d_v, PAD_V=shape.pad_v, SCORE=setting.score,
            CAUSAL=setting.causal, PADDED=mask is not None, BLOCK=LOCAL_BLOCK,
        )  # fmt: skip
        known = 0
    if setting.history:
        sums = history_sums(raw_k, v, mask, shape)
        history_kernel[(layout.rows * shape.stretches,)](
            q, raw_k, v, gamma, k if mask is None else mask, sums, result, stat, shape.heads, layout.seq_len,
            shape.stretches, shape.stretch, known, *q.stride()[:3], *raw_k.stride()[:3], *v.stride()[:3],
            *result.stride()[:3], DIMS=shape.d_k, PAD_K=shape.pad_k, D_V=shape.d_v, PAD_V=shape.pad_v,
            SCORE=setting.score, CAUSAL=setting.causal, PADDED=mask is not None, BLOCK=shape.block,
        )  # fmt: skip
        known = 0
    if known:
        exponential = setting.score in (1, 3)
        result[:, :, :known].zero_()
        stat[:, :known].fill_(float("-inf") if exponential else 0.0)
    if result is not out:
        out.copy_(result)
    return out, stat


__all__ = ["LEVELS", "Setting", "Shape", "along", "compared", "forward", "history_sums", "shape_of", "window_places"]

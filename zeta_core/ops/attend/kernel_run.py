"""What the forward pass launches, in order."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from ..kernel_launch import Launch, Part, Program
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
    strides: tuple[tuple[int, ...], ...]
    """Of q, k and v"""
    padded: bool
    cell_dims: int
    gamma_step: int
    """0: one gamma for all heads"""
    of_heads: bool
    """gamma, and its gradient, is [heads]"""

    @property
    def itemsize(self) -> int:
        """Bytes of a value's element."""
        return self.kinds[2].itemsize


def facts_of(q: Tensor, k: Tensor, v: Tensor, gamma: Tensor, mask: Tensor | None, cells: Tensor | None) -> Facts:
    step = gamma.stride(0) if gamma.dim() else 0
    kinds, strides = (q.dtype, k.dtype, v.dtype), (q.stride(), k.stride(), v.stride())
    cell_dims = 1 if cells is None else cells.shape[-1]
    return Facts(kinds, strides, mask is not None, cell_dims, step, gamma.dim() > 0)


@lru_cache(maxsize=256)
def shape_of(q_shape: torch.Size, d_v: int, setting: Setting) -> Shape:
    batch, heads, seq_len, d_k = q_shape
    layout = layout_of(batch * heads, seq_len, setting.chunk or None)
    fields = fields_of(layout, setting.curves, setting.refine, setting.gradients)
    # At least 4 columns, as at least 32 rows: a scan over fewer than the threads of 4 warps does not compile.
    pad_k, pad_v = max(4, next_power(d_k)), max(16, next_power(d_v))
    stretch = stretch_of(layout.rows, seq_len, BLOCK)
    return Shape(layout, fields, heads, d_k, d_v, pad_k, pad_v, max(16, pad_k), stretch, -(-seq_len // stretch))


def is_along(shape: torch.Size, strides: tuple[int, ...]) -> bool:
    """Whether a kernel can walk such a tensor: last dimension contiguous, offsets inside a row of 32 bits."""
    return strides[-1] == 1 and strides[2] * shape[2] < 2**31


def along(tensor: Tensor) -> Tensor:
    """The tensor with its last dimension contiguous; other strides are as they come."""
    return tensor if is_along(tensor.shape, tensor.stride()) else tensor.contiguous()


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


Q, K, V, GAMMA, MASK, PLAN, CELLS, OUT, KEPT, RAW_K = range(10)
"""Places of the tensors that the program takes; Q and K are as compared, RAW_K as given."""


class Forward:
    """The launches of a forward pass for one shape on one device, all of whose tensors a kernel can walk."""

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
        windows = [
            Launch(
                forward_kernel, rows * tiles, shape.heads, seq_len, layout.chunk, setting.share * setting.refine,
                setting.local, tiles, *q, *k, *v, *out, layout.list_ids, fields.size, *window_places(fields), **same,
                CELL_DIMS=facts.cell_dims, MODE=layout.mode, NUM_LISTS=layout.num_lists, WIDTH=layout.width,
                CURVE=curve, REFINE=setting.refine > 1, LOCAL=setting.local > 0, BLOCK=size.rows, BLOCK_N=size.width,
                STAGES=size.stages, **size.options(),
            )
            for curve in range(setting.curves)
        ]  # fmt: skip
        blocks = triton.cdiv(seq_len, LOCAL_BLOCK)
        local = Launch(
            local_kernel, rows * blocks if setting.local else 0, shape.heads, seq_len, setting.local, rows_known,
            blocks, *q, *k, *v, *out, **same, **order, BLOCK=LOCAL_BLOCK,
        )  # fmt: skip
        rows_known = 0 if setting.local else rows_known
        programs = rows * shape.stretches if setting.history else 0
        walk = walks_for(shape.pad_v, shape.pad_k, facts.itemsize).forward
        sums = Launch(
            sums_kernel, programs, shape.heads, seq_len, shape.stretches, shape.stretch, *raw_k, *v, DIMS=shape.d_k,
            D_V=shape.d_v, PAD_V=shape.pad_v, PADDED=facts.padded, PAD_K=shape.pad_k, BLOCK=min(BLOCK, max(16, 4096 //
            shape.pad_v)),
        )  # fmt: skip
        history = Launch(
            history_kernel, programs, shape.heads, seq_len, shape.stretches, shape.stretch, rows_known, *q, *raw_k,
            *v, *out, **same, **order, PAD_K=shape.pad_k, **walk.options(),
        )  # fmt: skip
        at = Part(KEPT, sums_at(shape))
        cells = (CELLS, key_cells(shape, facts, setting))
        self.program = Program(
            *((window, (Q, K, V, GAMMA, OUT, KEPT, PLAN, *cells)) for window in windows),
            (local, (Q, K, V, GAMMA, MASK, OUT, KEPT)),
            (sums, (RAW_K, V, MASK, at)),
            (history, (Q, RAW_K, V, GAMMA, MASK, at, OUT, KEPT)),
        )
        self.kept = kept_size(shape, setting)
        self.shape = shape
        self.unknown = 0 if setting.history else rows_known
        """So many rows nothing has written."""


def sums_at(shape: Shape) -> int:
    """Where the sums of the history mean begin in what is kept: after a number for each token, without a gap."""
    return shape.layout.rows * shape.layout.seq_len


def kept_size(shape: Shape, setting: Setting) -> int:
    return sums_at(shape) + (prod(sums_size(shape)) if setting.history else 0)


def key_cells(shape: Shape, facts: Facts, setting: Setting) -> Part:
    """The keys' half of the cells, if there are any."""
    half = shape.layout.rows * shape.layout.seq_len * facts.cell_dims
    return Part(CELLS, half if setting.refine > 1 else 0)


@lru_cache(maxsize=256)
def forward_of(
    q_shape: torch.Size, v_shape: torch.Size, setting: Setting, facts: Facts, device: int,
    strides: tuple[tuple[int, ...], ...] | None = None,
) -> Forward | None:  # fmt: skip
    """The prepared launches; device only tells them apart.

    strides: as Forward takes them, of tensors that were changed first. Without: None if they have to be."""
    if strides is None:
        q, k, v = facts.strides
        if (
            setting.score == DOT
            or not taken_as_is(q_shape, v_shape, facts)
            or needs_result(v_shape, v, setting, facts)
        ):
            return None
        strides = (q, k, k, v, result_strides(v_shape, v))
    return Forward(strides, shape_of(q_shape, v_shape[-1], setting), setting, facts)


def taken_as_is(q_shape: torch.Size, v_shape: torch.Size, facts: Facts) -> bool:
    """Whether kernels can take q, k and v as they are."""
    shapes = (q_shape, q_shape, v_shape)
    return all(is_along(shape, strides) for shape, strides in zip(shapes, facts.strides, strict=True))


def result_strides(v_shape: torch.Size, v: tuple[int, ...]) -> tuple[int, ...]:
    """Of torch.empty_like(v)."""
    return torch.empty_like(torch.empty_strided(v_shape, v, device="meta")).stride()


def needs_result(v_shape: torch.Size, v: tuple[int, ...], setting: Setting, facts: Facts) -> bool:
    """Whether kernels write out by way of another tensor; v: its strides."""
    wide = setting.in_float32 and facts.kinds[2] != torch.float32
    return wide or result_strides(v_shape, v)[-1] != 1


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gamma: Tensor,
    mask: Tensor | None,
    plan: Tensor,
    cells: Tensor | None,
    setting: Setting,
) -> tuple[Tensor, Tensor]:
    """out like v; and what the backward pass wants to know, [kept_size] float32: for each row [rows, seq_len] the sum
    of weights or its logarithm, then the history mean's sums."""
    facts, device = facts_of(q, k, v, gamma, mask, cells), v.get_device()
    run = forward_of(q.shape, v.shape, setting, facts, device)
    raw_k = k
    if run is not None:
        out = result = torch.empty_like(v)
    else:
        raw_k, v = along(k), along(v)
        q, k = compared(q, setting), compared(raw_k, setting)
        out = result = torch.empty_like(v)
        if needs_result(v.shape, v.stride(), setting, facts):
            wide = torch.float32 if setting.in_float32 else v.dtype
            result = torch.empty_like(v, dtype=wide, memory_format=torch.contiguous_format)
        strides = (q.stride(), k.stride(), raw_k.stride(), v.stride(), result.stride())
        run = forward_of(q.shape, v.shape, setting, facts, device, strides)
    kept = torch.empty(run.kept, dtype=torch.float32, device=v.device)
    ignored = k if mask is None else mask.contiguous()
    run.program(
        q, k, v, gamma, ignored, plan, plan if cells is None or not cells.numel() else cells, result, kept, raw_k
    )
    if run.unknown:
        result[:, :, : run.unknown].zero_()
        stat = kept[: q.shape[0] * q.shape[1] * q.shape[2]].view(q.shape[:3])
        stat[:, :, : run.unknown].fill_(float("-inf") if setting.score in (1, 3) else 0.0)
    if result is not out:
        out.copy_(result)
    return out, kept

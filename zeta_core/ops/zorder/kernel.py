"""Cells and Morton codes, in the form that the sort wants: queries, then keys, of each row side by side."""

from __future__ import annotations

from functools import lru_cache

import torch
import triton
import triton.language as tl

from ..kernel_launch import Launch, Program

NUM_BITS = tl.constexpr(12)
WORD_BITS = tl.constexpr(62)
BLOCK = 256


@triton.jit
def cell_of(u, VALID_LAST: tl.constexpr):
    """clamp(floor(4096 u), 0, 4095); NaN takes the last cell. Half precision is upcast exactly."""
    wide = u * 4096 if u.dtype.is_fp64() else u.to(tl.float32) * 4096
    inside = tl.where(wide != wide, VALID_LAST, tl.minimum(tl.maximum(wide, 0.0), VALID_LAST * 1.0))
    return inside.to(tl.int32)


@triton.jit
def spread(cell, d: tl.constexpr, DIMS: tl.constexpr):
    """The bits of dimension d's cells where a code of one word has them."""
    code = cell.to(tl.int64) * 0
    for bit in tl.static_range(NUM_BITS):
        code |= ((cell.to(tl.int64) >> bit) & 1) << (bit * DIMS + DIMS - 1 - d)
    return code


@triton.jit
def one_word(row, token, valid, DIMS: tl.constexpr, ORDER: tl.constexpr):
    """The whole code in one int64; ORDER has 3 bits for each dimension's place in memory."""
    code = tl.zeros(token.shape, tl.int64)
    for d in tl.static_range(DIMS):
        # u: [BLOCK], one coordinate
        u = tl.load(row + ((ORDER >> (3 * d)) & 7), mask=valid, other=0.0)
        code |= spread(cell_of(u, 4095), d, DIMS)
    return code


@triton.jit
def word_of(row, token, valid, word, DIMS: tl.constexpr):
    """Word number `word` of a code of several: 62 bits of the interleaved stream, the last one shorter."""
    code = tl.zeros(token.shape, tl.int64)
    first = word * WORD_BITS
    count = tl.minimum(WORD_BITS, DIMS * NUM_BITS - first)
    for i in range(count):
        at = first + i
        # u: [BLOCK], one coordinate
        u = tl.load(row + at % DIMS, mask=valid, other=0.0)
        bit = NUM_BITS - 1 - at // DIMS
        code = (code << 1) | ((cell_of(u, 4095) >> bit) & 1).to(tl.int64)
    return code


@triton.jit
def code_of(row, token, valid, word, DIMS: tl.constexpr, ORDER: tl.constexpr, WORDS: tl.constexpr):
    if WORDS == 1:
        return one_word(row, token, valid, DIMS, ORDER)
    else:
        return word_of(row, token, valid, word, DIMS)


@triton.jit
def codes_kernel(
    q_ptr,
    k_ptr,
    low_ptr,
    high_ptr,
    seq_len,
    heads,
    rows,
    stride_qb,
    stride_qh,
    stride_qn,
    stride_kb,
    stride_kh,
    stride_kn,
    DIMS: tl.constexpr,
    ORDER: tl.constexpr,
    WORDS: tl.constexpr,
    LOW_BITS: tl.constexpr,
    HIGH_BITS: tl.constexpr,
    ROW_SHIFT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Codes of both sides as [words, rows, 2 seq_len]: int64, or (one word) cut into a low and a high part.

    A row's number goes above its code from bit ROW_SHIFT on, unless that is 0."""
    blocks = tl.cdiv(seq_len, BLOCK)
    pid = tl.program_id(0)
    block = pid % blocks
    side = (pid // blocks) % 2
    row_word = pid // (2 * blocks)
    row = row_word % rows
    word = row_word // rows
    batch = (row // heads).to(tl.int64)
    head = (row % heads).to(tl.int64)
    token = block * BLOCK + tl.arange(0, BLOCK)
    valid = token < seq_len
    if side == 0:
        at = q_ptr + batch * stride_qb + head * stride_qh + token.to(tl.int64) * stride_qn
        code = code_of(at, token, valid, word, DIMS, ORDER, WORDS)
    else:
        at = k_ptr + batch * stride_kb + head * stride_kh + token.to(tl.int64) * stride_kn
        code = code_of(at, token, valid, word, DIMS, ORDER, WORDS)
    if ROW_SHIFT > 0:
        code |= row.to(tl.int64) << ROW_SHIFT
    out = (word.to(tl.int64) * rows + row) * (2 * seq_len) + side * seq_len + token
    if LOW_BITS > 0:
        # Signed sorts: the offset keeps the order of unsigned parts.
        low = (code & ((1 << LOW_BITS) - 1)) - (1 << (LOW_BITS - 1))
        tl.store(low_ptr + out, low.to(low_ptr.dtype.element_ty), mask=valid)
    high = code >> LOW_BITS
    if HIGH_BITS == 32:
        high -= 1 << 31
    tl.store(high_ptr + out, high.to(high_ptr.dtype.element_ty), mask=valid)


KINDS = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}


class Codes:
    """The launch that codes points of one shape, and what it writes."""

    def __init__(
        self, shape: torch.Size, strides: tuple[tuple[int, ...], ...], order: tuple[int, ...], row_bits: int,
        low_bits: int, high_bits: int,
    ) -> None:  # fmt: skip
        batch, heads, seq_len, dims = shape
        rows, words = batch * heads, -(-12 * dims // 62)
        packed = sum(dim << (3 * place) for place, dim in enumerate(order)) if words == 1 else 0
        launch = Launch(
            codes_kernel, triton.cdiv(seq_len, BLOCK) * 2 * rows * words, seq_len, heads, rows,
            *(step for stride in strides for step in stride[:3]), DIMS=dims, ORDER=packed, WORDS=words,
            LOW_BITS=low_bits, HIGH_BITS=high_bits, ROW_SHIFT=12 * dims if row_bits else 0, BLOCK=BLOCK,
        )  # fmt: skip
        self.program = Program((launch, (0, 1, 2, 3)))
        self.size = (words, rows, 2 * seq_len)
        self.low, self.high = KINDS.get(low_bits), KINDS[high_bits]


@lru_cache(maxsize=256)
def codes_of(
    shape: torch.Size, strides: tuple[tuple[int, ...], ...], kinds: tuple[torch.dtype, ...], order: tuple[int, ...],
    row_bits: int, low_bits: int, high_bits: int, device: torch.device,
) -> Codes:  # fmt: skip
    """The prepared launch; kinds and device only tell it apart."""
    return Codes(shape, strides, order, row_bits, low_bits, high_bits)


def joint_codes(
    q: torch.Tensor, k: torch.Tensor, order: tuple[int, ...], *, row_bits: int, low_bits: int = 0, high_bits: int = 64
) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of q and k [batch, heads, seq_len, d_K] as (low, high) [words, rows, 2 seq_len]; low may be unused.

    order: the order of dimensions, for one word. row_bits: room for the row above the code; 0 leaves it out."""
    strides = (q.stride(), k.stride())
    if strides[0][-1] != 1 or strides[1][-1] != 1:
        q, k = q.contiguous(), k.contiguous()
        strides = (q.stride(), k.stride())
    codes = codes_of(q.shape, strides, (q.dtype, k.dtype), order, row_bits, low_bits, high_bits, q.device)
    high = torch.empty(codes.size, dtype=codes.high, device=q.device)
    low = high if codes.low is None else torch.empty(codes.size, dtype=codes.low, device=q.device)
    codes.program(q, k, low, high)
    return low, high


@triton.jit
def cells_kernel(coords_ptr, cells_ptr, total, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    # u: [BLOCK], coordinates of any points
    u = tl.load(coords_ptr + at, mask=at < total, other=0.0)
    tl.store(cells_ptr + at, cell_of(u, 4095).to(tl.int16), mask=at < total)


def grid_cells(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Cells of q and k [batch, heads, seq_len, d]: [2, batch * heads, seq_len, d] int16."""
    both = torch.stack((q.detach(), k.detach()))
    cells = torch.empty_like(both, dtype=torch.int16, memory_format=torch.contiguous_format)
    cells_kernel[(triton.cdiv(both.numel(), 1024),)](both, cells, both.numel(), BLOCK=1024)
    return cells.flatten(1, 2)


def forward(coords: torch.Tensor) -> torch.Tensor:
    """As zorder.api.zorder_codes with 12 bits: [batch, heads, seq_len, words] int64."""
    batch, heads, seq_len, dims = coords.shape
    if coords.numel() == 0:
        return torch.empty(batch, heads, seq_len, -(-12 * dims // 62), dtype=torch.int64, device=coords.device)
    _, words = joint_codes(coords, coords[:, :, :1].expand_as(coords), tuple(range(dims)), row_bits=0)
    return words[:, :, :seq_len].reshape(-1, batch, heads, seq_len).permute(1, 2, 3, 0).contiguous()

"""Cells and Morton codes in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

WORD_BITS = 62


def cells(coords: Tensor, num_bits: int) -> Tensor:
    """Grid cells as int64: clamp(floor(2^num_bits u), 0, 2^num_bits - 1); NaN takes the last cell."""
    size = 1 << num_bits
    wide = coords.detach()
    wide = wide.float() if wide.dtype in (torch.float16, torch.bfloat16) else wide
    scaled = (wide * size).nan_to_num(nan=size - 1, posinf=size - 1, neginf=0)
    return scaled.floor_().clamp_(0, size - 1).long()


def forward(cell: Tensor, num_bits: int) -> Tensor:
    """Interleave the bits of cell [..., d_K] int64 into [..., words] int64, most significant bits first."""
    d_k = cell.shape[-1]
    if num_bits * d_k <= WORD_BITS:
        return _one_word(cell, num_bits).unsqueeze(-1)
    stream = [(bit, dim) for bit in reversed(range(num_bits)) for dim in range(d_k)]
    words = []
    for start in range(0, len(stream), WORD_BITS):
        word = torch.zeros_like(cell[..., 0])
        for bit, dim in stream[start : start + WORD_BITS]:
            word.bitwise_left_shift_(1).bitwise_or_((cell[..., dim] >> bit) & 1)
        words.append(word)
    return torch.stack(words, dim=-1)


def _one_word(cell: Tensor, num_bits: int) -> Tensor:
    """One word a point, by a table of spread bits: one look-up a dimension instead of one step a bit.

    Of fewer bits than the table has entries, as in decoding, all at once: it would take longer to make."""
    d_k = cell.shape[-1]
    if cell[..., 0].numel() * num_bits < 1 << num_bits:
        shift = torch.arange(num_bits, device=cell.device)[:, None]
        place = shift * d_k + torch.arange(d_k - 1, -1, -1, device=cell.device)
        bits = ((cell[..., None, :] >> shift) & 1) << place
        return bits.flatten(-2).sum(-1)
    values = torch.arange(1 << num_bits, device=cell.device)
    spread = torch.zeros_like(values)
    for bit in range(num_bits):
        spread |= ((values >> bit) & 1) << (bit * d_k)
    word = torch.zeros_like(cell[..., 0])
    for dim in range(d_k):
        word |= spread[cell[..., dim]] << (d_k - 1 - dim)
    return word

"""Blocks of queries, so that memory stays bounded whatever the length."""

from __future__ import annotations

import torch

BLOCK_BYTES = 64 * 2**20
GPU_BLOCK_BYTES = 2**30
"""On a GPU each block costs launches, and memory is larger."""
ALIGNMENT = 64


def block_bytes(device: torch.device) -> int:
    """What the temporaries of one block may take on a device."""
    return GPU_BLOCK_BYTES if device.type == "cuda" else BLOCK_BYTES


def query_blocks(start: int, stop: int, bytes_per_query: int, budget: int = BLOCK_BYTES) -> list[tuple[int, int]]:
    """Cut the queries start..stop-1 into consecutive (first, last + 1) blocks of at most about `budget` bytes.

    Every block but the last has a multiple of 64 queries."""
    size = max(1, budget // max(1, bytes_per_query) // ALIGNMENT) * ALIGNMENT
    return [(first, min(first + size, stop)) for first in range(start, stop, size)]

"""Launches that are prepared once for each shape, since for short sequences the host is what takes time.

Triton looks at every argument of every launch to choose a compiled kernel. Here all arguments but tensors are
known once shapes are; the compiled kernel is remembered with them and called directly."""

from __future__ import annotations

from typing import Any

import torch
import triton

DIRECT = triton.__version__.startswith("3.6.")
"""Other versions launch in another way: there every launch goes through Triton's own front."""
ALIGNED = 16
"""Bytes; a kernel compiled for aligned tensors is not used for others."""


class Launch:
    """One kernel with its grid and with all arguments but the tensors, which come first."""

    __slots__ = ("compiled", "constants", "grid", "kernel", "meta", "numbers")

    def __init__(self, kernel: Any, grid: int, *numbers: int, **meta: Any) -> None:
        self.kernel, self.grid, self.numbers, self.meta = kernel, grid, numbers, meta
        self.compiled: Any = None
        self.constants: tuple[Any, ...] = ()

    def __call__(self, *tensors: torch.Tensor) -> None:
        """Run on the current stream of the tensors' device, which is the current one."""
        if self.grid == 0:
            return
        pointers = [tensor.data_ptr() for tensor in tensors]
        aligned = not any(pointer % ALIGNED for pointer in pointers)
        if self.compiled is None or not aligned:
            compiled = self.kernel[(self.grid,)](*tensors, *self.numbers, **self.meta)
            if DIRECT and aligned and hasattr(compiled, "packed_metadata"):
                names = self.kernel.arg_names[len(tensors) + len(self.numbers) :]
                self.compiled, self.constants = compiled, tuple(self.meta[name] for name in names)
            return
        compiled = self.compiled
        stream = torch._C._cuda_getCurrentRawStream(tensors[0].device.index)
        compiled.run(
            self.grid, 1, 1, stream, compiled.function, compiled.packed_metadata, None, None, None, *pointers,
            *self.numbers, *self.constants,
        )  # fmt: skip


def split(kind: torch.dtype, device: torch.device, sizes: list[int]) -> tuple[torch.Tensor, ...]:
    """One allocation cut into arrays of these sizes, each aligned."""
    padded = [-(-size // 64) * 64 for size in sizes]
    return torch.empty(sum(padded), dtype=kind, device=device).split(padded)

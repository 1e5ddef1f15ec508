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

    __slots__ = ("call", "front", "grid", "kernel", "meta", "middle", "numbers", "rest")

    def __init__(self, kernel: Any, grid: int, *numbers: int, **meta: Any) -> None:
        self.kernel, self.grid, self.numbers, self.meta = kernel, grid, numbers, meta
        self.call: Any = None
        """Triton's launcher in C, once a compiled kernel is known, and what it takes around stream and tensors."""
        self.front: tuple[Any, ...] = ()
        self.middle: tuple[Any, ...] = ()
        self.rest: tuple[Any, ...] = ()

    def __call__(self, *tensors: torch.Tensor) -> None:
        """Run on the current stream of the tensors' device, which is the current one."""
        if self.grid == 0:
            return
        pointers = [tensor.data_ptr() for tensor in tensors]
        if self.call is not None:
            bits = 0
            for pointer in pointers:
                bits |= pointer
            if bits % ALIGNED == 0:
                stream = torch._C._cuda_getCurrentRawStream(tensors[0].get_device())
                self.call(*self.front, stream, *self.middle, *pointers, *self.rest)
                return
        compiled = self.kernel[(self.grid,)](*tensors, *self.numbers, **self.meta)
        if DIRECT and not any(pointer % ALIGNED for pointer in pointers):
            self.remember(compiled, len(tensors))

    def remember(self, compiled: Any, num_tensors: int) -> None:
        """Keep the compiled kernel, if there is one and it needs no memory of its own."""
        run = getattr(compiled, "run", None)
        if run is None or run.global_scratch_size or run.profile_scratch_size:
            return
        names = self.kernel.arg_names[num_tensors + len(self.numbers) :]
        self.front = (self.grid, 1, 1)
        # Scratch memory of two kinds, metadata of two kinds, and hooks before and after: none.
        self.middle = (
            compiled.function, run.launch_cooperative_grid, run.launch_pdl, None, None, compiled.packed_metadata,
            None, None, None,
        )  # fmt: skip
        self.rest = (*self.numbers, *(self.meta[name] for name in names))
        self.call = run.launch


def split(kind: torch.dtype, device: torch.device, sizes: list[int]) -> tuple[torch.Tensor, ...]:
    """One allocation cut into arrays of these sizes, each aligned."""
    padded = [-(-size // 64) * 64 for size in sizes]
    return torch.split_with_sizes(torch.empty(sum(padded), dtype=kind, device=device), padded)

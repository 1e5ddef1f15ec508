"""Launches that are prepared once for each shape, since for short sequences the host is what takes time.

Triton looks at every argument of every launch to choose a compiled kernel. Here all arguments but tensors are
known once shapes are; the compiled kernel is remembered with them and called directly."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import torch
import triton

DIRECT = triton.__version__.startswith("3.6.")
"""Other versions launch in another way: there every launch goes through Triton's own front."""
ALIGNED = 16
"""Bytes; a kernel compiled for aligned tensors is not used for others."""


Part = tuple[torch.Tensor, int]
"""An array of 4-byte numbers that begins so many of them into a tensor: a view costs more than a launch's share."""


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

    def __call__(self, *arrays: Any) -> None:
        """Run on the current stream of the arrays' device, which is the current one; arrays: tensors or parts."""
        if self.grid == 0:
            return
        bits, pointers = 0, []
        for array in arrays:
            pointer = array.data_ptr() if type(array) is not tuple else array[0].data_ptr() + 4 * array[1]
            bits |= pointer
            pointers.append(pointer)
        if self.call is not None and bits % ALIGNED == 0:
            first = arrays[0]
            device = first[0].get_device() if type(first) is tuple else first.get_device()
            self.call(*self.front, torch._C._cuda_getCurrentRawStream(device), *self.middle, *pointers, *self.rest)
            return
        tensors = [array[0].view(-1)[array[1] :] if type(array) is tuple else array for array in arrays]
        compiled = self.kernel[(self.grid,)](*tensors, *self.numbers, **self.meta)
        if DIRECT and bits % ALIGNED == 0:
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


def places(sizes: list[int]) -> tuple[list[int], int]:
    """Where arrays of these sizes begin in one allocation, each aligned, and how much that is."""
    ends = list(accumulate(-(-size // 64) * 64 for size in sizes))
    return [0, *ends[:-1]], ends[-1]

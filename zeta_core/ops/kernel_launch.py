"""Rows of launches that are prepared once for each shape, since on short sequences the host is what takes time.

Triton looks at every argument of every launch to choose a compiled kernel. Here all arguments but the addresses of
tensors are known once shapes are: after the first call the compiled kernels and their arguments are one program,
which `kernel_launch.c` launches in a single call."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

DIRECT = triton.__version__.startswith("3.6.")
"""Other versions launch in another way: there every launch goes through Triton's own front."""
ALIGNED = 16
"""Bytes; a kernel compiled for aligned tensors is not used for others."""
MOST_PARAMETERS = 128
"""As in kernel_launch.c; two of them are Triton's own."""
THREADS_OF_WARP = 32


class Launch:
    """One kernel with its grid and with all arguments but the tensors, which come first."""

    __slots__ = ("grid", "kernel", "meta", "numbers")

    def __init__(self, kernel: Any, grid: int, *numbers: int, **meta: Any) -> None:
        self.kernel, self.grid, self.numbers, self.meta = kernel, grid, numbers, meta


class Part(NamedTuple):
    """An array inside one of a program's tensors, which is then contiguous."""

    tensor: int
    """Its number among the program's tensors"""
    at: int
    """Where the array begins, in elements of its dtype"""
    dtype: torch.dtype | None = None
    """None: the tensor's"""

    def view(self, tensors: Sequence[Tensor]) -> Tensor:
        """The array from its beginning to the tensor's end, for Triton's front."""
        tensor = tensors[self.tensor]
        if self.dtype is not None:
            tensor = tensor.view(self.dtype)
        return tensor.view(-1)[self.at :] if self.at else tensor

    def offset(self, tensors: Sequence[Tensor]) -> int:
        """Bytes from the tensor's beginning."""
        return self.at * (self.dtype or tensors[self.tensor].dtype).itemsize


Array = int | Part
"""A whole tensor by its number, or a part of one."""


class Program:
    """Launches in a row over the same tensors, on the current stream of their device, which is the current one."""

    __slots__ = ("packed", "steps")

    packed: Callable[..., bool] | None
    """Once compiled: launches everything, given a stream and addresses; False where Triton has to."""

    def __init__(self, *steps: tuple[Launch, Sequence[Array]]) -> None:
        """Each launch with its arrays, in order; those with an empty grid are left out."""
        self.steps = [
            (launch, [Part(array, 0) if isinstance(array, int) else array for array in arrays])
            for launch, arrays in steps
            if launch.grid
        ]
        self.packed = None

    def __call__(self, *tensors: Tensor) -> None:
        """Run it."""
        if self.packed is not None:
            stream = torch._C._cuda_getCurrentRawStream(tensors[0].get_device())
            if self.packed(stream, *[tensor.data_ptr() for tensor in tensors]):
                return
        compiled = [
            launch.kernel[(launch.grid,)](*(part.view(tensors) for part in parts), *launch.numbers, **launch.meta)
            for launch, parts in self.steps
        ]
        if DIRECT and not any(tensor.data_ptr() % ALIGNED for tensor in tensors):
            words = self.words(compiled, tensors)
            self.packed = partial(runner(), driver_launch(), words) if words else None

    def words(self, compiled: Sequence[Any], tensors: Sequence[Tensor]) -> bytes | None:
        """As kernel_launch.c reads them; None if a kernel is not compiled or needs more than a plain launch."""
        words = array("q")
        for kernel, (launch, parts) in zip(compiled, self.steps, strict=True):
            run = getattr(kernel, "run", None)
            if run is None or run.global_scratch_size or run.profile_scratch_size:
                return None
            warps, clusters, shared = kernel.packed_metadata
            if clusters != 1 or run.launch_cooperative_grid or run.launch_pdl:
                return None
            given = [(part.tensor, part.offset(tensors)) for part in parts] + [(-1, n) for n in launch.numbers]
            # Triton compiles some numbers, such as 1, into the kernel: those are no parameters.
            names = zip(launch.kernel.arg_names, given, strict=False)
            kept = [pair for name, pair in names if kernel.src.signature[name] != "constexpr"]
            # Two addresses of scratch memory come last: none.
            kept += [(-1, 0), (-1, 0)]
            assert len(kept) <= MOST_PARAMETERS
            words.extend((kernel.function, launch.grid, warps * THREADS_OF_WARP, shared, len(kept)))
            words.extend(word for pair in kept for word in pair)
        return words.tobytes()


@cache
def driver_launch() -> int | None:
    """The address of the CUDA driver's launch."""
    return ctypes.cast(ctypes.CDLL("libcuda.so.1").cuLaunchKernel, ctypes.c_void_p).value


@cache
def runner() -> Callable[..., bool]:
    """`run` of kernel_launch.c, compiled as Triton compiles its own launchers, and kept in its cache."""
    from triton.runtime.build import compile_module_from_src

    source = Path(__file__).with_suffix(".c").read_text(encoding="utf-8")
    run: Callable[..., bool] = compile_module_from_src(source, "zeta_launch").run
    return run


def places(sizes: list[int]) -> tuple[list[int], int]:
    """Where arrays of these sizes begin in one allocation, each aligned, and how much that is."""
    ends = list(accumulate(-(-size // 64) * 64 for size in sizes))
    return [0, *ends[:-1]], ends[-1]

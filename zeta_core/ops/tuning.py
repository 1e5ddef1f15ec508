"""Times the tile sizes of `attend/tiles.py` on this machine's GPU: `python -m zeta_core.ops.tuning`.

Prints the alternatives of each kernel, fastest first, and the fastest as the table has them. The table is then
changed by hand: what a kernel sums and in which order is part of its result, so that nothing is chosen while a
program runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from zeta_core.errors import DeviceError

from .attend import tiles
from .attend.tiles import Tile, Tiles, Walk, Walks
from .layout import next_power
from .zeta_attention import zeta_attention

WARMUP, RUNS = 2, 5
WALKS = {"history": "forward", "history_backward": "backward", "history_return": "back"}
"""The field of Walks that a kernel in token order reads; the other kernels are fields of Tiles."""


@dataclass(frozen=True)
class Choice:
    """One alternative for one kernel."""

    kernel: str
    size: Tile | Walk


def choices() -> list[Choice]:
    """What is tried: rows, widths, warps, stages and register caps around the table's."""
    found = []
    for width in (16, 32, 64):
        for registers in (0, 128, 168):
            found += [Choice("forward", Tile(16, width, 1, stages, registers)) for stages in (1, 3)]
            found += [Choice("backward", Tile(16, width, 1, stages, registers)) for stages in (1, 2)]
    for width in (16, 32):
        for warps in (1, 2, 4):
            found += [Choice("keys", Tile(32, width, warps, 1, registers)) for registers in (0, 168)]
    for block in (32, 64):
        for registers in (0, 128):
            for stages in (2, 3):
                walk = Walk(block, stages, registers)
                found += [Choice(kernel, walk) for kernel in WALKS]
    return found


@contextmanager
def chosen(choice: Choice, itemsize: int, d_v: int) -> Iterator[None]:
    """The table with one entry replaced."""
    from .attend import kernel_run, kernel_run_backward

    sizes = tiles.tiles_for(itemsize, d_v)
    walks = tiles.walks_for(max(16, next_power(d_v)), 4, itemsize)
    if isinstance(choice.size, Tile):
        sizes = Tiles(**{**sizes._asdict(), choice.kernel: choice.size})
    else:
        walks = Walks(**{**walks._asdict(), WALKS[choice.kernel]: choice.size})
    modules: tuple[Any, ...] = (kernel_run, kernel_run_backward)
    caches = (kernel_run.forward_of, kernel_run_backward.backward_of)
    before = [(module, module.tiles_for, module.walks_for) for module in modules]
    for module in modules:
        module.tiles_for = lambda *shape: sizes
        module.walks_for = lambda *shape: walks
    for cache in caches:
        cache.cache_clear()
    try:
        yield
    finally:
        for module, tiles_for, walks_for in before:
            module.tiles_for, module.walks_for = tiles_for, walks_for
        for cache in caches:
            cache.cache_clear()


def kernel_ms(step: Callable[[], None], kernel: str) -> float:
    """Mean time of one kernel in a step, by torch's profiler."""
    for _ in range(WARMUP):
        step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(RUNS):
            step()
        torch.cuda.synchronize()
    times = {event.key: event.self_device_time_total / event.count for event in profile.key_averages()}
    return float(times[f"{kernel}_kernel"]) / 1000


def main() -> None:
    """Print the times; a choice that does not compile is left out with its error's first line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seq", type=int, default=65536, help="tokens")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--d-v", type=int, default=64)
    parser.add_argument("--top-k", type=int, default=32)
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--kernel", nargs="+", choices=["forward", "backward", "keys", *WALKS], help="only these")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        raise DeviceError("tile sizes are timed on a CUDA GPU, and there is none")
    dtype = getattr(torch, given.dtype)
    q, k = torch.rand(2, 1, given.heads, given.seq, 3, device="cuda").unbind()
    v = torch.randn(1, given.heads, given.seq, given.d_v, device="cuda", dtype=dtype)
    gamma = torch.tensor(0.05, device="cuda")
    leaves = [tensor.requires_grad_() for tensor in (q, k, v, gamma)]

    def step() -> None:
        out = zeta_attention(*leaves[:3], gamma=leaves[3], top_k=given.top_k, impl="triton")
        torch.autograd.grad(out, leaves, torch.ones_like(out))

    rows = []
    tried = [choice for choice in choices() if given.kernel is None or choice.kernel in given.kernel]
    for choice in tried:
        with chosen(choice, dtype.itemsize, given.d_v):
            try:
                rows.append((choice.kernel, kernel_ms(step, choice.kernel), choice.size))
            except Exception as error:  # a size that does not compile, or needs too much shared memory
                print(f"{choice.kernel} {tuple(choice.size)}: {str(error).splitlines()[0][:80]}")
    rows.sort(key=lambda row: (row[0], row[1]))
    for kernel, time_ms, size in rows:
        print(f"{kernel:18} {time_ms:8.4f} ms  {size}")
    fastest = {kernel: size for kernel, _, size in reversed(rows)}
    for name, fields in (("Tiles", {k: k for k in fastest if k not in WALKS}), ("Walks", WALKS)):
        sizes = [
            f"{field}={type(fastest[kernel]).__name__}{tuple(fastest[kernel])}"
            for kernel, field in fields.items()
            if kernel in fastest
        ]
        if sizes:
            print(f"{name}({', '.join(sizes)})")


if __name__ == "__main__":
    main()

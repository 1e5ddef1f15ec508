"""Times and memory of one call, on a GPU and on a CPU."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

Call = Callable[[], object]
FLUSH_BYTES = 128 * 2**20
"""Overwritten before each call on a GPU: more than its L2 cache holds."""
MOST_REPEATS = 50
FEWEST_REPEATS = 5
"""Where they fit twice the time; a single call that takes longer than the whole time is made once more."""


def times_ms(call: Call, device: torch.device, budget_s: float) -> list[float]:
    """Times of single calls, sorted, of a call that is warm; as many as fit the budget, 50 at most.

    On a GPU between CUDA events, each after the L2 cache was overwritten; on a CPU by the clock, nothing
    overwritten."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device=device) if device.type == "cuda" else None
    found = [timed_ms(call, device, flush)]
    each_s = found[0] / 1e3 + 2e-4
    repeats = min(int(budget_s / each_s), MOST_REPEATS)
    if FEWEST_REPEATS * each_s < 2 * budget_s:
        repeats = max(repeats, FEWEST_REPEATS)
    found += [timed_ms(call, device, flush) for _ in range(repeats - 1)]
    return sorted(found)


def quantile(ordered: list[float], share: float) -> float:
    """The least of the ordered numbers that at least this share of them does not exceed."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def timed_ms(call: Call, device: torch.device, flush: Tensor | None = None) -> float:
    """One call in ms."""
    if device.type == "cpu":
        began = time.perf_counter()
        call()
        return (time.perf_counter() - began) * 1e3
    begin, end = (torch.Event("cuda", enable_timing=True) for _ in range(2))
    if flush is not None:
        flush.zero_()
    begin.record()
    call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def captured(call: Call) -> Call:
    """A warm call, replayed from a CUDA graph."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def timed_with_memory(call: Call, device: torch.device) -> tuple[float, int | None]:
    """One call in ms, and on a GPU the most bytes it held at once above what was there, its results included."""
    if device.type == "cpu":
        return timed_ms(call, device), None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    took = timed_ms(call, device)
    return took, torch.cuda.max_memory_allocated() - before


def profiled_peak(call: Call) -> int:
    """The most bytes that a call on the CPU held at once, its results included."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        result = call()
    del result
    assert profile.profiler is not None
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most

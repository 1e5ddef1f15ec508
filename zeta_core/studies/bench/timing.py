"""Times and memory of one call, on a GPU and on a CPU."""

from __future__ import annotations

import itertools
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

    On a GPU between CUDA events, each after the L2 cache was overwritten, and without waiting in between: as in
    training, the host runs ahead where it can. On a CPU by the clock, nothing overwritten."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device=device) if device.type == "cuda" else None
    each_s = max(_timed(call, device, flush, 1)) / 1e3 + 2e-4
    repeats = min(int(budget_s / each_s), MOST_REPEATS)
    if FEWEST_REPEATS * each_s < 2 * budget_s:
        repeats = max(repeats, FEWEST_REPEATS)
    return sorted(_timed(call, device, flush, max(1, repeats)))


def quantile(ordered: list[float], share: float) -> float:
    """The least of the ordered numbers that at least this share of them does not exceed."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def timed_ms(call: Call, device: torch.device) -> float:
    """One call in ms."""
    return _timed(call, device, None, 1)[0]


def _timed(call: Call, device: torch.device, flush: Tensor | None, repeats: int) -> list[float]:
    """Calls in ms, in order."""
    if device.type == "cpu":
        clock = [time.perf_counter()]
        for _ in range(repeats):
            call()
            clock.append(time.perf_counter())
        return [(end - begin) * 1e3 for begin, end in itertools.pairwise(clock)]
    events = [tuple(torch.Event("cuda", enable_timing=True) for _ in range(2)) for _ in range(repeats)]
    for begin, end in events:
        if flush is not None:
            flush.zero_()
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in events]


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

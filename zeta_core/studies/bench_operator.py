"""Times the whole operator (codes, sorts, windows, weighted means) against torch's dense causal attention.

python -m zeta_core.studies.bench_operator [--seq N ...] [--out OUT]

Rows go to OUT/results/bench_operator.csv. On a GPU: CUDA events, each call after the L2 cache was overwritten,
eager and replayed from a CUDA graph; on a CPU: wall clock. Inputs are seeded; forward is without gradients,
forward+backward is for q, k, v and gamma. Memory is what an eager call allocates above the inputs and the output's
gradient, after a warm-up call."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from zeta_core.ops import zeta_attention
from zeta_core.records import BenchRow, append_rows, device_name, run_id, versions

Mode = Literal["forward", "forward_backward"]
Timing = Literal["eager", "graph"]
GAMMA = 0.047
SEED = 0
SECONDS_A_ROW = 0.5
POINTS = ("random", "vocabulary", "equal", "clusters", "drifting")
BACKENDS = {
    "sdpa_cudnn": SDPBackend.CUDNN_ATTENTION,
    "sdpa_flash": SDPBackend.FLASH_ATTENTION,
    "sdpa_efficient": SDPBackend.EFFICIENT_ATTENTION,
}


@dataclass(frozen=True)
class Case:
    """What is timed."""

    provider: str
    mode: Mode
    seq_len: int
    points: str = "random"
    timing: Timing = "eager"
    batch: int = 1
    heads: int = 8
    d_k: int = 3
    d_v: int = 64
    top_k: int = 32
    num_chunks: int = 8

    @property
    def is_zeta(self) -> bool:
        """Whether ZETA's options mean anything to it."""
        return self.provider.startswith("zeta")


def points(case: Case, device: torch.device) -> tuple[Tensor, Tensor]:
    """Coordinates of queries and keys in [0, 1]: [batch, heads, seq_len, d_K] float32.

    random: uniform. vocabulary: 64 distinct points, for both. equal: one point. clusters: queries in two tight
    clusters, keys uniform. drifting: both move from 0 to 1 with the position."""
    shape = (case.batch, case.heads, case.seq_len, case.d_k)
    q, k = torch.rand(2, *shape, device=device).unbind(0)
    if case.points == "vocabulary":
        words = torch.rand(64, case.d_k, device=device)
        q, k = (words[torch.randint(64, shape[:-1], device=device)] for _ in range(2))
    elif case.points == "equal":
        q, k = torch.full_like(q, 0.5), torch.full_like(k, 0.5)
    elif case.points == "clusters":
        q = torch.where(torch.rand(*shape[:-1], 1, device=device) < 0.5, 0.1, 0.9) + 0.001 * q
    elif case.points == "drifting":
        place = torch.linspace(0, 0.98, case.seq_len, device=device)[:, None]
        q, k = place + 0.02 * q, place + 0.02 * k
    return q, k


def operator(case: Case, device: torch.device) -> tuple[Callable[[], Tensor], list[Tensor]]:
    """The forward call, and the tensors it has gradients for."""
    torch.manual_seed(SEED)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    v = torch.randn(case.batch, case.heads, case.seq_len, case.d_v, device=device, dtype=dtype)
    if case.is_zeta:
        q, k = points(case, device)
        gamma = torch.tensor(GAMMA, device=device)
        impl: Literal["reference", "triton"] = "triton" if case.provider == "zeta_triton" else "reference"

        def zeta() -> Tensor:
            return zeta_attention(
                q, k, v, gamma=gamma, num_chunks=case.num_chunks, top_k=case.top_k, causal=True, impl=impl
            )

        return zeta, [q, k, v, gamma]
    q, k = (torch.randn_like(v) for _ in range(2))
    backend = BACKENDS[case.provider]

    def sdpa() -> Tensor:
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    return sdpa, [q, k, v]


def call_of(case: Case, device: torch.device) -> Callable[[], object]:
    """What is timed: the forward pass without gradients, or forward and backward."""
    forward, inputs = operator(case, device)
    if case.mode == "forward":

        def timed() -> object:
            with torch.no_grad():
                return forward()

        return timed
    for tensor in inputs:
        tensor.requires_grad_()
    gradient = torch.randn_like(inputs[2])
    return lambda: torch.autograd.grad(forward(), inputs, gradient)


def captured(call: Callable[[], object]) -> Callable[[], object]:
    """The call replayed from a CUDA graph."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def times_ms(call: Callable[[], object], device: torch.device) -> list[float]:
    """Times of single calls in ms, sorted; as many as fit half a second, at least 9 (on a GPU 5)."""
    if device.type == "cpu":
        found: list[float] = []
        call()
        while len(found) < 9 or (sum(found) < SECONDS_A_ROW * 1e3 and len(found) < 100):
            began = time.perf_counter()
            call()
            found.append((time.perf_counter() - began) * 1e3)
        return sorted(found)
    flush = torch.empty(128 * 2**20, dtype=torch.int8, device=device)
    found = _event_times(call, flush, 3)
    repeats = max(5, min(100, int(SECONDS_A_ROW * 1e3 / (max(found) + 0.2))))
    return sorted(_event_times(call, flush, repeats))


def _event_times(call: Callable[[], object], flush: Tensor, repeats: int) -> list[float]:
    events = [tuple(torch.Event("cuda", enable_timing=True) for _ in range(2)) for _ in range(repeats)]
    for begin, end in events:
        flush.zero_()
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in events]


def peak_mib(call: Callable[[], object], device: torch.device) -> float | None:
    """MiB allocated by a call above what was there before, its results included; None on a CPU."""
    if device.type == "cpu":
        return None
    call()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = call()
    torch.cuda.synchronize()
    del result
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def measure(case: Case, device: torch.device) -> BenchRow:
    """One row; a provider that cannot run here is `skipped`, `oom` or `failed`."""
    found = versions()
    row = BenchRow(
        study="bench_operator",
        run_id="",
        status="ok",
        task="",
        data_fingerprint="",
        seed=SEED,
        device=device_name(device.type),
        dtype="bf16" if device.type == "cuda" else "fp32",
        impl=case.provider.removeprefix("zeta_") if case.is_zeta else "",
        python=found.python,
        torch=found.torch,
        triton=found.triton,
        commit=found.commit,
        wall_s=None,
        peak_mib=None,
        provider=case.provider,
        mode=case.mode,
        seq_len=case.seq_len,
        batch=case.batch,
        heads=case.heads,
        d_k=case.d_k if case.is_zeta else case.d_v,
        d_v=case.d_v,
        top_k=case.top_k if case.is_zeta else None,
        num_chunks=case.num_chunks if case.is_zeta else None,
        score="cauchy" if case.is_zeta else None,
        history_mean=True if case.is_zeta else None,
        causal=True,
        points=case.points,
        timing=case.timing,
        time_ms=None,
        time_ms_p20=None,
        time_ms_p80=None,
        repeats=0,
    )
    settings = {name: str(value) for name, value in vars(case).items()}
    row = replace(row, run_id=run_id("bench", {**settings, "device": row.device, "dtype": row.dtype}, ""))
    began = time.perf_counter()
    try:
        call = call_of(case, device)
        peak = peak_mib(call, device)
        times = times_ms(captured(call) if case.timing == "graph" else call, device)
    except torch.OutOfMemoryError:
        return replace(row, status="oom")
    except RuntimeError as error:
        print(f"{case.provider}: {str(error).splitlines()[0]}")
        return replace(row, status="skipped")
    return replace(
        row,
        wall_s=round(time.perf_counter() - began, 2),
        peak_mib=peak,
        time_ms=times[len(times) // 2],
        time_ms_p20=times[len(times) // 5],
        time_ms_p80=times[len(times) * 4 // 5],
        repeats=len(times),
    )


def opponents(seq_len: int, device: torch.device) -> tuple[str, ...]:
    """The dense backends timed at a length: all up to 65,536 tokens, then the fastest until it takes a second."""
    if device.type == "cpu":
        return ("sdpa_flash",)
    return tuple(BACKENDS) if seq_len <= 65_536 else ("sdpa_cudnn",) if seq_len <= 262_144 else ()


def cases(lengths: Sequence[int], device: torch.device) -> Iterator[Case]:
    """The table of results/README.md for these lengths."""
    gpu = device.type == "cuda"
    timings: tuple[Timing, ...] = ("eager", "graph") if gpu else ("eager",)
    modes: tuple[Mode, ...] = ("forward", "forward_backward")
    for seq_len in lengths:
        for mode in modes:
            for timing in timings:
                zeta = Case("zeta_triton" if gpu else "zeta_reference", mode, seq_len, timing=timing)
                yield zeta
                if gpu and seq_len <= 4096:
                    yield replace(zeta, num_chunks=4)
                for provider in opponents(seq_len, device):
                    yield Case(provider, mode, seq_len, timing=timing)
    if gpu:
        for kind in POINTS[1:]:
            yield Case("zeta_triton", "forward_backward", 65_536, points=kind, timing="graph")
        for provider in ("zeta_triton", "zeta_reference"):
            yield Case(provider, "forward_backward", 128, batch=256, heads=2, top_k=16)


def main() -> None:
    """Measure all cases and write the rows as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seq", type=int, nargs="+", help="lengths (default: 8192 on a CPU, 1,024 to 1,048,576 on a GPU)"
    )
    parser.add_argument("--out", type=Path, default=Path("out"), help="where results/ is (default: out)")
    given = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    lengths = given.seq or ([2**n for n in (10, 11, 12, 13, 14, 15, 16, 18, 20)] if device.type == "cuda" else [8192])
    for case in cases(lengths, device):
        row = measure(case, device)
        append_rows(given.out / "results" / "bench_operator.csv", [row])
        took = f"{row.time_ms:10.3f} ms" if row.time_ms is not None else f"{row.status:>13}"
        space = "" if row.peak_mib is None else f" {row.peak_mib:8.1f} MiB"
        chunks = f" C {row.num_chunks}" if row.num_chunks else ""
        print(
            f"{row.seq_len:8} {row.mode:16} {row.timing:5} {row.provider:14} {row.points}{chunks} {took}{space}",
            flush=True,
        )


if __name__ == "__main__":
    main()

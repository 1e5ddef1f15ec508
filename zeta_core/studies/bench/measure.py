"""One row: checked against its definition, then timed; what a child process runs."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import psutil
import torch
from torch import Tensor

from zeta_core.records import Status

from ..train_failures import out_of_memory
from .case import Mode, Shape, Timing
from .providers import Problem, Provider
from .timing import captured, profiled_peak, quantile, timed_with_memory, times_ms

DRAWS = 8
"""Weightings of the output whose gradients are checked: one alone may nearly cancel where an input is one number."""
LIMITS = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 2e-2}
"""Relative errors allowed in the check: rounding of inputs' products and of weights in that type."""
LONG_CALL_S = 20.0
"""A first call that takes longer is the only one."""
LONGEST_REPLAY_S = 2.0
"""Of a longer call there is no graph row."""
GIB = 2**30
LARGEST_REPLAY_BYTES = 32 * GIB
"""Nor of one that takes more: a graph's memory is its own."""


@dataclass(frozen=True)
class Request:
    """What is asked for: one provider at one shape. budget_s: what the repeats of its row may take."""

    provider: Provider
    shape: Shape
    mode: Mode
    timing: Timing
    budget_s: float


@dataclass(frozen=True)
class Measurement:
    """What came of it. reason: why there is no time, or what is odd about it."""

    status: Status
    reason: str = ""
    backend: str = ""
    time_ms: float | None = None
    time_ms_p20: float | None = None
    time_ms_p80: float | None = None
    repeats: int = 0
    peak_mib: float | None = None
    wall_s: float | None = None


@dataclass(frozen=True)
class FirstCall:
    """An eager call: its time, what it allocated above its inputs and the output's gradient (None: not measured),
    and whether it took so long that it is the only one."""

    ms: float
    peak_bytes: int | None
    only: bool = False


class Bench:
    """Measures requests in this process; remembers what was checked, and what eager calls took."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.checked: dict[tuple[Provider, Shape, Mode], str | None] = {}
        self.first_calls: dict[tuple[Provider, Shape, Mode], FirstCall] = {}

    def run(self, request: Request) -> Measurement:
        """One row's figures; running out of memory and every error are figures too."""
        began = time.perf_counter()
        backend = request.provider.backend(self.device)
        if reason := self.reason_to_skip(request):
            return Measurement("skipped", reason, backend)
        try:
            found = self.measured(request)
        except Exception as error:
            status: Status = "oom" if out_of_memory(error) else "failed"
            found = Measurement(status, f"{type(error).__name__}: {in_a_line(error)}")
        finally:
            self.release(request)
        return replace(found, backend=backend, wall_s=round(time.perf_counter() - began, 2))

    def release(self, request: Request) -> None:
        """Give back a graph's memory, which nothing else may use, and the rest where it is most of the GPU's.

        Otherwise what was taken stays for the next row: taking gigabytes anew can last seconds."""
        if self.device.type == "cuda":
            gc.collect()  # a captured graph holds its memory until it is collected
            total = torch.cuda.get_device_properties(self.device).total_memory
            if request.timing == "graph" or torch.cuda.memory_reserved() > total / 2:
                torch.cuda.empty_cache()

    def reason_to_skip(self, request: Request) -> str | None:
        """Why it cannot run here, or None."""
        provider, shape = request.provider, request.shape
        if reason := provider.missing(shape, self.device, request.mode == "forward_backward"):
            return reason
        if request.timing == "graph":
            if self.device.type != "cuda":
                return "CUDA graphs need a CUDA GPU"
            if reason := provider.uncapturable(self.device):
                return f"cannot be replayed from a CUDA graph: {reason}"
        need, free = provider.needs_bytes(shape, request.mode == "forward_backward"), free_bytes(self.device)
        return f"needs {need / GIB:.1f} GiB, {free / GIB:.1f} are free" if need > free else None

    def measured(self, request: Request) -> Measurement:
        """Times and memory. Raises: whatever the provider raises."""
        small = request.provider.slice_of(request.shape)
        key = (request.provider, small, request.mode)
        if key not in self.checked:
            self.checked[key] = self.difference(*key)
        if wrong := self.checked[key]:
            return Measurement("failed", wrong)
        call = call_of(request.provider, request.shape, request.mode, self.device)
        whole = (request.provider, request.shape, request.mode)
        if whole not in self.first_calls:
            self.first_calls[whole] = self.first_call(call, request.provider.compiles)
        first = self.first_calls[whole]
        peak_mib = None if first.peak_bytes is None else first.peak_bytes / 2**20
        if request.timing == "graph" and first.ms > LONGEST_REPLAY_S * 1e3:
            return Measurement("skipped", f"an eager call takes {first.ms / 1e3:.0f} s, and launches no share of it")
        if request.timing == "graph" and first.peak_bytes is not None and first.peak_bytes > LARGEST_REPLAY_BYTES:
            return Measurement(
                "skipped", f"a graph would hold {first.peak_bytes / GIB:.0f} GiB besides those of eager calls"
            )
        if first.only or (request.timing == "eager" and first.ms > request.budget_s * 1e3):
            note = f"the first call, {first.ms / 1e3:.0f} s, is the only one" if first.only else ""
            return Measurement("ok", note, "", first.ms, first.ms, first.ms, 1, peak_mib)
        times = times_ms(captured(call) if request.timing == "graph" else call, self.device, request.budget_s)
        p50, p20, p80 = (quantile(times, share) for share in (0.5, 0.2, 0.8))
        return Measurement("ok", "", "", p50, p20, p80, len(times), peak_mib)

    def first_call(self, call: Callable[[], object], compiles: bool) -> FirstCall:
        """The eager calls that every shape begins with: compiling, warming up, and one that is measured."""
        if compiles:
            call()
        took, peak = timed_with_memory(call, self.device)
        if took > LONG_CALL_S * 1e3:
            return FirstCall(took, peak, only=True)
        took, peak = timed_with_memory(call, self.device)
        return FirstCall(took, profiled_peak(call) if peak is None else peak)

    def difference(self, provider: Provider, shape: Shape, mode: Mode) -> str | None:
        """What is wrong with a provider's output or gradients beside its definition's in float64; None if nothing."""
        problem = problem_of(provider, shape, self.device)
        wide = [tensor.detach().double().cpu() for tensor in problem.inputs]
        draws = DRAWS if mode == "forward_backward" else 0
        found = results(problem.inputs, lambda *_: problem.forward(), draws)
        exact = results(wide, problem.definition, draws)
        names = ["output", *(f"gradient of input {number}" for number in range(len(wide)))]
        for name, value, right in zip(names, found, exact, strict=False):
            error, limit = float((value - right).norm() / right.norm().clamp(min=1e-30)), LIMITS[shape.dtype]
            if not error <= limit:
                return f"{name} is off its definition by {error:.1e} in {shape.dtype}, {limit:.0e} is allowed"
        return None


def problem_of(provider: Provider, shape: Shape, device: torch.device) -> Problem:
    """The provider at a shape, its inputs from the shape's seed."""
    torch.manual_seed(shape.seed)
    return provider.build(shape, device)


def call_of(provider: Provider, shape: Shape, mode: Mode, device: torch.device) -> Callable[[], object]:
    """What is timed: the forward pass without gradients, or forward and backward for all inputs."""
    problem = problem_of(provider, shape, device)
    if mode == "forward":

        def forward() -> Tensor:
            with torch.no_grad():
                return problem.forward()

        return forward
    gradient = torch.randn_like(problem.like_out)
    for tensor in problem.inputs:
        tensor.requires_grad_()
    return lambda: torch.autograd.grad(problem.forward(), problem.inputs, gradient)


def results(inputs: list[Tensor], forward: Callable[..., Tensor], draws: int) -> list[Tensor]:
    """The output, and the inputs' gradients of `draws` weighted sums of it side by side, in float64 on the CPU."""
    for tensor in inputs:
        tensor.requires_grad_(draws > 0)
    out, gradients = forward(*inputs), []
    generator = torch.Generator().manual_seed(1)
    for draw in range(draws):
        weight = torch.randn(out.shape, generator=generator).to(out)
        gradients.append(torch.autograd.grad(forward(*inputs) if draw else out, inputs, weight))
    return [tensor.detach().double().cpu() for tensor in (out, *map(torch.stack, zip(*gradients, strict=True)))]


def free_bytes(device: torch.device) -> int:
    """Memory that a process may still take on a device."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info()
        return int(free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated())
    return int(psutil.virtual_memory().available)


def in_a_line(error: BaseException) -> str:
    """An error's message: its first line and, where a compiler says what is wrong at the end, its last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    return (lines[0] if len(lines) == 1 else f"{lines[0]} ... {lines[-1]}")[:300]

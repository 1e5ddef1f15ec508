"""A child process that measures, so that no crash, hang or lack of memory stops the bench."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path

import psutil
import torch

from .case import Mode, Shape
from .measure import Bench, Measurement, Request
from .providers import Provider

DISCARDED = ("failed", "oom")
"""After these a process may hold broken state or memory; the next request gets a new one."""
ONE_CALL_S = 1e-9
"""A budget that one call exceeds."""


class Worker:
    """Answers requests one by one in a process of its own, which is started when it is needed.

    log: where the process's own output goes."""

    def __init__(self, device: torch.device, log: Path) -> None:
        self.device, self.log = device, log
        self.context = _context()
        self.process: multiprocessing.process.BaseProcess | None = None
        self.pipe: Connection | None = None

    def measure(self, request: Request, timeout_s: float) -> Measurement:
        """What a request came to; `timeout` if there is no answer in time, `killed` if the process ended."""
        if self.process is None:
            self._start()
        assert self.process is not None and self.pipe is not None
        try:
            self.pipe.send(request)
            if not self.pipe.poll(timeout_s):
                self.close(wait_s=0)
                return Measurement("timeout", f"no result after {timeout_s:.0f} s")
            found: Measurement = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(5)
            reason = f"its process ended: {_ending(self.process.exitcode)} (log: {self.log})"
            self.close()
            return Measurement("killed", reason)
        if found.status in DISCARDED:
            self.close()
        return found

    def close(self, wait_s: float = 10.0) -> None:
        """End the process: by itself if it does so in time, else by force."""
        if self.pipe is not None:
            self.pipe.close()
            self.pipe = None
        if self.process is not None:
            self.process.join(wait_s)
            self.process.kill()
            self.process.join()
            self.process = None

    def _start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        ours, theirs = self.context.Pipe()
        self.process = self.context.Process(target=answer, args=(theirs, str(self.device), self.log), daemon=True)
        self.process.start()
        theirs.close()
        self.pipe = ours


def answer(pipe: Connection, device: str, log: Path) -> None:
    """The process: one measurement for each request, until the pipe closes."""
    bench = _begin(device, log)
    with suppress(EOFError, BrokenPipeError):
        while True:
            pipe.send(bench.run(pipe.recv()))


def compile_ahead(requests: Iterable[Request], device: torch.device, log: Path, timeout_s: float) -> int:
    """Compile what rows need before anything is timed: a process for each provider, mode and shape but for lengths.

    Compilers keep kernels on disk, where the processes that time find them; nothing else comes of it.
    Returns: the number of processes; 0 if there is nothing to do side by side."""
    wanted: dict[tuple[Provider, Mode, Shape], dict[Request, None]] = {}
    for request in requests:
        if request.provider.compiles:
            once = replace(request, timing="eager", budget_s=ONE_CALL_S)
            kernels = (once.provider, once.mode, replace(once.shape, seq_len=0, points="random"))
            wanted.setdefault(kernels, {})[once] = None
    if len(wanted) < 2:
        return 0
    log.parent.mkdir(parents=True, exist_ok=True)
    context, until = _context(), time.monotonic() + timeout_s
    processes = [
        context.Process(target=_call_each, args=(list(group), str(device), log), daemon=True)
        for group in wanted.values()
    ]
    try:
        for process in processes:
            process.start()
        for process in processes:
            process.join(max(0.0, until - time.monotonic()))
    finally:
        for process in processes:
            process.kill()
            process.join()
    return len(processes)


def _call_each(requests: list[Request], device: str, log: Path) -> None:
    bench = _begin(device, log)
    for request in requests:
        bench.run(request)


def _context() -> ForkServerContext:
    """The fork server imports torch once; it never touches the GPU, so its children may."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _begin(device: str, log: Path) -> Bench:
    """What every child process starts with."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    # One small kernel is compiled at a time: a pool of compilers would take longer to start than to work.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    where = torch.device(device)
    if where.type == "cpu":
        _limit_memory()
    else:
        torch.set_num_threads(1)  # definitions are computed on small slices, where threads cost more than they give
        if where.index is not None:
            torch.cuda.set_device(where)
    return Bench(where)


def _limit_memory() -> None:
    """Let an allocation that the machine cannot hold fail here, before the system ends some process for it."""
    own = psutil.Process().memory_info().vms
    with suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (own + psutil.virtual_memory().available, hard))


def _ending(code: int | None) -> str:
    if code is None:
        return "it does not answer"
    if code < 0:
        with suppress(ValueError):
            return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"

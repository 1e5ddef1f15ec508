"""A small shape, and providers that misbehave; in a module, so that a child process can import it."""

import os
import signal
import time
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch

from zeta_core.studies.bench.case import Shape, vectors
from zeta_core.studies.bench.measure import Request
from zeta_core.studies.bench.providers import Problem, Provider

SHAPE: dict[str, Any] = {
    "seq_len": 48, "batch": 1, "heads": 2, "d_k": 3, "d_v": 16, "top_k": 8, "num_chunks": 4, "score": "cauchy",
    "history_mean": True, "causal": True, "points": "random", "dtype": "fp32", "seed": 0,
}  # fmt: skip


def shape(**changes: Any) -> Shape:
    return Shape(**{**SHAPE, **changes})


def request(provider: Provider, mode: Any = "forward", timing: Any = "eager", **changes: Any) -> Request:
    return Request(provider, shape(**changes), mode, timing, budget_s=0.01)


class Doubling(Provider):
    """Gives twice its input, or does something else at 100 tokens and more."""

    kind: Literal["doubling"] = "doubling"
    at_length: Literal["right", "wrong", "raise", "out of memory", "full", "hang", "die"] = "right"
    missing_here: ClassVar[str | None] = None

    def missing(self, shape: Shape, device: torch.device, backward: bool) -> str | None:
        return self.missing_here

    def needs_bytes(self, shape: Shape, backward: bool) -> int:
        return 2**60 if shape.top_k == 1000 else 0

    def build(self, shape: Shape, device: torch.device) -> Problem:
        (x,) = vectors(shape, device, 1)

        def forward() -> torch.Tensor:
            if self.at_length == "wrong":
                return 2.1 * x
            if shape.seq_len >= 100 or self.at_length == "right":
                misbehave(self.at_length)
            return 2 * x

        return Problem([x], x, forward, lambda x: 2 * x)


class Compiling(Doubling):
    """Doubling that compiles: it leaves a file where it was called at its full length."""

    kind: Literal["compiling"] = "compiling"  # type: ignore[assignment]
    folder: str

    @property
    def compiles(self) -> bool:
        return True

    def build(self, shape: Shape, device: torch.device) -> Problem:
        (Path(self.folder) / f"{shape.seq_len}_{os.getpid()}").touch()
        return super().build(shape, device)


def misbehave(how: str) -> None:
    if how == "raise":
        raise RuntimeError("a long\nstory")
    if how == "out of memory":
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")
    if how == "full":
        torch.empty(2**55)
    if how == "hang":
        time.sleep(60)
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)

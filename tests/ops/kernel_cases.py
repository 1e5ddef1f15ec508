"""Kernels against the reference: the settings, and how one is judged. For the interpreter and for a GPU alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from zeta_core.ops import zeta_attention, zeta_plan

PLAN_OPTIONS = ("num_chunks", "chunk_size", "top_k", "curves", "causal", "refine")
MULTIPLE = 4
"""A kernel's error, relative to the norm, may be so many times the reference's own largest one on the same values.

Largest, since the reference keeps gradients of q and k in float32 where the kernels go through half-precision
outputs; the error against float64 is then of the size of the rounding of values."""
FLOOR = {torch.float32: 2e-6, torch.float16: 2e-4, torch.bfloat16: 1e-3}
"""Added to that: the reference is exact where a sum has one term."""


@dataclass(frozen=True)
class KernelCase:
    """One setting of the operator."""

    name: str
    seq_len: int = 50
    batch: int = 1
    heads: int = 2
    d_k: int = 3
    d_v: int = 16
    points: str = "random"
    dtype: torch.dtype = torch.float32
    padded: bool = False
    gamma: float = 0.2
    multiple: int = MULTIPLE
    of_gamma: bool = True
    """False where all weights of a row are equal, so that the gradient of gamma is what rounding leaves of 0."""
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def points(kind: str, shape: tuple[int, ...], device: torch.device, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Coordinates of queries and keys [batch, heads, seq_len, d]."""
    generator = torch.Generator(device).manual_seed(seed)
    q, k = torch.rand((2, *shape), generator=generator, device=device).unbind()
    if kind == "distinct":
        some = torch.rand((64, shape[-1]), generator=generator, device=device)
        q, k = some[torch.randint(0, 64, (2, *shape[:3]), generator=generator, device=device)].unbind()
    elif kind == "equal":
        q, k = torch.full_like(q, 0.31), torch.full_like(k, 0.3)
    elif kind == "clusters":
        side = torch.rand(shape[:3], generator=generator, device=device)[..., None]
        q = torch.where(side < 0.5, 0.1, 0.9) + 0.01 * q
    elif kind == "beyond":
        q, k = 0.9 + 0.1 * q, 0.5 * k
    elif kind == "drifting":
        place = torch.arange(shape[2], device=device)[:, None] / shape[2]
        q, k = 0.9 * place + 0.1 * q, 0.9 * place + 0.1 * k
    return q.contiguous(), k.contiguous()


@contextmanager
def poisoned() -> Iterator[None]:
    """New memory holds NaN, or the largest integer."""
    before = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.utils.deterministic.fill_uninitialized_memory = before[1]


def judge(case: KernelCase, device: torch.device, *, twice: bool = True) -> None:
    """Assert that the kernels select what the reference does and agree with float64; twice gives the same bits."""
    shape = (case.batch, case.heads, case.seq_len)
    q, k = points(case.points, (*shape, case.d_k), device)
    generator = torch.Generator(device).manual_seed(2)
    v = torch.randn((*shape, case.d_v), generator=generator, device=device).to(case.dtype)
    gamma = torch.full((case.heads,), case.gamma, device=device)
    mask = torch.rand((case.batch, case.seq_len), generator=generator, device=device) < 0.3 if case.padded else None
    options = {"top_k": 8, **case.options, "key_padding_mask": mask}
    of_plan = {name: options[name] for name in (*PLAN_OPTIONS, "key_padding_mask") if name in options}
    wanted = zeta_plan(q, k, **of_plan, impl="reference").indices()
    with poisoned():
        found = zeta_plan(q, k, **of_plan, impl="triton").indices()
    assert torch.equal(wanted, found), "the kernels select other keys"

    def run(impl: str, upstream: Tensor, dtype: torch.dtype | None = None) -> list[Tensor]:
        leaves = [t.to(dtype or t.dtype).detach().clone().requires_grad_() for t in (q, k, v, gamma)]
        codes = {} if dtype is None else {"code_q": q, "code_k": k}
        out = zeta_attention(*leaves[:3], gamma=leaves[3], **options, **codes, impl=impl)
        out.backward(upstream.to(out.dtype))
        return [out.detach(), *(leaf.grad for leaf in leaves)]

    # Along a change of gamma, so that its gradient is not what is left of a sum of random signs.
    ahead = {**options, "gamma": gamma.double() * 1.2, "code_q": q, "code_k": k, "impl": "reference"}
    moved = zeta_attention(q.double(), k.double(), v.double(), **ahead)
    here = zeta_attention(q.double(), k.double(), v.double(), **{**ahead, "gamma": gamma.double()})
    drift = moved - here
    upstream = drift / drift.std().clamp(min=1e-12) if case.seq_len > 1 else drift
    upstream = (upstream + 0.3 * torch.randn(v.shape, generator=generator, device=device)).to(case.dtype)

    exact = run("reference", upstream, torch.float64)
    own = run("reference", upstream)
    with poisoned():
        once = run("triton", upstream)
        again = run("triton", upstream) if twice else once
    for first, second in zip(once, again, strict=True):
        assert torch.equal(first, second), "two runs differ"
    names = ("out", "dq", "dk", "dv", "dgamma")
    scale = max(distance(a, b) for a, b in zip(own, exact, strict=True))
    allowed = case.multiple * scale + FLOOR[case.dtype]
    errors = {name: distance(a, b) for name, a, b in zip(names, once, exact, strict=True)}
    errors["dgamma"] *= case.of_gamma
    assert all(error <= allowed for error in errors.values()), f"{errors} above {allowed}; the reference's: {scale}"


def distance(found: Tensor, exact: Tensor) -> float:
    """The error relative to the norm; gradients that vanish (one candidate) are measured absolutely."""
    assert found.shape == exact.shape
    error, norm = (found.double() - exact).norm(), exact.norm()
    return float(error / norm) if norm > 1e-7 * exact.numel() ** 0.5 else float(error / exact.numel() ** 0.5)

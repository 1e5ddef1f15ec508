"""Kernels against the reference: the settings, and how one is judged. For the interpreter and for a GPU alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from zeta_core.ops import zeta_attention, zeta_plan
from zeta_core.ops.attend.scores import closeness, directions, is_exponential, strength

PLAN_OPTIONS = ("num_chunks", "chunk_size", "top_k", "curves", "causal", "refine")
MULTIPLE = 4
"""A kernel's error, relative to the norm, may be so many times the reference's own largest one on the same values.

Largest, since the reference keeps gradients of q and k in float32 where the kernels go through half-precision
outputs; the error against float64 is then of the size of the rounding of values."""
FLOOR = {torch.float32: 2e-6, torch.float16: 2e-4, torch.bfloat16: 1e-3}
"""Added to that: the reference is exact where a sum has one term."""
POWERS = {"cauchy": 2, "inverse_euclidean": 1}
"""Of gamma, in what scores.strength has as a factor."""


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
    # Where all weights of a row are equal, terms of the gradient of gamma cancel: rounding is of their size.
    sizes = (0.0, 0.0, 0.0, 0.0, size_of_gamma_terms(exact[0], upstream, q, k, v, gamma, found, options))
    scale = max(distance(a, b, size) for a, b, size in zip(own, exact, sizes, strict=True))
    allowed = case.multiple * scale + FLOOR[case.dtype]
    errors = {name: distance(a, b, size) for name, a, b, size in zip(names, once, exact, sizes, strict=True)}
    assert all(error <= allowed for error in errors.values()), f"{errors} above {allowed}; the reference's: {scale}"


def distance(found: Tensor, exact: Tensor, terms: float = 0.0) -> float:
    """The error relative to the norm, or to that of the terms that were summed if it is larger.

    Gradients that vanish (one candidate) are measured absolutely."""
    assert found.shape == exact.shape
    error, norm = (found.double() - exact).norm(), max(float(exact.norm()), terms)
    return float(error / norm) if norm > 1e-7 * exact.numel() ** 0.5 else float(error / exact.numel() ** 0.5)


def size_of_gamma_terms(
    out: Tensor,
    upstream: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gamma: Tensor,
    ids: Tensor,
    options: dict[str, Any],
) -> float:
    """The root of the sum of squares of what the keys of all windows add to the gradient of gamma, in float64.

    By the paper's weights: `strength` has a factor of gamma^2 or gamma more, whose parts cancel in every row."""
    score, total = options.get("score", "cauchy"), 0.0
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            chosen = ids[b, h]
            keys, values = k[b, h].double()[chosen], v[b, h].double()[chosen]
            of_pairs = gamma[h].double().expand(chosen.shape).clone().requires_grad_()
            close = closeness(*(directions(x.double(), score) for x in (q[b, h, :, None], keys)), score)
            weight = strength(close, of_pairs, score)
            weight = weight if is_exponential(score) else weight.log() - POWERS[score] * of_pairs.log()
            slope = torch.autograd.grad(weight.sum(), of_pairs)[0]
            share = weight.detach().masked_fill(chosen < 0, float("-inf")).softmax(-1).nan_to_num()
            grad = upstream[b, h].double()
            along = torch.einsum("nkd,nd->nk", values, grad) - (out[b, h].double() * grad).sum(-1, keepdim=True)
            total += float((share * along * slope).square().sum())
    return total**0.5

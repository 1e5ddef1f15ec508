"""Inputs for the operator's tests: made from a seed, and drawn by hypothesis over every option."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from zeta_core.ops import zeta_attention

FEW = settings(max_examples=60, deadline=None, derandomize=True, database=None)
GRID = 4096
SCORES = ("cauchy", "negative_euclidean", "inverse_euclidean", "normalized_dot")
POINTS = ("spread", "tied", "edges", "outside")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tiny tensors in one thread each: test processes that share the cores would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def points(kind: str, shape: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Coordinates: spread over [0, 1]; from three distinct ones; on borders of cells; partly outside [0, 1].

    `centres` are those at the centres of cells, few enough to tie, for finite differences."""
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
    if kind == "tied":
        uniform = (uniform * 3).floor() / 3 + 0.1
    elif kind == "edges":
        uniform = (uniform * (GRID + 1)).floor() / GRID
    elif kind == "outside":
        uniform = uniform * 2 - 0.5
    elif kind == "centres":
        uniform = ((uniform * 8).floor() * 512 + 0.5) / GRID
    return uniform.to(dtype)


def numbers(shape: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normal random numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@dataclass
class Case:
    """Tensors and options of one call; `plan_options` are those that zeta_plan takes."""

    q: Tensor
    k: Tensor
    v: Tensor
    gamma: float | Tensor
    plan_options: dict[str, Any] = field(default_factory=dict)
    other_options: dict[str, Any] = field(default_factory=dict)

    @property
    def codes(self) -> tuple[Tensor, Tensor]:
        """What the codes are made of."""
        return self.other_options.get("code_q", self.q), self.other_options.get("code_k", self.k)

    @property
    def options(self) -> dict[str, Any]:
        return {"gamma": self.gamma, **self.plan_options, **self.other_options}


def make(
    seed: int = 0,
    *,
    batch: int = 2,
    heads: int = 2,
    seq_len: int = 12,
    d_k: int = 3,
    d_v: int = 4,
    kind: str = "spread",
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v; tied coordinates are thirds, so that queries also stand on keys."""
    shape = (batch, heads, seq_len, d_k)
    q, k = points(kind, shape, seed, dtype), points(kind, shape, seed + 1, dtype)
    return q, k, numbers((batch, heads, seq_len, d_v), seed + 2, dtype)


def padding(batch: int, seq_len: int, seed: int) -> Tensor:
    """A mask with about a third of the keys ignored, and in the last sequence of several all of them."""
    mask = torch.rand(batch, seq_len, generator=torch.Generator().manual_seed(seed)) < 0.35
    if batch > 1:
        mask[-1] = True
    return mask


def at_centres(seq_len: int = 7, d_v: int = 2, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """q, k, v with tied codes, keys that many queries share, queries on keys, and d_V other than d_K."""
    q, k = (points("centres", (2, 2, seq_len, 3), seed, dtype) for seed in (1, 2))
    k[:, :, 2] = k[:, :, 0]
    q[:, :, -1] = k[:, :, 0]
    return [t.requires_grad_() for t in (q, k, numbers((2, 2, seq_len, d_v), 3, dtype))]


def gamma_of(kind: str, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor([0.3, 0.8] if kind == "per head" else 0.4, dtype=dtype, requires_grad=True)


def gradients(inputs: list[Tensor], gamma: Tensor, **options: Any) -> tuple[Tensor, ...]:
    """The output of zeta_attention, and the gradients of q, k, v and gamma of a sum with varied weights."""
    out = zeta_attention(*inputs, gamma=gamma, **options)
    weight = torch.arange(out.numel()).cos().view(out.shape)
    return out.detach(), *torch.autograd.grad((out * weight).sum(), (*inputs, gamma))


@st.composite
def plan_cases(draw: st.DrawFn) -> Case:
    """Shapes, points and the options of the search."""
    batch, heads = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    seq_len = draw(st.integers(1, 14))
    d_k = draw(st.sampled_from([1, 2, 3, 3, 3, 4, 5, 6, 7, 16, 128]))
    curves = draw(st.sampled_from([1, 3, 6])) if d_k == 3 else 1
    seed = draw(st.integers(0, 10**6))
    q, k, v = make(
        seed,
        batch=batch,
        heads=heads,
        seq_len=seq_len,
        d_k=d_k,
        d_v=draw(st.integers(1, 3)),
        kind=draw(st.sampled_from(POINTS)),
    )
    options: dict[str, Any] = {
        "top_k": curves * draw(st.integers(1, 5)),
        "curves": curves,
        "refine": draw(st.sampled_from([1, 1, 2, 3])),
        "causal": draw(st.sampled_from([True, True, False])),
    }
    if draw(st.booleans()):
        options["chunk_size"] = draw(st.integers(1, seq_len + 2))
    else:
        options["num_chunks"] = draw(st.integers(1, seq_len + 3))
    if draw(st.booleans()):
        options["key_padding_mask"] = padding(batch, seq_len, seed + 3)
    return Case(q, k, v, 0.5, plan_options=options)


@st.composite
def attention_cases(draw: st.DrawFn) -> Case:
    """A plan case with the options of the weighted mean, and coordinates of their own for the codes."""
    case = draw(plan_cases())
    seed = draw(st.integers(0, 10**6))
    heads = case.q.shape[1]
    case.gamma = draw(
        st.sampled_from([0.05, 1.5, torch.tensor(0.3), torch.linspace(0.1, 2, heads, dtype=torch.float64)])
    )
    case.other_options = {
        "score": draw(st.sampled_from(SCORES)),
        "history_mean": draw(st.booleans()),
        "local_window": draw(st.sampled_from([0, 0, 1, 2, 5, 20])),
    }
    if draw(st.booleans()):
        case.other_options |= {"code_q": case.q, "code_k": case.k}
        real = (*case.q.shape[:3], draw(st.integers(1, 4)))
        case.q, case.k = 3 * numbers(real, seed), 3 * numbers(real, seed + 1)
    return case

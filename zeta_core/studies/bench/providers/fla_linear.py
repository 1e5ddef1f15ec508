"""Linear attention of the flash-linear-attention package."""

from __future__ import annotations

import importlib.util
from typing import Literal

import torch
from torch import Tensor

from zeta_core.provenance import installed

from ..case import Shape, vectors
from .provider import Problem, Provider, past


class FlaLinearProvider(Provider):
    """Causal linear attention (no feature map, not normalised) by fla's chunked kernel."""

    kind: Literal["fla_linear"] = "fla_linear"

    @property
    def compiles(self) -> bool:
        """Triton kernels, tuned at each shape."""
        return True

    def missing(self, shape: Shape, device: torch.device, backward: bool) -> str | None:
        """fla's kernels need a GPU and the package; they are causal."""
        return missing_fla(device) or (None if shape.causal else "is causal; leave --bidirectional out")

    def backend(self, device: torch.device) -> str:
        """fla's version."""
        return fla_version()

    def build(self, shape: Shape, device: torch.device) -> Problem:
        """Heads of width d_V, for queries and keys too; fla's layout is [batch, seq_len, heads, d]."""
        from fla.ops.linear_attn import chunk_linear_attn

        q, k, v = (t.transpose(1, 2).contiguous() for t in vectors(shape, device, 3))

        def forward() -> Tensor:
            out: Tensor = chunk_linear_attn(q, k, v, normalize=False)[0]
            return out

        def definition(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            weight = (q @ k.mT) * q.shape[-1] ** -0.5 * past(q.shape[2])
            out: Tensor = (weight @ v).transpose(1, 2)
            return out

        return Problem([q, k, v], v, forward, definition)


def missing_fla(device: torch.device) -> str | None:
    """Why fla's kernels cannot run on a device, or None."""
    if device.type != "cuda":
        return "its kernels need a CUDA GPU"
    if importlib.util.find_spec("fla") is None:
        return "the package flash-linear-attention is not installed; pip install 'zeta-attention[baselines]'"
    return None


def fla_version() -> str:
    """The package that holds fla's kernels, and its version."""
    return f"fla-core {installed('fla-core') or installed('flash-linear-attention') or '(unknown)'}"

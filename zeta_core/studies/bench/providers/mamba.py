"""Mamba's mixer as transformers has it: projections, convolution and selective scan."""

from __future__ import annotations

import importlib.util
from typing import Any, Literal

import torch
from torch import Tensor

from zeta_core.provenance import installed

from ..case import Shape
from .provider import Problem, Provider

FAST = ("mamba_ssm", "causal_conv1d")
"""Packages whose kernels transformers takes where they are installed."""
LONGEST_LOOP = 8192
"""Tokens: beyond, the plain loop tells nothing that is not known from there, and takes minutes."""


class MambaProvider(Provider):
    """A whole Mamba mixer of width heads * d_V, its projections included (other rows have none)."""

    kind: Literal["mamba"] = "mamba"

    def missing(self, shape: Shape, device: torch.device, backward: bool) -> str | None:
        """transformers has it; it is causal."""
        if importlib.util.find_spec("transformers") is None:
            return "the package transformers is not installed; pip install 'zeta-attention[baselines]'"
        if not has_kernels() and shape.seq_len > LONGEST_LOOP:
            return f"without mamba_ssm it is a Python loop over tokens: timed up to {LONGEST_LOOP:,}"
        return None if shape.causal else "is causal; leave --bidirectional out"

    def uncapturable(self, device: torch.device) -> str | None:
        """transformers' plain scan is a Python loop over tokens."""
        return None if has_kernels() else "its loop over tokens would be a graph of many launches a token"

    def needs_bytes(self, shape: Shape, backward: bool) -> int:
        """The plain scan keeps its discretised inputs and states for every token, in fp32."""
        states = shape.batch * shape.seq_len * 2 * shape.heads * shape.d_v * 16 * 4
        return super().needs_bytes(shape, backward) + (0 if has_kernels() else states * (4 if backward else 2))

    def backend(self, device: torch.device) -> str:
        """transformers' version, and what scans."""
        own = (
            ", ".join(f"{name} {installed(name)}" for name in FAST)
            if has_kernels()
            else "a loop over tokens in torch"
        )
        return f"transformers {installed('transformers')}, {own}"

    def build(self, shape: Shape, device: torch.device) -> Problem:
        """Gradients for the hidden states [batch, seq_len, heads * d_V]."""
        from transformers import MambaConfig
        from transformers.models.mamba.modeling_mamba import MambaMixer

        config = MambaConfig(hidden_size=shape.heads * shape.d_v, state_size=16, use_mambapy=False)
        mixer = MambaMixer(config, layer_idx=0).to(device, shape.torch_dtype).requires_grad_(False)
        hidden = torch.randn(shape.batch, shape.seq_len, config.hidden_size, device=device, dtype=shape.torch_dtype)

        def forward() -> Tensor:
            out: Tensor = mixer(hidden)
            return out

        return Problem([hidden], hidden, forward, lambda hidden: selective_scan(mixer, hidden))


def has_kernels() -> bool:
    """Whether the packages with Mamba's kernels are installed."""
    return all(importlib.util.find_spec(name) is not None for name in FAST)


def selective_scan(mixer: Any, hidden: Tensor) -> Tensor:
    """Mamba's mixer from its recurrence h_t = exp(dt A) h_(t-1) + dt B x_t, y_t = C h_t + D x_t, gated.

    hidden: [batch, seq_len, width]. Source: Mamba, section 3."""
    parameters = {name: value.detach().to(hidden) for name, value in mixer.named_parameters()}
    x, gate = (hidden @ parameters["in_proj.weight"].T).chunk(2, dim=-1)
    taps = parameters["conv1d.weight"]
    padded = torch.nn.functional.pad(x.mT, (taps.shape[-1] - 1, 0))
    x = torch.nn.functional.conv1d(padded, taps, parameters.get("conv1d.bias"), groups=taps.shape[0]).mT
    x = torch.nn.functional.silu(x)
    sizes = [parameters["dt_proj.weight"].shape[1], *[parameters["A_log"].shape[1]] * 2]
    dt, into, out_of = (x @ parameters["x_proj.weight"].T).split(sizes, dim=-1)
    dt = torch.nn.functional.softplus(dt @ parameters["dt_proj.weight"].T + parameters["dt_proj.bias"])
    decay = -parameters["A_log"].exp()
    state, found = x.new_zeros(x.shape[0], *decay.shape), []
    for t in range(x.shape[1]):
        step = dt[:, t, :, None]
        state = (step * decay).exp() * state + step * into[:, t, None] * x[:, t, :, None]
        found.append((state * out_of[:, t, None]).sum(-1))
    y = torch.stack(found, 1) + parameters["D"] * x
    out: Tensor = (y * torch.nn.functional.silu(gate)) @ parameters["out_proj.weight"].T
    return out

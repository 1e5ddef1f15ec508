"""Mamba: a selective state space model in place of attention."""

from __future__ import annotations

import importlib.util
import math
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from zeta_core.ops.impl import Impl

from .heads import wide
from .mixer import Mixer, MixerConfig
from .scan import states_backwards, states_of

CHUNK = 64
"""Tokens whose states are held at a time; for the gradient they are computed again."""
SMALLEST_STEP, LARGEST_STEP = 1e-3, 1e-1
MambaState = tuple[Tensor, Tensor]
"""The convolution's last inputs, [batch, conv_width - 1, inner], and the states, [batch, inner, state_size]."""


class MambaConfig(MixerConfig):
    """Mamba: a selective state space model with its own convolution and gate; no heads. Causal alone.

    h_t = exp(dt_t A) h_(t-1) + dt_t B_t x_t, y_t = C_t h_t + D x_t, out = W (y_t silu(z_t)), where x is the input's
    projection after a short convolution and silu, z another projection, and dt, B, C are maps of x_t. Source: Gu and
    Dao 2023, sections 3.2, 3.4 and algorithm 2. Departs: the output's projection has a bias, as every mixer's here.
    On a GPU that has the package mamba_ssm its scan runs (impl='reference': never); else chunks of tokens, each a
    scan of logarithmic depth that is computed again for the gradient."""

    kind: Literal["mamba"] = "mamba"
    bidirectional: ClassVar[bool] = False
    state_size: PositiveInt = 16
    expand: PositiveInt = 2
    """Inner width over d_model."""
    conv_width: PositiveInt = 4

    def build(self, d_model: int, num_heads: int, *, causal: bool = True, impl: Impl = "auto") -> Mamba:
        """The mixer. Raises: OptionError if num_heads does not divide d_model, or causal is False."""
        self.check(causal=causal)
        return Mamba(d_model, num_heads, self, impl=impl)


class Mamba(Mixer):
    """Mamba's block; options as in MambaConfig, parameters named as transformers names them (out: out_proj)."""

    def __init__(self, d_model: int, num_heads: int, config: MambaConfig, *, impl: Impl = "auto") -> None:
        super().__init__(d_model, num_heads, causal=True)
        self.config, self.impl = config, impl
        inner, rank = config.expand * d_model, math.ceil(d_model / 16)
        self.sizes = [rank, config.state_size, config.state_size]
        self.in_proj = nn.Linear(d_model, 2 * inner, bias=False)
        self.conv1d = nn.Conv1d(inner, inner, config.conv_width, groups=inner)
        self.x_proj = nn.Linear(inner, sum(self.sizes), bias=False)
        self.dt_proj = nn.Linear(rank, inner)
        self.A_log = nn.Parameter(torch.arange(1.0, config.state_size + 1).log().repeat(inner, 1))
        self.D = nn.Parameter(torch.ones(inner))
        self.out = nn.Linear(inner, d_model)
        nn.init.uniform_(self.dt_proj.weight, -(rank**-0.5), rank**-0.5)
        low, high = math.log(SMALLEST_STEP), math.log(LARGEST_STEP)
        start = (torch.rand(inner) * (high - low) + low).exp()
        with torch.no_grad():  # the inverse of softplus, so that the first steps are of that size
            self.dt_proj.bias.copy_(start + (-torch.expm1(-start)).log())

    def forward(self, hidden: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """hidden: [batch, seq_len, d_model]; before the first real token it gives the bias of the output.

        A padded token counts as zero in the convolution, adds nothing to the state and leaves it as it is."""
        x, gate = self.in_proj(hidden).chunk(2, dim=-1)
        keep = None if key_padding_mask is None else (~key_padding_mask)[..., None].to(x.dtype)
        if keep is not None:
            x = x * keep
        x = self.convolved(F.pad(x, (0, 0, self.config.conv_width - 1, 0)))
        x = x if keep is None else x * keep
        dt, into, out_of = self.selection(x)
        if keep is not None:
            dt = dt * keep
        with torch.autocast(hidden.device.type, enabled=False):
            y = self.scanned(wide(x), dt, into, out_of)
        return self.out((y * F.silu(wide(gate))).to(gate.dtype))  # type: ignore[no-any-return]

    def convolved(self, padded: Tensor) -> Tensor:
        """silu of the convolution of [batch, conv_width - 1 + seq_len, inner]: [batch, seq_len, inner]."""
        width, weight = self.config.conv_width, self.conv1d.weight.to(padded.dtype)
        seq_len = padded.shape[1] - width + 1
        taps = [padded[:, tap : tap + seq_len] * weight[:, 0, tap] for tap in range(width)]
        assert self.conv1d.bias is not None
        return F.silu(sum(taps[1:], taps[0] + self.conv1d.bias.to(padded.dtype)))

    def selection(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """dt [batch, seq_len, inner], B and C [batch, seq_len, state_size], in fp32."""
        dt, into, out_of = self.x_proj(x).split(self.sizes, dim=-1)
        return F.softplus(wide(self.dt_proj(dt))), wide(into), wide(out_of)

    def scanned(self, x: Tensor, dt: Tensor, into: Tensor, out_of: Tensor) -> Tensor:
        """y of all tokens: [batch, seq_len, inner]."""
        rates = -wide(self.A_log).exp()
        if self.impl != "reference" and x.is_cuda and has_kernel() and x.dtype == torch.float32:
            return by_kernel(x, dt, rates, into, out_of, wide(self.D))
        state = x.new_zeros(x.shape[0], x.shape[2], self.config.state_size)
        given = [t.transpose(0, 1).contiguous() for t in (x, dt, into, out_of)]
        parts = []
        for start in range(0, x.shape[1], CHUNK):
            chunk = [t[start : start + CHUNK] for t in given]
            y, state = SelectiveChunk.apply(*chunk, rates, state)  # type: ignore[no-untyped-call]
            parts.append(y)
        return torch.cat(parts).transpose(0, 1) + wide(self.D) * x

    def step(self, hidden: Tensor, state: MambaState | None) -> tuple[Tensor, MambaState]:
        """One token, [batch, d_model], after a state (None: the first). Returns: the output and the next state."""
        x, gate = self.in_proj(hidden[:, None]).chunk(2, dim=-1)
        if state is None:
            inner = x.shape[-1]
            state = (
                x.new_zeros(len(x), self.config.conv_width - 1, inner),
                x.new_zeros(len(x), inner, self.config.state_size),
            )
        recent = torch.cat((state[0], x), 1)
        x = self.convolved(recent)
        dt, into, out_of = self.selection(x)
        rates = -wide(self.A_log).exp()
        h = (dt[:, 0, :, None] * rates).exp() * state[1] + (dt * wide(x))[:, 0, :, None] * into
        y = (h * out_of).sum(-1) + wide(self.D) * x[:, 0]
        return self.out((y * F.silu(wide(gate[:, 0]))).to(gate.dtype)), (recent[:, 1:], h)


class SelectiveChunk(torch.autograd.Function):
    """C_t h_t of a chunk's tokens, and the state after them; its gradient computes the states again.

    x, dt: [tokens, batch, inner]; into, out_of: [tokens, batch, state_size]; rates: [inner, state_size]; state:
    [batch, inner, state_size]. Written out, as each pass over the states is what it costs."""

    @staticmethod
    def forward(
        context: Any, x: Tensor, dt: Tensor, into: Tensor, out_of: Tensor, rates: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        """y, like x, and the last state."""
        context.save_for_backward(x, dt, into, out_of, rates, state)
        _, states = chunk_states(x, dt, into, rates, state)
        return (states @ out_of[..., None])[..., 0], states[-1].clone()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        """Of all six."""
        x, dt, into, out_of, rates, state = context.saved_tensors
        of_y, of_last = gradients
        decay, states = chunk_states(x, dt, into, rates, state)
        of_states = of_y[..., None] * out_of[:, :, None]
        of_states[-1] += of_last
        of_added = states_backwards(decay[1:], of_states)
        of_out = (of_y[:, :, None] @ states)[:, :, 0]
        of_input = (of_added @ into[..., None])[..., 0]
        of_into = ((dt * x)[:, :, None] @ of_added)[:, :, 0]
        of_state = of_added[0] * decay[0]
        of_exponent = of_added.mul_(decay)  # of dt * rates: the state before, decayed
        of_exponent[1:] *= states[:-1]
        of_exponent[0] *= state
        of_dt = (of_exponent * rates).sum(-1) + of_input * x
        of_rates = of_exponent.mul_(dt[..., None]).sum((0, 1))
        return of_input * dt, of_dt, of_into, of_out, of_rates, of_state


def chunk_states(x: Tensor, dt: Tensor, into: Tensor, rates: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """exp(dt A) and every state of a chunk: [tokens, batch, inner, state_size]."""
    decay = (dt[..., None] * rates).exp_()
    added = (dt * x)[..., None] * into[:, :, None]
    added[0] += decay[0] * state
    return decay, states_of(decay, added)


def has_kernel() -> bool:
    """Whether mamba_ssm is installed."""
    return importlib.util.find_spec("mamba_ssm") is not None


def by_kernel(x: Tensor, dt: Tensor, rates: Tensor, into: Tensor, out_of: Tensor, skip: Tensor) -> Tensor:
    """The scan by mamba_ssm, whose layout is [batch, dim, seq_len]; dt is after softplus already."""
    from mamba_ssm.ops.selective_scan_interface import selective_scan_fn

    given = [t.mT.contiguous() for t in (x, dt, into, out_of)]
    out: Tensor = selective_scan_fn(given[0], given[1], rates, given[2], given[3], skip)
    return out.mT

"""Gated linear attention: a state whose rows decay by gates of the token."""

from __future__ import annotations

import importlib.util
from typing import ClassVar, Literal

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from zeta_core.ops.impl import Impl

from .heads import wide
from .linear import in_chunks
from .mixer import Mixer, MixerConfig, merge_heads
from .scan import scan

CHUNK = 16
"""Tokens whose decays are formed pair by pair: a quotient of two products of decays would overflow."""
SEGMENT = 64
"""Chunks whose states are held at a time beside those that are kept."""


class GlaConfig(MixerConfig):
    """Gated linear attention: S_t = diag(a_t) S_(t-1) + k_t v_t^T, o_t = q_t S_t / sqrt(d_k). Causal alone.

    a_t = sigmoid(W2 W1 x_t + b)^(1 / temperature); an output is normed over its head (RMS), multiplied by
    swish(W_r x_t) and projected. Source: Yang et al. 2024, section 4.2 to 4.4, equations 3 to 8.
    On a GPU that has the package flash-linear-attention its kernel runs (impl='reference': never)."""

    kind: Literal["gla"] = "gla"
    bidirectional: ClassVar[bool] = False
    gate_rank: PositiveInt = 16
    """Width of the map to the decays, between W1 and W2."""
    temperature: PositiveFloat = 16.0
    """tau: the larger, the slower the decay at the start."""

    def build(self, d_model: int, num_heads: int, *, causal: bool = True, impl: Impl = "auto") -> Gla:
        """The mixer. Raises: OptionError if num_heads does not divide d_model, or causal is False."""
        self.check(causal=causal)
        return Gla(d_model, num_heads, self, impl=impl)


class Gla(Mixer):
    """Multi-head gated linear attention; options as in GlaConfig. Keys have half the dimensions of values."""

    def __init__(self, d_model: int, num_heads: int, config: GlaConfig, *, impl: Impl = "auto") -> None:
        super().__init__(d_model, num_heads, causal=True)
        self.config, self.impl = config, impl
        keys = max(1, d_model // num_heads // 2) * num_heads
        self.widths = [keys, keys, d_model, d_model]
        self.qkvr = nn.Linear(d_model, sum(self.widths), bias=False)
        self.decay = nn.Sequential(
            nn.Linear(d_model, config.gate_rank, bias=False), nn.Linear(config.gate_rank, keys)
        )
        self.norm = nn.RMSNorm(d_model // num_heads, eps=1e-5)
        self.out = nn.Linear(d_model, d_model)

    def projected(self, hidden: Tensor, key_padding_mask: Tensor | None) -> tuple[Tensor, ...]:
        """q, k, v, log of the decay [batch, heads, seq_len, dim], and the output's gate [batch, seq_len, d_model].

        A padded token adds nothing to the state and leaves it as it is."""
        q, k, v, gate = self.qkvr(hidden).split(self.widths, dim=-1)
        log_decay = nn.functional.logsigmoid(wide(self.decay(hidden))) / self.config.temperature
        if key_padding_mask is not None:
            ignored = key_padding_mask[..., None]
            k, v, log_decay = (x.masked_fill(ignored, 0) for x in (k, v, log_decay))
        return (*(self.split_heads(wide(x)) for x in (q, k, v, log_decay)), gate)

    def forward(self, hidden: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """hidden: [batch, seq_len, d_model]; before the first real token it gives the bias of the output."""
        q, k, v, log_decay, gate = self.projected(hidden, key_padding_mask)
        with torch.autocast(hidden.device.type, enabled=False):
            q = q * q.shape[-1] ** -0.5
            if self.impl != "reference" and hidden.is_cuda and has_kernel() and q.dtype == torch.float32:
                mixed = by_kernel(q, k, v, log_decay)
            else:
                mixed = gated_sums(q, k, v, log_decay)
        return self.gated_out(mixed, gate)

    def gated_out(self, mixed: Tensor, gate: Tensor) -> Tensor:
        """From the heads' sums to the output; gate: [batch, seq_len, d_model]."""
        normed = merge_heads(self.norm(mixed.to(self.norm.weight.dtype)))
        return self.out((normed * nn.functional.silu(gate)).to(gate.dtype))  # type: ignore[no-any-return]

    def step(self, hidden: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """One token, [batch, d_model], after a state (None: the first). Returns: the output and the next state."""
        q, k, v, log_decay, gate = self.projected(hidden[:, None], None)
        added = k.mT @ v
        state = added if state is None else log_decay.mT.exp() * state + added
        return self.gated_out(q * q.shape[-1] ** -0.5 @ state, gate)[:, 0], state


def gated_sums(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> Tensor:
    """q_t S_t for S_t = diag(exp(log_decay_t)) S_(t-1) + k_t v_t^T, in chunks.

    q, k, log_decay: [batch, heads, seq_len, d_k], log_decay at most 0; v: [batch, heads, seq_len, d_V]. Returns: like
    v. Source: Yang et al. 2024, section 4.3; products of
    decays are exponentials of differences that are at most 0."""
    seq_len = q.shape[2]
    q, k, v, log_decay = (in_chunks(x, CHUNK) for x in (q, k, v, log_decay))
    since = log_decay.cumsum(3)  # from the chunk's start to each token
    past = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).tril()[..., None]
    between = (since[..., :, None, :] - since[..., None, :, :]).masked_fill(~past, -torch.inf).exp()
    weights = (q[..., :, None, :] * k[..., None, :, :] * between).sum(-1)
    total = since[:, :, :, -1:]
    added = (k * (total - since).exp()).mT @ v  # [batch, heads, chunks, d_k, d_V]
    decay = total.mT.exp()
    state, parts = torch.zeros_like(added[:, :, :1]), []
    for own_decay, own in zip(torch.split(decay, SEGMENT, 2), torch.split(added, SEGMENT, 2), strict=True):
        first = own[:, :, :1] + own_decay[:, :, :1] * state
        states = scan(own_decay.movedim(2, 0), torch.cat((first, own[:, :, 1:]), 2).movedim(2, 0)).movedim(0, 2)
        parts += [state, states[:, :, :-1]]
        state = states[:, :, -1:]
    before = torch.cat(parts, 2)
    return (weights @ v + (q * since.exp()) @ before).flatten(2, 3)[:, :, :seq_len]


def has_kernel() -> bool:
    """Whether flash-linear-attention is installed."""
    return importlib.util.find_spec("fla") is not None


def by_kernel(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> Tensor:
    """gated_sums by flash-linear-attention's chunked kernel, whose layout is [batch, seq_len, heads, dim]."""
    from fla.ops.gla import chunk_gla

    given = [x.transpose(1, 2).contiguous() for x in (q, k, v, log_decay)]
    out: Tensor = chunk_gla(given[0], given[1], given[2], given[3], scale=1.0)[0]
    return out.transpose(1, 2)

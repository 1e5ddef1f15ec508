"""One pre-norm block: short convolution, mixer, MLP."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from zeta_core.attention import Mixer

NormKind = Literal["layer", "rms"]
MlpKind = Literal["gelu", "swiglu"]


def make_norm(kind: NormKind, d_model: int) -> nn.Module:
    """LayerNorm, or RMSNorm (Zhang and Sennrich 2019)."""
    return nn.LayerNorm(d_model) if kind == "layer" else nn.RMSNorm(d_model, eps=1e-5)


def default_width(kind: MlpKind, d_model: int) -> int:
    """An MLP's d_mlp: 4 d_model; with gates 8/3 d_model, for as many parameters, in whole eights."""
    return 4 * d_model if kind == "gelu" else -(-8 * d_model // 24) * 8


class SwiGlu(nn.Module):
    """down(silu(gate x) * (up x)), without biases (Shazeer 2020; LLaMA)."""

    def __init__(self, d_model: int, d_mlp: int) -> None:
        super().__init__()
        self.gate_up = nn.Linear(d_model, 2 * d_mlp, bias=False)
        self.down = nn.Linear(d_mlp, d_model, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """[..., d_model] to the same."""
        gate, up = self.gate_up(hidden).chunk(2, dim=-1)
        out: Tensor = self.down(F.silu(gate) * up)
        return out


class ShortConv(nn.Module):
    """A depthwise convolution over a few tokens: the last `width` of them if causal, else centred.

    It binds a key to the value that follows it, which ZETA's chunks cannot: both lie in one chunk."""

    def __init__(self, d_model: int, width: int, *, causal: bool) -> None:
        super().__init__()
        self.conv = nn.Conv1d(d_model, d_model, width, groups=d_model)
        self.padding = (width - 1, 0) if causal else (width // 2, (width - 1) // 2)

    def forward(self, hidden: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """hidden: [batch, seq_len, d_model]; what is padded counts as zero."""
        if key_padding_mask is not None:
            hidden = hidden.masked_fill(key_padding_mask[..., None], 0)
        # Shifted copies, weighted and summed: on a CPU torch's depthwise convolution takes longer.
        before, after = self.padding
        seq_len, weight = hidden.shape[1], self.conv.weight
        padded = F.pad(hidden, (0, 0, before, after))
        taps = [padded[:, tap : tap + seq_len] * weight[:, 0, tap] for tap in range(before + after + 1)]
        assert self.conv.bias is not None
        return sum(taps[1:], taps[0] + self.conv.bias)


class Block(nn.Module):
    """hidden + mixer(conv(norm(hidden))), then + mlp(norm(hidden))."""

    def __init__(
        self,
        d_model: int,
        mixer: Mixer,
        *,
        d_mlp: int,
        short_conv: int,
        dropout: float,
        norm: NormKind = "layer",
        mlp: MlpKind = "gelu",
    ) -> None:
        super().__init__()
        self.mixer_norm = make_norm(norm, d_model)
        self.short_conv = ShortConv(d_model, short_conv, causal=mixer.causal) if short_conv else None
        self.mixer = mixer
        self.mlp_norm = make_norm(norm, d_model)
        self.mlp = (
            nn.Sequential(nn.Linear(d_model, d_mlp), nn.GELU(), nn.Linear(d_mlp, d_model))
            if mlp == "gelu"
            else SwiGlu(d_model, d_mlp)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """hidden: [batch, seq_len, d_model]; key_padding_mask: [batch, seq_len] bool, True = ignore."""
        mixed = self.mixer(self.mixer_input(hidden, key_padding_mask), key_padding_mask)
        hidden = hidden + self.dropout(mixed)
        out: Tensor = hidden + self.dropout(self.mlp(self.mlp_norm(hidden)))
        return out

    def mixer_input(self, hidden: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """What the mixer gets: [batch, seq_len, d_model]."""
        normed: Tensor = self.mixer_norm(hidden)
        return normed if self.short_conv is None else self.short_conv(normed, key_padding_mask)

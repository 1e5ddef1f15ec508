"""One pre-norm block: short convolution, mixer, MLP."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from zeta_core.attention import Mixer


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

    def __init__(self, d_model: int, mixer: Mixer, *, d_mlp: int, short_conv: int, dropout: float) -> None:
        super().__init__()
        self.mixer_norm = nn.LayerNorm(d_model)
        self.short_conv = ShortConv(d_model, short_conv, causal=mixer.causal) if short_conv else None
        self.mixer = mixer
        self.mlp_norm = nn.LayerNorm(d_model)
        self.mlp = nn.Sequential(nn.Linear(d_model, d_mlp), nn.GELU(), nn.Linear(d_mlp, d_model))
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

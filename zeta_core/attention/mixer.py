"""What every mixer is."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from zeta_core.errors import OptionError


class Mixer(nn.Module):
    """A module from hidden states [batch, seq_len, d_model] to the same, causal or not as it was built."""

    def __init__(self, d_model: int, num_heads: int, *, causal: bool) -> None:
        super().__init__()
        if num_heads < 1 or d_model % num_heads:
            raise OptionError(
                f"d_model={d_model} is not divisible by num_heads={num_heads}; choose heads that divide it"
            )
        self.d_model, self.num_heads, self.causal = d_model, num_heads, causal

    def forward(self, hidden: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """hidden: [batch, seq_len, d_model]; key_padding_mask: [batch, seq_len] bool, True = ignore."""
        raise NotImplementedError

    def statistics(self, hidden: Tensor) -> dict[str, float]:
        """What to log of this layer, by name; the entropy of its attention in nats where it has one."""
        return {}

    def __call__(self, hidden: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """As forward; typed."""
        return cast(Tensor, super().__call__(hidden, key_padding_mask))

    def split_heads(self, x: Tensor) -> Tensor:
        """[batch, seq_len, heads * dim] to [batch, heads, seq_len, dim]."""
        return x.view(*x.shape[:-1], self.num_heads, -1).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """[batch, heads, seq_len, dim] to [batch, seq_len, heads * dim]."""
    return x.transpose(1, 2).flatten(2)

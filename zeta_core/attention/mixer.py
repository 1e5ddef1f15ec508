"""What every mixer is."""

from __future__ import annotations

from typing import ClassVar, cast

from torch import Tensor, nn

from zeta_core.config import Config, kinds
from zeta_core.errors import OptionError


class MixerConfig(Config):
    """What every mixer's configuration has beside its fields, its `kind` and `build`."""

    bidirectional: ClassVar[bool] = True
    """Whether it has a form in which every token sees every other."""

    def sees(self, query: Tensor, key: Tensor, seq_len: int) -> Tensor:
        """Whether causal attention lets the token at `query` see the one at `key` (positions, int64): bool."""
        return key <= query

    def check(self, *, causal: bool, seq_len: int = 0) -> None:
        """Raises: OptionError, in one line, if it has not that form, or not for sequences of that length."""
        if not causal and not self.bidirectional:
            raise OptionError(
                f"attention.kind={getattr(self, 'kind', '')!r} is causal alone; these have a bidirectional form: "
                f"{', '.join(bidirectional_kinds())}"
            )


def bidirectional_kinds() -> list[str]:
    """The kinds of mixers that have a bidirectional form."""
    from . import AttentionConfig  # the union is made of this module's subclasses

    return [kind for kind, found in kinds(AttentionConfig).items() if getattr(found, "bidirectional", False)]


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

    def pair_flops(self, seq_len: int) -> float:
        """Floating-point operations a token, forward, beside those with parameters; 0 where none are counted."""
        return 0.0

    def __call__(self, hidden: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """As forward; typed."""
        return cast(Tensor, super().__call__(hidden, key_padding_mask))

    def split_heads(self, x: Tensor) -> Tensor:
        """[batch, seq_len, heads * dim] to [batch, heads, seq_len, dim]."""
        return x.view(*x.shape[:-1], self.num_heads, -1).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """[batch, heads, seq_len, dim] to [batch, seq_len, heads * dim]."""
    return x.transpose(1, 2).flatten(2)

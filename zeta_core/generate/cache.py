"""What a mixer keeps of the tokens so far, by the kind of mixer."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor

from zeta_core.attention import Mixer
from zeta_core.attention.mixer import merge_heads
from zeta_core.attention.sliding_window import SlidingWindow
from zeta_core.attention.softmax import SoftmaxAttention
from zeta_core.attention.zeta import ZetaAttention

from .buffer import Buffer
from .zeta_cache import ZetaCache


class LayerCache(Protocol):
    """Made from the mixer's inputs so far."""

    def step(self, inputs: Tensor) -> Tensor:
        """The mixer's output for the next token, from its input: [batch, 1, d_model] both."""
        ...


class SoftmaxCache:
    """The keys and values of all tokens, [batch, heads, tokens, dim]; a step reads them all."""

    def __init__(self, mixer: SoftmaxAttention, inputs: Tensor) -> None:
        self.mixer = mixer
        _, k, v = mixer.projected(inputs)
        self.keys, self.values = Buffer(k), Buffer(v)

    def step(self, inputs: Tensor) -> Tensor:
        """As in LayerCache."""
        q, k, v = self.mixer.projected(inputs, self.keys.length)
        self.keys.append(k)
        self.values.append(v)
        mixed = F.scaled_dot_product_attention(q, self.keys.filled, self.values.filled)
        return self.mixer.out(merge_heads(mixed))  # type: ignore[no-any-return]


class WindowCache:
    """The keys and values of the window alone."""

    def __init__(self, mixer: SlidingWindow, inputs: Tensor) -> None:
        self.mixer = mixer
        _, self.keys, self.values = mixer.projected(inputs[:, -mixer.window :])

    def step(self, inputs: Tensor) -> Tensor:
        """As in LayerCache."""
        window = self.mixer.window
        q, k, v = self.mixer.projected(inputs)
        self.keys = torch.cat((self.keys, k), 2)[:, :, -window:]
        self.values = torch.cat((self.values, v), 2)[:, :, -window:]
        mixed = F.scaled_dot_product_attention(q, self.keys, self.values)
        return self.mixer.out(merge_heads(mixed).to(inputs.dtype))  # type: ignore[no-any-return]


@runtime_checkable
class Stepping(Protocol):
    """A mixer with a state of a fixed size."""

    def step(self, hidden: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One token, [batch, d_model], after a state (None: the first). Returns: the output and the next state."""
        ...


class StepCache:
    """The mixer's own state, brought to the end of the tokens so far one by one."""

    def __init__(self, mixer: Stepping, inputs: Tensor) -> None:
        self.mixer, self.state = mixer, None
        for token in inputs.unbind(1):
            _, self.state = mixer.step(token, self.state)

    def step(self, inputs: Tensor) -> Tensor:
        """As in LayerCache."""
        out, self.state = self.mixer.step(inputs[:, 0], self.state)
        return out[:, None]


def make_cache(mixer: Mixer, inputs: Tensor) -> LayerCache:
    """The cache of a mixer that `why_rerun` has nothing against, after inputs [batch, tokens, d_model]."""
    if isinstance(mixer, ZetaAttention):
        return ZetaCache(mixer, inputs)
    if isinstance(mixer, SoftmaxAttention):
        return SoftmaxCache(mixer, inputs)
    if isinstance(mixer, SlidingWindow):
        return WindowCache(mixer, inputs)
    assert isinstance(mixer, Stepping)
    return StepCache(mixer, inputs)


def why_rerun(mixer: Mixer) -> str | None:
    """Why a new token changes what earlier ones gave, or why that is not known here; None if a cache will do."""
    if isinstance(mixer, ZetaAttention):
        c = mixer.config
        if c.coordinates == "minmax":
            return "coordinates='minmax' are scaled over the whole sequence; train with another to go on from a state"
        if c.chunk_size is None and c.visibility == "chunk":
            return (
                f"num_chunks={c.num_chunks} moves the chunks with the length; train with "
                "attention.chunk_size to go on from a state"
            )
        return None
    known = isinstance(mixer, SoftmaxAttention | SlidingWindow | Stepping)
    return None if known else f"{type(mixer).__name__} has no state to go on from"

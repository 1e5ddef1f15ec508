"""A decoder's state after some tokens: what the next token's logits need of them."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from zeta_core.errors import OptionError, ShapeError
from zeta_core.model import Network
from zeta_core.model.block import Block

from .cache import LayerCache, make_cache, why_rerun


class DecodingState(ABC):
    """Tokens so far, of a batch of equally long sequences; `prefill` once, then `step` for each token.

    note: one line on why a step is slow; None if it is not."""

    note: str | None = None

    def __init__(self, network: Network) -> None:
        self.network, self.length = network, 0

    @property
    def limit(self) -> int | None:
        """The most tokens that the network has positions for; None: any number."""
        return self.network.max_len if self.network.positions is not None else None

    @torch.no_grad()
    def prefill(self, tokens: Tensor) -> Tensor:
        """Logits of the token after these: tokens [batch, n] int64, n at least 1. Returns: [batch, vocab_size].

        Raises: ShapeError if there are no tokens, or more than there are positions for."""
        if tokens.dim() != 2 or 0 in tokens.shape:
            raise ShapeError(f"tokens have shape {list(tokens.shape)}; expected [batch, n] with at least one token")
        self.length = 0
        self._make_room(tokens.shape[1])
        return self._first(tokens)

    @torch.no_grad()
    def step(self, tokens: Tensor) -> Tensor:
        """Logits of the token after these: tokens [batch] int64, the next one of each. Returns: [batch, vocab_size].

        Raises: ShapeError if there is no position left, or nothing to go on from."""
        if not self.length:
            raise ShapeError("there are no tokens to go on from; call prefill first")
        self._make_room(1)
        return self._next(tokens)

    def _make_room(self, more: int) -> None:
        if self.limit is not None and self.length + more > self.limit:
            raise ShapeError(f"{self.length + more} tokens, but {positions_end(self.limit)}")
        self.length += more

    @abstractmethod
    def _first(self, tokens: Tensor) -> Tensor:
        """As prefill; `length` counts them already."""

    @abstractmethod
    def _next(self, tokens: Tensor) -> Tensor:
        """As step; `length` counts the token already."""


class CachedState(DecodingState):
    """Each block's cache, and the last inputs of its convolution."""

    def _first(self, tokens: Tensor) -> Tensor:
        hidden, _ = self.network.embed(tokens, None)
        self.caches: list[LayerCache] = []
        self.recent: list[Tensor] = []
        for block in blocks(self.network):
            self.recent.append(block.mixer_norm(hidden[:, max(0, hidden.shape[1] - reach(block)) :]))
            inputs = block.mixer_input(hidden)
            self.caches.append(make_cache(block.mixer, inputs))
            hidden = after_mixer(block, hidden, block.mixer(inputs))
        return self._logits(hidden)

    def _next(self, tokens: Tensor) -> Tensor:
        hidden: Tensor = self.network.embedding(tokens[:, None])
        if self.network.positions is not None:
            hidden = hidden + self.network.positions.weight[self.length - 1]
        for layer, (block, cache) in enumerate(zip(blocks(self.network), self.caches, strict=True)):
            inputs = block.mixer_norm(hidden)
            if block.short_conv is not None:
                recent = torch.cat((self.recent[layer], inputs), 1)
                inputs = block.short_conv(recent)[:, -1:]
                self.recent[layer] = recent[:, max(0, recent.shape[1] - reach(block)) :]
            hidden = after_mixer(block, hidden, cache.step(inputs))
        return self._logits(hidden)

    def _logits(self, hidden: Tensor) -> Tensor:
        return self.network.token_logits(self.network.norm(hidden[:, -1]))


class RerunState(DecodingState):
    """The tokens alone: each step runs the whole sequence again."""

    def __init__(self, network: Network, reason: str) -> None:
        super().__init__(network)
        self.note = f"each token runs the whole text again: {reason}"

    def _first(self, tokens: Tensor) -> Tensor:
        self.tokens = tokens
        batch, length = tokens.shape
        last = torch.arange(1, batch + 1, device=tokens.device) * length - 1
        logits: Tensor = self.network(tokens, last)
        return logits

    def _next(self, tokens: Tensor) -> Tensor:
        return self._first(torch.cat((self.tokens, tokens[:, None]), 1))


def decoding_state(network: Network) -> DecodingState:
    """An empty state of a decoder in eval mode: caches if its mixers allow them, else the whole sequence each time.

    Raises: OptionError if the network labels no tokens, is not causal, or is in training mode."""
    if network.classifier is not None or not network.config.is_causal:
        what = "classifies sequences" if network.classifier is not None else "sees later tokens"
        raise OptionError(f"the network {what}: only a decoder generates; train one of model.form='decoder'")
    if network.training:
        raise OptionError("the network is in training mode, in which dropout acts; call network.eval() first")
    reasons = [reason for block in blocks(network) if (reason := why_rerun(block.mixer))]
    return RerunState(network, reasons[0]) if reasons else CachedState(network)


def positions_end(limit: int) -> str:
    """What a network with learned positions says of longer texts."""
    return (
        f"the model has learned positions for {limit}; give fewer, or train with --set model.positions=none, which "
        "has no such limit"
    )


def blocks(network: Network) -> list[Block]:
    """The network's blocks, typed."""
    return [block for block in network.blocks if isinstance(block, Block)]


def reach(block: Block) -> int:
    """How many earlier inputs a token's convolution reads."""
    return 0 if block.short_conv is None else block.short_conv.conv.weight.shape[-1] - 1


def after_mixer(block: Block, hidden: Tensor, mixed: Tensor) -> Tensor:
    """The block's output from its input and what its mixer made of it; without dropout."""
    hidden = hidden + mixed
    out: Tensor = hidden + block.mlp(block.mlp_norm(hidden))
    return out

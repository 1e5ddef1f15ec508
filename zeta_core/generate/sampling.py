"""How the next token is drawn from its logits."""

from __future__ import annotations

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from zeta_core.config import Config
from zeta_core.errors import NonFiniteError


class Sampling(Config):
    """temperature 0 takes the likeliest token; else top_k and top_p, in this order, cut what it draws from."""

    temperature: float = Field(default=1.0, ge=0)
    top_k: PositiveInt | None = None
    """Only the top_k likeliest tokens."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Only the fewest likeliest tokens that have at least this probability together."""
    seed: int = Field(default=0, ge=0, lt=2**32)

    def generator(self) -> torch.Generator:
        """Random numbers from the seed. On the host, so that they are the same beside any device."""
        return torch.Generator().manual_seed(self.seed)

    def probabilities(self, logits: Tensor) -> Tensor:
        """What is drawn from, [..., vocab_size] float32: 0 for tokens that are cut; temperature above 0."""
        scaled = logits.float() / self.temperature
        if self.top_k is not None and self.top_k < scaled.shape[-1]:
            kept, places = scaled.topk(self.top_k, dim=-1)
            scaled = torch.full_like(scaled, -torch.inf).scatter_(-1, places, kept)
        found = scaled.softmax(-1)
        if self.top_p is None:
            return found
        ordered, places = found.sort(dim=-1, descending=True, stable=True)
        # A token stays if those before it do not reach top_p: the likeliest always does.
        ordered = ordered.masked_fill(ordered.cumsum(-1) - ordered >= self.top_p, 0)
        cut = torch.zeros_like(found).scatter_(-1, places, ordered)
        return cut / cut.sum(-1, keepdim=True)

    def draw(self, logits: Tensor, generator: torch.Generator) -> Tensor:
        """The next token of each sequence: [batch] int64, on the logits' device; logits [batch, vocab_size].

        Raises: NonFiniteError if there is no likeliest token."""
        if not torch.isfinite(logits).all():
            raise NonFiniteError("the model's logits hold NaN or infinity: nothing can be drawn from them")
        if self.temperature == 0:
            return logits.argmax(-1)
        return torch.multinomial(self.probabilities(logits.cpu()), 1, generator=generator)[:, 0].to(logits.device)

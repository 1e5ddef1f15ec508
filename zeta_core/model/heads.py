"""What becomes of encodings: classes of a pair of documents, and tokens of a large vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from zeta_core.errors import OptionError


class PairHead(nn.Module):
    """Class logits for two documents that one encoder has encoded apart: an MLP on [e1, e2, e1 * e2, e1 - e2].

    d_mlp: width of its hidden layer. Source: Long Range Arena, Retrieval."""

    def __init__(self, d_model: int, num_classes: int, *, d_mlp: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(4 * d_model, d_mlp), nn.GELU(), nn.Linear(d_mlp, num_classes))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """first, second: [batch, d_model]. Returns: [batch, num_classes]."""
        logits: Tensor = self.mlp(pair_features(first, second))
        return logits


def pair_features(first: Tensor, second: Tensor) -> Tensor:
    """[e1, e2, e1 * e2, e1 - e2]: [batch, 4 d_model]; swapping documents swaps the first two, negates the last."""
    return torch.cat((first, second, first * second, first - second), dim=-1)


class AdaptiveHead(nn.Module):
    """Log probabilities of tokens whose ids go by frequency, the rarer ones from narrower vectors.

    cutoffs: where the rarer groups begin; those that the vocabulary does not reach are left out.
    Raises: OptionError if it reaches none. Source: adaptive softmax (Grave et al. 2017), by torch."""

    def __init__(self, d_model: int, vocab_size: int, cutoffs: Sequence[int]) -> None:
        super().__init__()
        reached = sorted({cutoff for cutoff in cutoffs if cutoff < vocab_size - 1})
        if not reached:
            raise OptionError(
                f"head=adaptive: the vocabulary of {vocab_size:,} tokens reaches none of cutoffs={list(cutoffs)}; "
                "give lower ones, or use head=tied"
            )
        self.softmax = nn.AdaptiveLogSoftmaxWithLoss(d_model, vocab_size, reached)

    def forward(self, hidden: Tensor) -> Tensor:
        """[tokens, d_model] to [tokens, vocab_size] log probabilities."""
        return self.softmax.log_prob(hidden)

    def scores(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """The log probability of each target, and whether it is the likeliest token (0 in training): [tokens, 2].

        hidden: [tokens, d_model]; targets: [tokens] int64. Never holds the whole vocabulary's in training."""
        of_target = self.softmax(hidden, targets).output
        hits = (
            torch.zeros_like(of_target) if self.training else (self.softmax.predict(hidden) == targets).to(of_target)
        )
        return torch.stack((of_target, hits), dim=-1)

"""What a classifier makes of its pooled encodings."""

from __future__ import annotations

import torch
from torch import Tensor, nn


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

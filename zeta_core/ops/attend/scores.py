"""The four scores. A key's weight before normalising is

cauchy              gamma^2 / (d^2 + gamma^2), the paper's 1 / (d^2 + gamma^2) without overflow in half precision
negative_euclidean  exp(-d^2 / gamma^2)
inverse_euclidean   gamma / (d + gamma), which is 1 / (d + gamma) up to normalising; gradient 0 at d = 0
normalized_dot      exp(cos(2q - 1, 2k - 1) / gamma)

Source: ZETA, section on Adaptive Cauchy-Softmax and its ablation of scores."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

Score = Literal["cauchy", "negative_euclidean", "inverse_euclidean", "normalized_dot"]
SCORES: tuple[str, ...] = get_args(Score)
SMALLEST_NORM = 1e-6
"""Norms in normalized_dot are clamped here; a shorter vector gets no gradient from the cosine."""


def is_exponential(score: Score) -> bool:
    """Whether `strength` gives logits (the weight is their exponential) and not weights."""
    return score in ("negative_euclidean", "normalized_dot")


def directions(points: Tensor, score: Score) -> Tensor:
    """What the score compares: the points themselves, or for normalized_dot the unit vectors of 2 points - 1."""
    if score != "normalized_dot":
        return points
    centred = 2 * points - 1
    squared = (centred * centred).sum(-1, keepdim=True)
    short = squared < SMALLEST_NORM**2
    norm = torch.where(short, 1, squared).sqrt()
    return torch.where(short, centred.detach() / SMALLEST_NORM, centred / norm)


def closeness(q: Tensor, x: Tensor, score: Score) -> Tensor:
    """Squared distance of q and x over the last dimension, or for normalized_dot their cosine."""
    if score == "normalized_dot":
        return (q * x).sum(-1)
    return (q - x).square().sum(-1)


def strength(close: Tensor, gamma: Tensor, score: Score) -> Tensor:
    """The weight, or for an exponential score its logarithm, from `closeness`."""
    if score == "cauchy":
        squared = gamma * gamma
        return squared / (close + squared)
    if score == "negative_euclidean":
        return -close / (gamma * gamma)
    if score == "inverse_euclidean":
        return gamma / (distance(close) + gamma)
    return close / gamma


def distance(squared: Tensor) -> Tensor:
    """The square root, with gradient 0 at 0."""
    zero = squared == 0
    return torch.where(zero, 0, torch.where(zero, 1, squared).sqrt())

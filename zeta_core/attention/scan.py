"""h_t = a_t h_(t-1) + b_t for all t at once, in a number of steps that grows with the logarithm of the length."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def scan(decay: Tensor, added: Tensor) -> Tensor:
    """Every state of h_t = decay_t * h_(t-1) + added_t, h_(-1) = 0, along the first dimension.

    decay: like added, or 1 long where added is longer; values of at most 1 keep it finite. Nothing is divided. Each
    state is formed from the steps before it alone, in an order that no later one changes."""
    out: Tensor = Scan.apply(decay, added)  # type: ignore[no-untyped-call]
    return out


class Scan(torch.autograd.Function):
    """The scan; its gradient is a scan backwards, so that the steps in between need not be kept."""

    @staticmethod
    def forward(context: Any, decay: Tensor, added: Tensor) -> Tensor:
        """The states."""
        states = states_of(decay, added)
        context.save_for_backward(decay, states)
        return states

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        """Of decay and added."""
        decay, states = context.saved_tensors
        of_added = states_backwards(decay[1:], gradients[0])
        of_decay = torch.zeros_like(states)
        torch.mul(of_added[1:], states[:-1], out=of_decay[1:])
        return of_decay.sum_to_size(decay.shape), of_added


def states_of(decay: Tensor, added: Tensor) -> Tensor:
    """The states: pairs of steps become one, their states are found, and those in between follow."""
    length = len(added)
    if length < 2:
        return added.clone()
    even, odd = slice(0, length // 2 * 2, 2), slice(1, None, 2)
    out = torch.empty_like(added)
    out[odd] = states_of(decay[odd] * decay[even], torch.addcmul(added[odd], decay[odd], added[even]))
    out[0] = added[0]
    rest = added[2::2]
    out[2::2] = torch.addcmul(rest, decay[2::2], out[odd][: len(rest)])
    return out


def states_backwards(decay: Tensor, added: Tensor) -> Tensor:
    """h_t = decay_t * h_(t+1) + added_t, nothing behind the end; decay is one shorter than added."""
    length = len(added)
    if length < 2:
        return added.clone()
    start = length % 2  # pairs end at the last step
    first, second = slice(start, None, 2), slice(start + 1, None, 2)
    out = torch.empty_like(added)
    both = decay[start:-1:2] * decay[second]
    out[first] = states_backwards(both, torch.addcmul(added[first], decay[first], added[second]))
    out[-1] = added[-1]
    inner = slice(start + 1, length - 1, 2)
    out[inner] = torch.addcmul(added[inner], decay[inner], out[start + 2 :: 2])
    if start:
        out[0] = torch.addcmul(added[0], decay[0], out[1])
    return out

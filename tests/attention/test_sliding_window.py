"""The sliding window against a softmax over listed keys."""

import pytest
import torch
from attention.plain import check

from zeta_core.attention.sliding_window import SlidingWindowConfig


def weights_of(mixer):
    def weights(q, k, i, keys, head):
        scale = q.shape[-1] ** -0.5
        return [(q[i] @ k[j] * scale).exp() * (abs(i - j) < mixer.window) for j in keys]

    return weights


@pytest.mark.parametrize("window", [1, 4, 27, 99])
def test_it_is_softmax_over_the_window(window):
    check(SlidingWindowConfig(window=window), weights_of, seq_len=19)


def test_what_it_sees():
    place = torch.arange(6)
    sees = SlidingWindowConfig(window=2).sees(place[:, None], place, 6)
    assert sees.long().tolist() == [[int(j in (i - 1, i)) for j in range(6)] for i in range(6)]

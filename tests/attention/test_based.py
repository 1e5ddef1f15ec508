"""Based against its weights one by one, and its parts against what they stand for."""

import pytest
import torch
from attention.plain import built, check, states

from zeta_core.attention.based import BasedConfig, features, taylor


def weights_of(mixer):
    def weights(q, k, i, keys, head):
        found = []
        for j in keys:
            x = q[i] @ k[j] / q.shape[-1] ** 0.5
            found.append(x.exp() if abs(i - j) < mixer.window else 1 + x + x * x / 2)
        return found

    return weights


@pytest.mark.parametrize("window", [1, 4, 30])
def test_it_is_softmax_near_and_its_expansion_far(window):
    check(BasedConfig(feature_dim=3, window=window), weights_of, seq_len=23)


def test_chunks_beyond_the_neighbours_count_too(monkeypatch):
    monkeypatch.setattr("zeta_core.attention.based.CHUNK", 4)
    check(BasedConfig(feature_dim=3, window=3), weights_of)


def test_features_multiply_to_the_expansion():
    x, y = torch.randn(2, 7, 5, dtype=torch.float64)
    torch.testing.assert_close(features(x) @ features(y).T, taylor(x @ y.T))
    assert (taylor(torch.linspace(-9, 9, 99)) > 0).all()


def test_large_products_stay_finite():
    mixer = built(BasedConfig(window=4)).float()
    out = mixer(300 * states().float())
    assert torch.isfinite(out).all()

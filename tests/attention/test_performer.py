"""FAVOR+ against its sums of random features, and those against softmax's kernel."""

import math

import pytest
import torch
from attention.plain import check

from zeta_core.attention.performer import PerformerConfig, orthogonal_directions


def feature(w, x):
    return (w @ x - x @ x / 2).exp()


def weights_of(mixer):
    def weights(q, k, i, keys, head):
        scale = q.shape[-1] ** -0.25
        of_query = [feature(w, q[i] * scale) for w in mixer.directions[head]]
        return [
            sum(a * feature(w, k[j] * scale) for a, w in zip(of_query, mixer.directions[head], strict=True))
            for j in keys
        ]

    return weights


def test_it_is_the_sum_over_features():
    check(PerformerConfig(num_features=5), weights_of, seq_len=11)


@pytest.mark.parametrize("count", [5, 16, 40])
def test_directions_are_orthogonal_in_blocks(count):
    torch.manual_seed(0)
    drawn = orthogonal_directions(count, 16)
    assert drawn.shape == (count, 16)
    for start in range(0, count, 16):
        products = drawn[start : start + 16] @ drawn[start : start + 16].T
        assert (products - products.diag().diag()).abs().max() < 1e-4
    lengths = torch.cat([orthogonal_directions(16, 16) for _ in range(100)]).square().sum(-1)
    assert lengths.mean() == pytest.approx(16, rel=0.05)


def test_features_estimate_the_kernel_without_bias():
    mixer = PerformerConfig(num_features=20_000).build(16, 2)
    q, k = 0.4 * torch.randn(2, 1, 2, 6, 8, generator=torch.Generator().manual_seed(1))
    found = mixer.features(q, of_queries=False) @ mixer.features(k, of_queries=False).mT / 20_000
    torch.testing.assert_close(found, (q @ k.mT / 8**0.5).exp(), rtol=0.15, atol=0.02)


def test_the_paper_s_number_of_features():
    assert PerformerConfig().build(128, 2).directions.shape == (2, round(64 * math.log(64)), 64)
    assert PerformerConfig().build(2, 2).directions.shape == (2, 1, 1)


def test_long_keys_do_not_overflow():
    mixer = PerformerConfig(num_features=64).build(512, 2)
    with torch.no_grad():
        mixer.directions.mul_(3)
    along = (mixer.directions[:, :5] * 4)[None]  # where w . x - |x|^2 / 2 is at its highest
    assert torch.isfinite(mixer.features(along, of_queries=False).sum())

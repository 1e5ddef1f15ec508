"""Hedgehog against its weights one by one."""

import torch
from attention.plain import built, by_weights, check, states

from zeta_core.attention.hedgehog import HedgehogConfig


def feature(weight, x):
    mapped = torch.stack([row @ x for row in weight])
    up, down = mapped.exp(), (-mapped).exp()
    return torch.cat((up / up.sum(), down / down.sum()))


def weights_of(mixer):
    def weights(q, k, i, keys, head):
        of_query = feature(mixer.q_map[head], q[i])
        return [of_query @ feature(mixer.k_map[head], k[j]) for j in keys]

    return weights


def test_it_is_the_product_of_its_features():
    check(HedgehogConfig(), weights_of, seq_len=13)


def test_the_maps_are_learned():
    mixer = built(HedgehogConfig())
    before = mixer(states(13))
    with torch.no_grad():
        for parameter in (mixer.q_map, mixer.k_map):
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(4)) / 3)
    assert not torch.allclose(mixer(states(13)), before, atol=1e-3)
    torch.testing.assert_close(mixer(states(13)), by_weights(mixer, states(13), weights_of(mixer)))

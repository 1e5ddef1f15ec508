"""CosFormer against its weights one by one."""

import math

import pytest
import torch
from attention.plain import check

from zeta_core.attention.cosformer import CosformerConfig
from zeta_core.errors import ConfigError, OptionError
from zeta_core.studies.train_run import make_run


def weights_of(mixer):
    def weights(q, k, i, keys, head):
        period = mixer.config.period
        return [q[i].relu() @ k[j].relu() * math.cos(math.pi / 2 * (i - j) / period) for j in keys]

    return weights


@pytest.mark.parametrize("period", [27, 200])
def test_it_is_the_cosine_times_the_product(period):
    check(CosformerConfig(period=period), weights_of)


def test_sequences_beyond_the_period_are_refused():
    mixer = CosformerConfig(period=8).build(16, 2)
    mixer(torch.randn(1, 8, 16))
    with pytest.raises(OptionError, match=r"attention.period=8 is less .* 9; use attention.period=9 or more"):
        mixer(torch.randn(1, 9, 16))
    with pytest.raises(ConfigError, match=r"attention.period=60 is less than the length of the sequences, 64"):
        make_run("mqar", settings=["attention.period=60"], flags={"--attention": ("attention.kind", "cosformer")})

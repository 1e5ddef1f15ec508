"""Networks around mixers of different sizes, brought to one number of parameters."""

import pytest
import torch
from model.test_network import every_mixer

from zeta_core.attention import SoftmaxConfig
from zeta_core.config import identity
from zeta_core.errors import OptionError
from zeta_core.model import ModelConfig

SIZES = {"vocab_size": 20, "max_len": 24}


@every_mixer
@pytest.mark.parametrize("d_model", [64, 128])
def test_every_mixer_comes_to_the_same_number(mixer, d_model):
    wanted = ModelConfig(d_model=d_model).build(SoftmaxConfig(), **SIZES).num_parameters()
    found = ModelConfig(d_model=d_model, match_parameters=wanted).build(mixer, **SIZES)
    assert abs(found.num_parameters() - wanted) < 0.01 * wanted
    assert found.blocks[0].mlp[0].out_features == found.config.d_mlp > d_model // 2
    if isinstance(mixer, SoftmaxConfig):
        assert found.config.d_mlp == 4 * d_model


def test_a_classifier_of_pairs_counts_too():
    config = ModelConfig(d_model=32, form="encoder", match_parameters=60_000)
    model = config.build(SoftmaxConfig(), **SIZES, num_classes=2, num_documents=2)
    assert abs(model.num_parameters() - 60_000) < 0.02 * 60_000


def test_it_draws_none_of_the_run_s_random_numbers():
    states = []
    for options in (
        {"d_mlp": 256},
        {"match_parameters": ModelConfig().build(SoftmaxConfig(), **SIZES).num_parameters()},
    ):
        torch.manual_seed(3)
        states.append(ModelConfig(**options).build(SoftmaxConfig(), **SIZES).state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_what_cannot_be_matched_is_refused():
    with pytest.raises(OptionError, match=r"match_parameters=100: the nearest that this mixer comes to is \d+"):
        ModelConfig(match_parameters=100).build(SoftmaxConfig(), **SIZES)
    with pytest.raises(ValueError, match="d_mlp=8 and match_parameters=100 are both set; give one"):
        ModelConfig(d_mlp=8, match_parameters=100)


def test_it_came_later():
    assert "match_parameters" not in identity(ModelConfig())
    assert identity(ModelConfig(match_parameters=5))["match_parameters"] == 5

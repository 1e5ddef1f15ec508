"""The schedule of learning rates, and what weight decay touches."""

import math

import pytest
import torch
from pydantic import ValidationError
from training.tiny import network, training


def test_warm_up_is_linear_and_then_a_cosine_ends_at_zero():
    config = training(steps=12, warmup_steps=4)
    rates = [config.rate(step) for step in range(13)]
    assert rates[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert rates[4:] == pytest.approx([0.5 * (1 + math.cos(math.pi * i / 8)) for i in range(9)])
    assert rates[8] == pytest.approx(0.5)
    assert rates[12] == pytest.approx(0)
    assert 0 < rates[11] < 0.05


@pytest.mark.parametrize("warmup", [12, 13, 500])
def test_warm_up_beyond_the_steps_is_cut(warmup):
    config = training(steps=12, warmup_steps=warmup)
    assert [config.rate(step) for step in range(12)] == pytest.approx([(step + 1) / 12 for step in range(12)])
    assert math.isfinite(config.rate(12))


def test_without_warm_up_the_first_step_has_the_highest_rate():
    config = training(steps=12, warmup_steps=0)
    assert config.rate(0) == 1.0 > config.rate(1)
    assert training(steps=1, warmup_steps=0).rate(0) == 1.0


def test_weight_decay_is_on_matrices_and_convolutions_alone():
    model = network()
    frozen = model.blocks[0].mixer.v.weight.requires_grad_(False)
    groups = training(weight_decay=0.3).optimizer(model).param_groups
    decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    assert id(frozen) not in decay
    assert set(decay) == {id(p) for p in model.parameters() if p.requires_grad}
    found = {name: decay[id(p)] for name, p in model.named_parameters() if p.requires_grad}
    assert {name for name, value in found.items() if value == 0.3} == {
        "blocks.0.short_conv.conv.weight",
        "blocks.0.mixer.q.hidden.weight",
        "blocks.0.mixer.q.out.weight",
        "blocks.0.mixer.k.hidden.weight",
        "blocks.0.mixer.k.out.weight",
        "blocks.0.mixer.out.weight",
        "blocks.0.mlp.0.weight",
        "blocks.0.mlp.2.weight",
    }
    for name in ("embedding.weight", "positions.weight", "blocks.0.mixer.gamma_logit", "norm.weight", "norm.bias"):
        assert found[name] == 0.0
    assert isinstance(training().optimizer(model), torch.optim.AdamW)


REFUSED = [
    {"steps": 0}, {"steps": -5}, {"batch_size": 0}, {"accumulate": 0}, {"learning_rate": 0.0},
    {"learning_rate": float("nan")}, {"learning_rate": float("inf")}, {"warmup_steps": -1},
    {"weight_decay": -0.1}, {"clip_norm": 0.0}, {"eval_every": 0}, {"checkpoint_seconds": 0.0},
    {"steps": 2.5}, {"steps": "10"},
]  # fmt: skip


@pytest.mark.parametrize("options", REFUSED, ids=str)
def test_values_out_of_range_are_refused(options):
    with pytest.raises(ValidationError, match=next(iter(options))):
        training(**options)

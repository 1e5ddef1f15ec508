"""Tokens a second and operations, by hand; and what compiling and checkpointing leave as it is."""

import time

import pytest
import torch
from accelerate import Accelerator
from training.tiny import DATA, fresh_accelerate, network, run, same, training, weights  # noqa: F401 (a fixture)

from zeta_core.attention import SoftmaxConfig, ZetaConfig
from zeta_core.model import ModelConfig
from zeta_core.training.speed import Speed, training_flops


def test_operations_are_counted_by_hand():
    d, length, vocabulary, layers = 8, 12, 32, 2
    model = ModelConfig(d_model=d, num_layers=layers, short_conv=0, d_mlp=24).build(
        SoftmaxConfig(), vocab_size=vocabulary, max_len=length
    )
    matrices = sum(p.numel() for name, p in model.named_parameters() if "embedding" not in name and "pos" not in name)
    pairs = length * (length + 1) / 2
    forward = 2 * matrices * length + layers * pairs * (2 * d + 2 * d) + 2 * vocabulary * d * 5
    assert training_flops(model, length, length, 5, model.num_parameters()) == pytest.approx(3 * forward)


def test_zeta_is_charged_for_the_keys_it_takes():
    mixer = ZetaConfig(d_k=3, top_k=4, local_window=2).build(16, 2)
    assert mixer.pair_flops(1000) == mixer.pair_flops(10) == 2 * (2 * 3 + 16) * (4 + 2 + 1)
    exact = ZetaConfig(d_k=3, top_k=4, selection="exact").build(16, 2)
    assert exact.pair_flops(1000) == 2 * (2 * 3 * 1001 / 2 + 16 * (4 + 1))


def test_tokens_are_counted_from_the_start():
    speed, batch = Speed(network(), Accelerator(cpu=True)), DATA.parts["train"][0].batch(torch.arange(8).numpy())
    speed.add([batch, batch])
    speed.since = time.perf_counter() - 2
    assert speed.rates()["tokens_per_second"] == pytest.approx(2 * 8 * 16 / 2, rel=0.05)
    assert "mfu" not in speed.rates()  # no peak is known of a CPU
    speed.start()
    assert speed.rates()["tokens_per_second"] == 0


def test_every_validation_has_a_rate(tmp_path):
    _, _, watching = run(tmp_path)
    assert all(row["tokens_per_second"] > 0 for row in watching.rows)


def test_checkpointed_activations_change_nothing(tmp_path):
    _, plain, _ = run(tmp_path / "plain")
    _, again, _ = run(tmp_path / "again", training(checkpoint_activations=True))
    assert again.checkpoint_activations and same(weights(plain), weights(again))


def test_training_goes_through_the_compiler(tmp_path, monkeypatch):
    calls = []

    class Compiled(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self._orig_mod = model

        def forward(self, *args, **options):
            calls.append(self.training)
            return self._orig_mod(*args, **options)

    _, plain, _ = run(tmp_path / "plain")
    monkeypatch.setattr(torch, "compile", Compiled)
    _, compiled, watching = run(tmp_path / "compiled", training(compile=True))
    assert len(calls) == 8 and len(watching.rows) == 4  # its steps, and no validation
    assert same(weights(plain), weights(compiled))

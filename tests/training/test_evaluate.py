"""Scores against a plain loop over the examples."""

import copy
import math

import pytest
import torch
from accelerate import Accelerator
from training.tiny import DATA, fresh_accelerate, network  # noqa: F401 (an automatic fixture)

from zeta_core.tasks import MqarConfig
from zeta_core.training import evaluate
from zeta_core.training.evaluate import loss_and_hits

MIXED = MqarConfig.model_validate({
    "vocab_size": 32,
    "train_mix": [{"seq_len": 16, "num_pairs": 2, "num_examples": 8}],
    "test_mix": [
        {"seq_len": 16, "num_pairs": 2, "num_examples": 21},
        {"seq_len": 12, "num_pairs": 3, "num_examples": 10},
    ],
}).build().parts["test"]  # fmt: skip


def plain(model, part) -> tuple[int, float, int]:
    hits, loss, count = 0, 0.0, 0
    for index in range(len(part)):
        batch = part.batch(torch.tensor([index]).numpy())
        logits = model(batch.tokens).double().log_softmax(-1)
        for place, label in enumerate(batch.labels[0].tolist()):
            if label != -100:
                hits += int(logits[place].argmax()) == label
                loss -= float(logits[place, label])
                count += 1
    return hits, loss, count


@pytest.mark.parametrize("tokens", [1, 80, 65_536], ids=lambda n: f"{n} tokens")
def test_evaluate_is_a_plain_loop(tokens, monkeypatch):
    monkeypatch.setitem(evaluate.__wrapped__.__globals__, "EVAL_BATCH_TOKENS", tokens)
    model = network().train()
    scores = evaluate(model, MIXED, Accelerator(cpu=True))
    assert model.training
    model.eval()
    with torch.no_grad():
        found = [plain(model, part) for part in MIXED]
    found.append(tuple(map(sum, zip(*found, strict=True))))
    assert [score.name for score in scores] == ["16x2", "12x3", "all"]
    for score, (hits, loss, count) in zip(scores, found, strict=True):
        assert (score.accuracy, score.count) == (hits / count, count)
        assert score.loss == pytest.approx(loss / count, rel=1e-5)
        assert score.loss == pytest.approx(math.log(32), abs=0.5)


def test_a_perfect_model_scores_one(monkeypatch):
    part = DATA.parts["test"][0]

    class Knowing(torch.nn.Module):
        def forward(self, tokens, labelled, mask):
            answers = {tuple(row): labels for row, labels in zip(*everything, strict=True)}
            labels = torch.tensor([answers[tuple(row)] for row in tokens.tolist()])
            return torch.nn.functional.one_hot(labels.flatten()[labelled], 32) * 50.0

    batch = part.batch(torch.arange(len(part)).numpy())
    everything = (batch.tokens.tolist(), batch.labels.tolist())
    scores = evaluate(Knowing(), [part], Accelerator(cpu=True))
    assert [score.accuracy for score in scores] == [1.0, 1.0]
    assert scores[-1].loss == pytest.approx(0, abs=1e-6)


def test_the_loss_is_summed_over_labels_alone():
    batch = DATA.parts["test"][0].batch(torch.arange(5).numpy())
    loss, hits, count = loss_and_hits(network().eval(), batch)
    assert count == 10 and 0 <= hits <= 10
    assert loss.item() == pytest.approx(10 * math.log(32), rel=0.2)


def test_a_part_that_stands_apart_is_not_in_all():
    apart = copy.copy(MIXED[1])
    apart.apart = True
    first, other, together = evaluate(network(), [MIXED[0], apart], Accelerator(cpu=True))
    assert (together.loss, together.accuracy, together.count) == (first.loss, first.accuracy, first.count)
    assert other.name == "12x3" and other.count == 30

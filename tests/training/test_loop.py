"""The loop: steps, stops, failures, and which weights are tested."""

import math

import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file
from training.tiny import (
    DATA,
    Watching,
    fresh_accelerate,  # noqa: F401 (an automatic fixture)
    network,
    run,
    same,
    training,
    weights,
)

from zeta_core.errors import OptionError, RunFailed
from zeta_core.training import PartScore, evaluate, loop
from zeta_core.training.loop import loss_and_hits


def test_a_run_trains_validates_and_tests(tmp_path):
    done, model, watching = run(tmp_path)
    assert not same(weights(model), weights(network()))
    assert [step for step, _, _ in watching.steps] == list(range(1, 9))
    assert [row["step"] for row in watching.rows] == [2, 4, 6, 8]
    assert all(math.isfinite(value) for row in watching.rows for value in row.values())
    names = {"loss", "gradient_norm", "learning_rate", "score", "seconds", "validation.all.loss"}
    assert names | {"layer0.gamma", "layer0.entropy", "validation.pairs=2.accuracy"} <= set(watching.rows[0])
    assert done.progress.step == 8 and done.progress.finished
    assert done.test == evaluate(model, DATA.parts["test"], Accelerator(cpu=True))
    assert watching.steps[0][2] is None and watching.steps[2][2] == watching.rows[0]["score"]


def test_it_learns(tmp_path):
    _, _, watching = run(tmp_path, training(steps=40, eval_every=20, learning_rate=1e-2), model=network(dropout=0.0))
    assert watching.steps[-1][1] < watching.steps[0][1] - 0.5


def test_the_rates_are_those_of_the_schedule(tmp_path, monkeypatch):
    rates, step = [], torch.optim.AdamW.step
    monkeypatch.setattr(
        torch.optim.AdamW,
        "step",
        lambda self, *args: rates.append([group["lr"] for group in self.param_groups]) or step(self, *args),
    )
    config = training(steps=6, warmup_steps=2)
    _, _, watching = run(tmp_path, config)
    assert rates == [pytest.approx([3e-3 * config.rate(i)] * 2) for i in range(6)]
    assert [row["learning_rate"] for row in watching.rows] == pytest.approx([rates[i][0] for i in (1, 3, 5)])


@pytest.mark.parametrize("target", [0.0, 0.4])
def test_stop_at_ends_the_run_once_it_is_reached(tmp_path, monkeypatch, target):
    script(monkeypatch, [0.1, 0.4, 0.9, 0.9])
    done, _, watching = run(tmp_path, training(stop_at=target))
    assert done.progress.finished
    assert done.progress.step == watching.steps[-1][0] == (2 if target == 0.0 else 4)
    score = "0.1000" if target == 0.0 else "0.4000"
    at = done.progress.step
    assert watching.said == [f"stopped early at step {at} of 8: validation score {score}, training.stop_at={target}"]


def test_stop_at_that_is_never_reached_changes_nothing(tmp_path):
    done, model, watching = run(tmp_path / "a", training(stop_at=1.0))
    assert done.progress.step == 8 and watching.said == []
    assert same(weights(model), weights(run(tmp_path / "b")[1]))


def script(monkeypatch, scores):
    """Validation scores one after another; the test split is scored as ever."""
    left = list(scores)

    def scripted(model, parts, accelerator):
        found = evaluate(model, parts, accelerator)
        if parts is DATA.parts["test"]:
            return found
        return [PartScore(score.name, left[0], score.loss, score.count) for score in found[:-1]] + [
            PartScore("all", left.pop(0), 1.0, 1)
        ]

    monkeypatch.setattr(loop, "evaluate", scripted)


@pytest.mark.parametrize(
    ("scores", "best"), [([0.1, 0.9, 0.3, 0.9], 4), ([0.2, 0.1, 0.1, 0.0], 2), ([0.0, 0.1, 0.2, 0.3], 8)]
)
def test_the_weights_of_the_best_validation_are_tested(tmp_path, monkeypatch, scores, best):
    script(monkeypatch, scores)
    model, kept = network(), {}
    done, model, _ = run(tmp_path, watching=Watching(lambda step: kept.update({step: weights(model)})), model=model)
    assert done.progress.best_step == best
    assert done.progress.best_score == scores[best // 2 - 1]
    assert same(load_file(tmp_path / "best" / "model.safetensors"), kept[best])
    assert same(weights(model), kept[best])
    assert best == 8 or not same(kept[8], kept[best])
    assert done.test == evaluate(model, DATA.parts["test"], Accelerator(cpu=True))


def test_a_learning_rate_out_of_bounds_names_the_step(tmp_path):
    with pytest.raises(RunFailed, match=r"not finite at step 2|loss is nan at step 2"):
        run(tmp_path, training(learning_rate=1e30, warmup_steps=0))


def test_the_failure_of_a_validation_names_the_step(tmp_path):
    with pytest.raises(RunFailed, match="not finite at step 1"):
        run(tmp_path, training(learning_rate=1e30, warmup_steps=0, eval_every=1))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_bad_loss_names_the_step(tmp_path, monkeypatch, bad):
    calls = []

    def poisoned(model, batch, device):
        loss, hits, count = loss_and_hits(model, batch, device)
        calls.append(loss)
        return (loss * 0 + bad if len(calls) == 3 else loss), hits, count

    monkeypatch.setattr(loop, "loss_and_hits", poisoned)
    with pytest.raises(RunFailed, match=f"the loss is {bad} at step 3; try a lower learning rate"):
        run(tmp_path, training(eval_every=8))


def test_a_bad_gradient_names_the_step(tmp_path):
    model, calls = network(), []
    model.norm.weight.register_hook(lambda grad: calls.append(grad) or (grad / 0 if len(calls) == 2 else grad))
    with pytest.raises(RunFailed, match=r"the gradient norm is (nan|inf) at step 2"):
        run(tmp_path, training(eval_every=8), model=model)


def test_a_bad_hidden_state_names_the_step(tmp_path):
    model = network()

    def poison(step):
        if step == 5:
            with torch.no_grad():
                model.embedding.weight[:] = torch.nan

    with pytest.raises(RunFailed, match=r"not finite at step 6 \(q holds NaN.*\); try a lower"):
        run(tmp_path, training(eval_every=8), model=model, watching=Watching(poison))


@pytest.mark.parametrize("accumulate", [2, 4])
def test_an_accumulated_batch_gives_the_same_steps(tmp_path, accumulate):
    _, whole, seen = run(tmp_path / "a", training(steps=3), model=network(dropout=0.0))
    _, parts, also = run(tmp_path / "b", training(steps=3, accumulate=accumulate), model=network(dropout=0.0))
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(parts.state_dict()[name], tensor, rtol=1e-3, atol=1e-5)
    norms = [[row["gradient_norm"] for row in watching.rows] for watching in (seen, also)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-3)


def test_gradients_are_clipped(tmp_path):
    before = weights(network())

    def moved(clip):
        done = run(tmp_path / str(clip), training(steps=1, warmup_steps=0, clip_norm=clip, weight_decay=0.0))
        return max(float((tensor - before[name]).abs().max()) for name, tensor in done[1].state_dict().items())

    # AdamW's first step is g / (|g| + 1e-8): only a tiny gradient moves less.
    assert moved(1e-9) < 0.2 * moved(1.0)


@pytest.mark.parametrize("options", [{"batch_size": 41}, {"batch_size": 8, "accumulate": 3}])
def test_a_batch_that_cannot_be_shared_is_refused(tmp_path, options):
    divided = "not divisible by 1 processes times accumulate=3; the nearest that is: 9"
    words = "more than the 40 training examples of pairs=2; use" if options["batch_size"] == 41 else divided
    with pytest.raises(OptionError, match=f"batch_size={options['batch_size']}.*{words}"):
        run(tmp_path, training(**options))
    assert not list(tmp_path.iterdir())

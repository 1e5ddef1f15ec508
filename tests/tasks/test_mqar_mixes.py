"""Parts of several lengths, and the share of answers that attention can see."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from tasks.draws import examples, small

from zeta_core.attention import ExactTopkConfig, SoftmaxConfig, ZetaConfig
from zeta_core.studies.train_rows import reachable
from zeta_core.studies.train_run import TrainRun
from zeta_core.tasks import MqarConfig
from zeta_core.tasks.mqar import MqarMix

TRAIN = [
    {"seq_len": 16, "num_pairs": 4, "num_examples": 30},
    {"seq_len": 32, "num_pairs": 2, "num_examples": 20},
    {"seq_len": 32, "num_pairs": 8, "num_examples": 25},
]
TEST = [{"seq_len": 16, "num_pairs": 2, "num_examples": 10}, {"seq_len": 64, "num_pairs": 8, "num_examples": 12}]


def mixed(**options: object) -> MqarConfig:
    return MqarConfig.model_validate({"vocab_size": 40, "num_validation": 7, "num_test": 8, **options})


def test_the_longest_part_names_the_length_and_the_pairs():
    config = mixed(train_mix=TRAIN)
    assert (config.seq_len, config.num_pairs, config.longest) == (32, 8, 32)
    assert mixed(train_mix=TRAIN, seq_len=32, num_pairs=8) == config
    assert MqarConfig.model_validate(config.model_dump()) == config


def test_the_longest_sequence_may_be_a_tested_one():
    config = mixed(train_mix=TRAIN, test_mix=TEST)
    assert (config.seq_len, config.longest) == (32, 64)
    assert config.build().max_len == 64


@pytest.mark.parametrize("given", [{"seq_len": 64}, {"num_pairs": 4}])
def test_a_contradiction_is_refused(given):
    with pytest.raises(
        ValidationError, match=r"train_mix \(longest part 32, 8\) contradict each other; leave one out"
    ):
        mixed(train_mix=TRAIN, **given)


def test_parts_may_be_objects():
    assert mixed(train_mix=tuple(MqarMix(**part) for part in TRAIN)) == mixed(train_mix=TRAIN)


@pytest.mark.parametrize(
    "mix",
    [5, "text", {"seq_len": 16}, [3], [TRAIN[0], {**TRAIN[1], "seq_len": "a"}], [{**TRAIN[0], "num_pairs": [2]}]],
)
def test_a_mix_of_the_wrong_type_is_refused(mix):
    with pytest.raises(ValidationError, match="train_mix"):
        mixed(train_mix=mix)


@pytest.mark.parametrize("mix", ["train_mix", "test_mix"])
def test_every_part_must_fit(mix):
    bad = {"seq_len": 16, "num_pairs": 5, "num_examples": 3}
    with pytest.raises(ValidationError, match="num_pairs=5 with seq_len=16"):
        mixed(**{"train_mix": TRAIN, mix: [*TRAIN, bad]})


def test_the_parts_are_those_asked_for():
    parts = mixed(train_mix=TRAIN, test_mix=TEST).build().parts
    for split, wanted in (("train", TRAIN), ("test", TEST)):
        for part, mix in zip(parts[split], wanted, strict=True):
            tokens, labels = examples(part)
            assert tokens.shape == (mix["num_examples"], mix["seq_len"])
            assert (labels != -100).sum(1).tolist() == [mix["num_pairs"]] * mix["num_examples"]
            assert part.name == f"{mix['seq_len']}x{mix['num_pairs']}"
    assert [(part.seq_len, len(part)) for part in parts["validation"]] == [(16, 3), (32, 3), (32, 3)]
    assert [part.name for part in mixed(train_mix=TRAIN).build().parts["test"]] == ["16x4", "32x2", "32x8"]
    assert [part.name for part in small().build().parts["test"]] == ["pairs=3"]


def share(attention, **model) -> float:
    run = TrainRun(task=MqarConfig(num_train=1, num_test=3000), attention=attention, model=model)
    found = reachable(run, *run.task.build().parts["test"])
    assert found is not None
    return found


def test_the_share_of_answers_in_sight():
    assert share(ZetaConfig(num_chunks=4)) == pytest.approx(0.55, abs=0.02)
    assert share(ZetaConfig(num_chunks=8)) == 1.0
    assert share(ZetaConfig(num_chunks=4, local_window=16)) == 1.0
    assert share(ZetaConfig(num_chunks=1)) == 0.0
    assert share(ZetaConfig(chunk_size=16)) == share(ZetaConfig(num_chunks=4))
    assert share(ExactTopkConfig(num_chunks=4)) == share(ZetaConfig(num_chunks=4))
    assert share(SoftmaxConfig()) == 1.0
    assert share(ZetaConfig(selection="all", visibility="token")) == 1.0
    assert share(ZetaConfig(num_chunks=4), form="encoder") == 1.0


@pytest.mark.parametrize("chunks", [2, 3, 4, 5])
@pytest.mark.parametrize("window", [0, 5])
def test_reachable_counts_the_values_in_sight(chunks, window):
    """Token by token: the answer is the token behind the key's first place."""
    task = small(num_test=200)
    run = TrainRun(task=task, attention=ZetaConfig(num_chunks=chunks, local_window=window))
    part = task.build().parts["test"][0]
    tokens, labels = examples(part)
    size, seen = -(-task.seq_len // chunks), []
    for row in range(len(tokens)):
        for query in (labels[row] != -100).nonzero().flatten().tolist():
            answer = tokens[row].tolist().index(int(tokens[row, query])) + 1
            assert tokens[row, answer] == labels[row, query]
            seen.append(answer // size < query // size or query - answer < window)
    assert reachable(run, part) == pytest.approx(float(np.mean(seen)))


def test_parts_are_weighed_by_their_queries():
    run = TrainRun(task=mixed(train_mix=TRAIN, test_mix=TEST), attention=ZetaConfig(num_chunks=4))
    first, second = run.task.build().parts["test"]
    shares = [reachable(run, first), reachable(run, second)]
    together = (20 * shares[0] + 96 * shares[1]) / 116
    assert reachable(run, first, second) == pytest.approx(together)


def test_guessing_takes_one_of_the_values():
    part = small().build().parts["test"][0]
    assert part.guessing(0.55) == pytest.approx(0.55 + 0.45 / 3)
    assert part.guessing(1.0) == 1.0
    assert torch.equal(part.lookups()[1].unique(), torch.tensor([1, 3, 5]))

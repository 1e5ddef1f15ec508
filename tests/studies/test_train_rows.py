"""The warning before training, what a monitor is told in which order, and the columns of a row."""

import math
from dataclasses import fields

import pytest
import torch
from studies.sittings import VARYING, rows_of

from zeta_core.records import TrainRow
from zeta_core.studies.train import run_train
from zeta_core.studies.train_rows import unbound_warning, unreachable_warning
from zeta_core.studies.train_run import TrainRun, make_run


class Events:
    """A monitor that notes what happens in order."""

    def __init__(self):
        self.events = []

    def start(self, run, run_id, parameters, embeddings):
        self.events.append(("start", run_id, parameters, embeddings))

    def say(self, text):
        self.events.append(("say", text))

    def resumed(self, step):
        self.events.append(("resumed", step))

    def step(self, step, loss, score):
        self.events.append(("step", step))

    def validated(self, metrics):
        self.events.append(("validated", metrics["step"]))

    def stop(self):
        self.events.append(("stop",))


def tiny(**parts) -> TrainRun:
    task = {"kind": "mqar", "seq_len": 64, "vocab_size": 32, "num_train": 16, "num_validation": 8, "num_test": 300}
    return TrainRun.model_validate({
        "task": task,
        "attention": {"kind": "zeta", "top_k": 4, "num_chunks": 4},
        "model": {"d_model": 16, "num_layers": 1},
        "training": {"steps": 2, "batch_size": 8, "eval_every": 1},
        "device": "cpu",
        **parts,
    })  # fmt: skip


def trained(run, out):
    torch.set_num_threads(1)
    events = Events()
    result = run_train(run, out=out, monitor=events, wandb="off")
    return events.events, result


def test_the_warning_comes_before_training(tmp_path):
    events, result = trained(tiny(), tmp_path)
    kinds = [event[0] for event in events]
    warnings = [i for i, event in enumerate(events) if event[0] == "say" and event[1].startswith("warning")]
    assert len(warnings) == 1
    assert warnings[0] < kinds.index("start") < kinds.index("step")
    text = events[warnings[0]][1]
    share = result.rows[0].reachable
    assert share == pytest.approx(0.55, abs=0.05)
    assert f"reachable is {share:.3f}" in text and f"near {share + (1 - share) / 4:.2f}" in text
    assert "cannot see their answer" in text and "attention.local_window=16" in text
    assert kinds[-1] == "stop"
    assert [event for event in events if event[0] in ("step", "validated")] == [
        ("step", 1), ("validated", 1), ("step", 2), ("validated", 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "attention",
    [
        {"kind": "zeta", "top_k": 4, "num_chunks": 8},
        {"kind": "zeta", "top_k": 4, "num_chunks": 4, "local_window": 16},
        {"kind": "softmax"},
    ],
    ids=str,
)
def test_there_is_no_warning_if_everything_is_in_sight(tmp_path, attention):
    run = tiny(attention=attention)
    assert unreachable_warning(run, run.task.build()) is None
    events, result = trained(run, tmp_path)
    assert not any("warning" in str(event) for event in events)
    assert [row.reachable for row in result.rows] == [1.0, 1.0]


def test_keys_that_nothing_binds_to_their_values_are_warned_of(tmp_path):
    loose = {"d_model": 16, "num_layers": 1, "short_conv": 0}
    zeta = {"kind": "zeta", "top_k": 4, "num_chunks": 8}
    events, _ = trained(tiny(model=loose, attention=zeta), tmp_path)
    (line,) = [event[1] for event in events if event[0] == "say" and event[1].startswith("warning")]
    assert "nothing binds a key to the value that follows it: model.short_conv=0" in line and "short_conv=3" in line
    assert events.index(("say", line)) < [event[0] for event in events].index("start")
    assert unbound_warning(tiny(model={**loose, "short_conv": 1}, attention=zeta)) is not None
    for model, attention in (
        ({**loose, "short_conv": 2}, zeta),
        ({**loose, "form": "encoder"}, zeta),
        (loose, {**zeta, "local_window": 2}),
        (loose, {**zeta, "selection": "exact", "visibility": "token"}),
        (loose, {"kind": "softmax"}),
    ):
        assert unbound_warning(tiny(model=model, attention=attention)) is None


def test_the_worst_part_is_warned_of():
    parts = [
        {"seq_len": 64, "num_pairs": 4, "num_examples": 90},
        {"seq_len": 256, "num_pairs": 40, "num_examples": 90},
    ]
    task = {"kind": "mqar", "num_train": 16, "num_validation": 8}
    run = tiny(task={**task, "test_mix": parts}, attention={"kind": "zeta", "num_chunks": 8, "top_k": 4})
    line = unreachable_warning(run, run.task.build())
    assert "(256x40)" in line and "64x4" not in line


def test_a_row_has_every_column_and_the_run_behind_it(tmp_path):
    run = tiny(seed=3, attention={"kind": "zeta", "top_k": 6, "chunk_size": 16, "curves": 3, "gamma": 0.5})
    events, result = trained(run, tmp_path)
    assert result.fresh and result.folder.name == result.run_id
    rows = rows_of(tmp_path)
    names = {field.name for field in fields(TrainRow)}
    row = result.rows[0]
    assert set(rows[0]) == names - VARYING
    assert (row.attention, row.top_k, row.num_chunks, row.chunk_size) == ("zeta", 6, None, 16)
    assert (row.curves, row.gamma, row.seed) == (3, "0.5", 3)
    assert row.wall_s > 0 and row.peak_mib > 10
    assert (row.examples, row.majority, row.source) == (300 * 4, None, "")
    assert 0 < row.entropy_nats < math.log(7) and row.gamma_end == pytest.approx(0.5)
    assert f"{torch.get_num_threads()} threads" in row.device
    start = next(event for event in events if event[0] == "start")
    assert start[1:] == (result.run_id, row.parameters, (32 + 64) * 16)


def test_softmax_leaves_the_columns_of_zeta_empty(tmp_path):
    _, result = trained(tiny(attention={"kind": "softmax"}), tmp_path)
    names = ("d_k", "top_k", "num_chunks", "score", "gamma", "curves")
    assert {getattr(result.rows[0], name) for name in names} == {None}


def test_the_defaults_are_in_sight():
    run = make_run("mqar")
    assert unreachable_warning(run, run.task.build()) is None

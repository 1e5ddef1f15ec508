"""Checkpoints: the last two are kept, broken ones are named and passed over, and nothing shows in the result."""

import errno
import json
from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator
from safetensors import SafetensorError
from safetensors.torch import load_file
from training.tiny import (
    Stopped,
    Watching,
    fresh_accelerate,  # noqa: F401 (an automatic fixture)
    network,
    run,
    same,
    stop_at,
    training,
    weights,
)

from zeta_core.errors import StorageError
from zeta_core.training.checkpoint import Checkpoints


def steps_kept(folder):
    return [path.name for path in sorted((folder / "checkpoints").iterdir())]


def flip_a_byte(path):
    found = bytearray(path.read_bytes())
    found[len(found) // 2] ^= 1
    path.write_bytes(found)


DAMAGES = {
    "cut short": lambda step: (step / "model.safetensors").write_bytes(
        (step / "model.safetensors").read_bytes()[:99]
    ),
    "empty": lambda step: (step / "optimizer.bin").write_bytes(b""),
    "a byte": lambda step: flip_a_byte(step / "optimizer.bin"),
    "a byte of the states": lambda step: flip_a_byte(step / "random_states_0.pkl"),
    "a file gone": lambda step: (step / "custom_checkpoint_1.pkl").unlink(),
    "no manifest": lambda step: (step / "manifest.json").unlink(),
    "half a manifest": lambda step: (step / "manifest.json").write_text('{"model.safe'),
}


def test_the_last_two_are_kept(tmp_path):
    run(tmp_path)
    assert steps_kept(tmp_path) == ["step_00000006", "step_00000008"]


def test_time_makes_a_checkpoint_too(tmp_path):
    run(tmp_path, training(steps=5, eval_every=100, checkpoint_seconds=1e-9))
    assert steps_kept(tmp_path) == ["step_00000004", "step_00000005"]


@pytest.mark.parametrize("stop", [1, 2, 3, 6, 7, 8])
@pytest.mark.parametrize("seconds", [1e9, 1e-9])
def test_a_run_that_was_stopped_ends_with_the_same_weights(tmp_path, stop, seconds):
    config = training(checkpoint_seconds=seconds)
    _, expected, whole = run(tmp_path / "whole", config)
    with pytest.raises(Stopped):
        run(tmp_path / "cut", config, watching=stop_at(stop))
    done, model, watching = run(tmp_path / "cut", config, resume=True)
    last = (stop - 1) // 2 * 2 if seconds > 1 else stop - 1
    assert watching.resumed_at == [last]
    assert watching.said == [f"resumed at step {last} of 8" if last else "no checkpoint yet: starting over"]
    assert same(weights(model), weights(expected))
    assert [step for step, _, _ in watching.steps] == list(range(last + 1, 9))
    times = {"seconds": 0.0, "tokens_per_second": 0.0}
    assert [{**row, **times} for row in watching.rows] == [
        {**row, **times} for row in whole.rows if row["step"] > last
    ]
    for name in ("whole", "cut"):
        assert steps_kept(tmp_path / name)[-1] == "step_00000008"
    ends = [load_file(tmp_path / name / "checkpoints/step_00000008/model.safetensors") for name in ("whole", "cut")]
    assert same(*ends)
    assert done.progress.seconds >= watching.rows[0]["seconds"] - 1e-3


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(tmp_path, damage):
    _, expected, _ = run(tmp_path / "whole")
    with pytest.raises(Stopped):
        run(tmp_path / "cut", watching=stop_at(7))
    damage(tmp_path / "cut/checkpoints/step_00000006")
    _, model, watching = run(tmp_path / "cut", resume=True)
    assert len(watching.said) == 2
    assert "step_00000006 is damaged (" in watching.said[0] and "using the one before" in watching.said[0]
    assert watching.resumed_at == [4]
    assert same(weights(model), weights(expected))


def test_two_damaged_checkpoints_are_named_and_it_starts_over(tmp_path):
    _, expected, _ = run(tmp_path / "whole")
    with pytest.raises(Stopped):
        run(tmp_path / "cut", watching=stop_at(7))
    for step in (tmp_path / "cut/checkpoints").iterdir():
        DAMAGES["a byte"](step)
    _, model, watching = run(tmp_path / "cut", resume=True)
    assert ["step_00000006" in watching.said[0], "step_00000004" in watching.said[1]] == [True, True]
    assert watching.said[2] == "no checkpoint yet: starting over" and watching.resumed_at == [0]
    assert same(weights(model), weights(expected))


def test_what_a_kill_left_half_written_is_no_checkpoint(tmp_path):
    with pytest.raises(Stopped):
        run(tmp_path, watching=stop_at(5))
    (tmp_path / "checkpoints/step_00000004").rename(tmp_path / "checkpoints/step_00000004.partial")
    (tmp_path / "best.partial").mkdir()
    (tmp_path / "best.partial/model.safetensors").write_bytes(b"half")
    _, model, watching = run(tmp_path, resume=True)
    assert watching.resumed_at == [2]
    assert same(weights(model), weights(run(tmp_path / "whole")[1]))


def test_a_finished_run_that_resumes_trains_no_step(tmp_path):
    done, model, _ = run(tmp_path)
    again, other, watching = run(tmp_path, resume=True, model=network(seed=5))
    assert watching.steps == [] and watching.resumed_at == [8]
    assert again.test == done.test and again.progress.best_step == done.progress.best_step
    assert same(weights(other), weights(model))


def test_a_run_that_stopped_early_stays_stopped(tmp_path):
    config = training(stop_at=0.0)
    run(tmp_path, config)
    done, _, watching = run(tmp_path, config, resume=True)
    assert (watching.steps, done.progress.step) == ([], 2)


@pytest.mark.parametrize("error", [RuntimeError, SafetensorError, OSError])
def test_a_checkpoint_that_cannot_be_written_loses_nothing(tmp_path, monkeypatch, error):
    with pytest.raises(Stopped):
        run(tmp_path, watching=stop_at(5))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def full(self, folder):
        raise error("failed writing file")

    monkeypatch.setattr(Accelerator, "save_state", full)
    with pytest.raises(StorageError, match="step_00000006: the checkpoint could not be written"):
        run(tmp_path, resume=True, watching=Watching())
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path: data for path, data in kept.items() if "best" not in path.parts} == {
        path: data for path, data in before.items() if "best" not in path.parts
    }


@pytest.mark.parametrize(
    ("error", "free"),
    [
        (RuntimeError("[enforce fail at inline_container.cc:668] . unexpected pos 64 vs 0"), 4096),
        (OSError(errno.ENOSPC, "No space left on device"), 2**40),
        (SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"), 2**40),
    ],
    ids=["torch", "Python", "safetensors"],
)
def test_a_full_disk_is_said(tmp_path, monkeypatch, error, free):
    def full(*given, **options):
        raise error

    monkeypatch.setattr(Accelerator, "save_state", full)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free))
    words = "could not be written: the disk is full; make room and go on with --resume"
    with pytest.raises(StorageError, match=f"step_00000002: the checkpoint {words}"):
        run(tmp_path)
    if not isinstance(error, RuntimeError):
        monkeypatch.setattr("zeta_core.training.checkpoint.save_file", full)
        with pytest.raises(StorageError, match=f"best: the best weights {words}"):
            run(tmp_path)


def test_best_weights_say_where_they_come_from(tmp_path):
    done, model, _ = run(tmp_path)
    size = int.from_bytes((tmp_path / "best/model.safetensors").read_bytes()[:8], "little")
    header = json.loads((tmp_path / "best/model.safetensors").read_bytes()[8 : 8 + size])
    assert list(header["__metadata__"]) == ["validation"]
    about = json.loads(header["__metadata__"]["validation"])
    assert about == {"score": done.progress.best_score, "step": done.progress.best_step}
    other = network(seed=9)
    Checkpoints(tmp_path, Accelerator(cpu=True), print).load_best(other)
    assert same(weights(other), weights(model))


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_best_weights_that_cannot_be_read_are_named(tmp_path, damage):
    run(tmp_path)
    path = tmp_path / "best/model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    if damage == "gone":
        path.unlink()
    with pytest.raises(StorageError, match="best: the best weights cannot be read"):
        run(tmp_path, resume=True)


def test_clear_deletes_checkpoints_and_best(tmp_path):
    run(tmp_path)
    checkpoints = Checkpoints(tmp_path, Accelerator(cpu=True), print)
    checkpoints.clear()
    assert list(tmp_path.iterdir()) == [] and checkpoints.complete() == []
    assert torch.is_grad_enabled()

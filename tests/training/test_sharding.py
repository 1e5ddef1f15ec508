"""Two processes train as one does, copied or cut; a checkpoint goes on with any number of them."""

import shutil

import pytest
import torch
from safetensors.torch import load_file
from training.sharded import data_of, launch, losses, write_text
from training.tiny import fresh_accelerate, run, same, training, weights  # noqa: F401 (one is an automatic fixture)

TASKS = ("mqar", "language")
FSDP = {"sharding": "fsdp"}
PARTS = {"accumulate": 2, "checkpoint_activations": True, "clip_norm": 0.01}
CASES = {"copied": {}, "cut": FSDP, "cut, in parts": {**FSDP, **PARTS}}
BEGUN = {"copied": {}, "cut": FSDP}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("sharding")
    write_text(place / "text.txt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZETA_DATA", str(place / "data"))
        data_of("language", place)
        yield place


@pytest.fixture(scope="module")
def two(folder):
    """What two processes made of everything here, and of runs that one began."""
    torch.set_num_threads(1)
    jobs = {f"{task}, {name}": {"task": task, "options": CASES[name]} for task in TASKS for name in CASES}
    jobs["compiled"] = {"task": "mqar", "options": {**FSDP, "compile": True}}
    for name, options in BEGUN.items():
        jobs[f"{name}, by two"] = {"task": "mqar", "options": options, "stop": 13}
        jobs[f"{name}, by one"] = {"task": "mqar", "options": options, "resume": True}
        jobs[f"{name}, in bf16"] = {"task": "mqar", "options": options, "dtype": "bf16"}
        losses(folder, "mqar", options, place=f"{name}, by one", stop=13)
    return launch(folder, jobs)


@pytest.fixture(scope="module")
def one(folder):
    """What one process makes of both tasks, and of them with tight clipping."""
    torch.set_num_threads(1)
    found = {(task, False): losses(folder, task, {}, place=task) for task in TASKS}
    for task in TASKS:
        found[task, True] = losses(folder, task, {"clip_norm": PARTS["clip_norm"]}, place=f"{task}, clipped")
    return found


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", CASES)
def test_two_processes_have_the_losses_of_one(two, one, task, name):
    expected = one[task, "in parts" in name]
    assert len(expected) == 27 and expected[0] > expected[23] + 1
    assert two[f"{task}, {name}"] == pytest.approx(expected, abs=1e-4)


def test_the_compiler_goes_through_cut_weights(two, one):
    assert two["compiled"] == pytest.approx(one["mqar", False], abs=1e-4)


def test_clipping_shows(one):
    assert one["mqar", True] != pytest.approx(one["mqar", False], abs=1e-3)


@pytest.mark.parametrize("name", BEGUN)
def test_two_processes_go_on_with_what_one_began(two, one, name):
    assert two[f"{name}, by one"] == pytest.approx(one["mqar", False][12:], abs=1e-4)


@pytest.mark.parametrize("name", BEGUN)
@pytest.mark.parametrize("after", BEGUN.values(), ids=BEGUN)
def test_one_process_goes_on_with_what_two_began(two, one, folder, tmp_path, name, after):
    shutil.copytree(folder / "runs" / f"{name}, by two", tmp_path / "runs" / "copy")
    assert losses(tmp_path, "mqar", after, place="copy", resume=True) == pytest.approx(
        one["mqar", False][12:], abs=1e-4
    )


def test_in_bf16_cut_weights_compute_what_copies_do(two):
    assert two["cut, in bf16"] == pytest.approx(two["copied, in bf16"], abs=1e-2)
    assert two["cut, in bf16"] != pytest.approx(two["mqar, cut"], abs=1e-6)


def test_the_best_weights_of_cut_ones_are_one_file(two, folder):
    cut, copied = (load_file(folder / "runs" / f"mqar, {name}" / "best" / "model.safetensors") for name in BEGUN)
    assert cut.keys() == copied.keys()
    for name, tensor in cut.items():
        torch.testing.assert_close(tensor, copied[name], rtol=0, atol=1e-4)


def test_with_one_process_it_changes_nothing_and_says_so(tmp_path):
    _, plain, _ = run(tmp_path / "plain")
    _, other, watching = run(tmp_path / "other", training(sharding="fsdp"))
    assert same(weights(plain), weights(other))
    assert watching.said == ["training.sharding=fsdp changes nothing with one process; torchrun starts several"]

"""A run killed at any moment and resumed ends as one that was never killed, bit by bit."""

import random
import time

import pytest
from studies.sittings import agree, folder_of, metrics_of, rows_of, sit, tiny, zeta

CHECKPOINTS = ["--set", "training.checkpoint_seconds=0.01", "--steps", "40"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that nobody killed, trained in a process like the others."""
    out = tmp_path_factory.mktemp("whole")
    process = sit(tiny(out / "out", *CHECKPOINTS), out / "words")
    process.join()
    assert process.exitcode == 0, (out / "words").read_text()
    return out / "out"


def killed(argv, words, wait, *, delay=0.01, after="steps/s") -> bool:
    """Start a sitting and kill it some seconds after it said something; False if it ended before."""
    log = len(words.read_text()) if words.exists() else 0
    process = sit(argv, words, delay=delay)
    while process.is_alive() and not (words.exists() and after in words.read_text()[log:]):
        process.join(0.005)
    time.sleep(wait)
    process.kill()
    process.join()
    assert process.exitcode in (0, -9), words.read_text()
    return process.exitcode == -9


def finish(argv, words):
    process = sit(argv, words)
    process.join()
    assert process.exitcode == 0, words.read_text()


@pytest.mark.parametrize("seed", range(3))
def test_a_run_killed_several_times_ends_the_same(whole, tmp_path, seed):
    out, words, moments = tmp_path / "out", tmp_path / "words", random.Random(seed)
    more, kills = [], 0
    for _ in range(3):
        kills += killed(tiny(out, *CHECKPOINTS, *more), words, moments.uniform(0, 0.25))
        more = ["--resume"]
    assert kills >= 2
    finish(tiny(out, *CHECKPOINTS, "--resume"), words)
    agree(out, whole)
    assert "resumed at step" in words.read_text()
    assert len(rows_of(out)) == 2
    assert [row["step"] for row in metrics_of(out)] == [str(step) for step in range(2, 41, 2)]


def test_a_run_killed_before_its_first_checkpoint_starts_over(whole, tmp_path):
    out, words = tmp_path / "out", tmp_path / "words"
    assert killed(tiny(out, *CHECKPOINTS), words, 0.0, delay=5.0, after="of embeddings, ")
    assert not list(out.glob("runs/*/checkpoints/*"))
    finish(tiny(out, *CHECKPOINTS, "--resume"), words)
    assert "no checkpoint yet: starting over" in words.read_text()
    agree(out, whole)


def test_a_run_killed_before_its_first_checkpoint_needs_no_flag(whole, tmp_path):
    out, words = tmp_path / "out", tmp_path / "words"
    assert killed(tiny(out, *CHECKPOINTS), words, 0.0, delay=5.0, after="of embeddings, ")
    finish(tiny(out, *CHECKPOINTS), words)
    agree(out, whole)


@pytest.mark.parametrize("size", [8_000, 25_000, 38_000], ids=["best weights", "a checkpoint", "the optimizer"])
def test_a_full_disk_ends_the_run_which_goes_on_later(whole, tmp_path, size):
    out, words = tmp_path / "out", tmp_path / "words"
    process = sit(tiny(out, *CHECKPOINTS), words, largest_file=size)
    process.join()
    line = words.read_text().splitlines()[-1]
    assert process.exitcode == 1 and line.startswith("zeta: error: ") and "could not be written" in line
    finish(tiny(out, *CHECKPOINTS, "--resume"), words)
    agree(out, whole)


def test_damage_and_a_kill_together_show_nowhere(whole, tmp_path, capsys):
    """With checkpoints at validations alone, the metrics of the damaged one are made again."""
    out, words = tmp_path / "out", tmp_path / "words"
    assert killed(tiny(out, *[word.replace("=0.01", "=1000") for word in CHECKPOINTS]), words, 0.2)
    newest = sorted(path for path in (folder_of(out) / "checkpoints").iterdir() if path.suffix == "")[-1]
    (newest / "model.safetensors").write_bytes((newest / "model.safetensors").read_bytes()[:500])
    assert zeta(tiny(out, *CHECKPOINTS, "--resume")) == 0
    assert f"checkpoint {newest} is damaged (model.safetensors is not as it was written)" in capsys.readouterr().err
    assert f"checkpoint {newest} is damaged" in (newest.parent.parent / "log.txt").read_text()
    agree(out, whole)

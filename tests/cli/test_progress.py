"""What is said of a run where there is no terminal, with a clock that the test moves."""

from types import SimpleNamespace

import pytest

from zeta_cli import progress
from zeta_cli.app import main
from zeta_core.config import union_members
from zeta_core.errors import StorageError
from zeta_core.studies.paper import lra_accuracy, lra_words
from zeta_core.tasks import TaskConfig


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: now.seconds))
    return now


def test_how_long_it_takes_is_said_at_once_and_a_step_once(clock, capsys):
    shown = progress.TrainProgress()
    training = SimpleNamespace(steps=400, eval_every=40)
    shown.start(SimpleNamespace(training=training, device="cpu", dtype="fp32"), "run", 10, 5)
    for step in range(1, 41):
        clock.seconds += 0.5
        shown.step(step, 2.0, None)
    shown.validated({"step": 40, "loss": 2.0, "score": 0.25})
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == "step 4/400 loss 2.000 2.0 steps/s, about 3 min left"
    assert [line.split()[1] for line in lines[1:]] == ["4/400", "24/400", "40/400"]
    assert lines[-1] == "step 40/400 loss 2.000 validation score 0.2500 2.0 steps/s, about 3 min left"
    clock.seconds += 180
    shown.validated({"step": 400, "loss": 1.0, "score": 0.5})
    assert capsys.readouterr().err == "step 400/400 loss 1.000 validation score 0.5000 2.0 steps/s\n"


def test_durations():
    assert [progress.duration(seconds) for seconds in (3, 89, 91, 5399, 7200)] == [
        "3 s",
        "89 s",
        "2 min",
        "90 min",
        "2.0 h",
    ]


def test_every_imported_or_suite_task_says_what_its_small_preset_is():
    told = {task.model_fields["kind"].default for task in union_members(TaskConfig) if "small" in task.about}
    assert told == {
        "listops", "text", "retrieval", "image", "pathfinder", "pathx", "listops_lra", "pathfinder_lra",
    }  # fmt: skip


@pytest.mark.parametrize(("words", "told"), [([], True), (["--preset", "paper"], False)])
def test_a_small_preset_is_said_to_be_one(words, told, tmp_path, monkeypatch, capsys):
    def begun(run, *, monitor, **options):
        monitor.start(run, "run", 10, 5)
        raise StorageError("the disk is full")

    monkeypatch.setattr("zeta_core.studies.train.run_train", begun)
    main(["train", "text", *words, "--out", str(tmp_path / "out")])
    assert ("preset small: 256 bytes of 4,000 reviews" in capsys.readouterr().err) is told


def test_the_paper_has_figures_of_its_tasks_alone():
    assert lra_accuracy("listops_lra") == lra_accuracy("listops") and lra_accuracy("listops")["ZETA"] == 42.52
    assert lra_words("text").startswith("the paper at full size, accuracy in %: ZETA 64.52, Transformer 64.27, ")
    assert lra_words("mqar") is None and lra_accuracy("pathx") == {}

"""What is run of the experiments, in which order, and what a second start does."""

from pathlib import Path

import pytest

from zeta_core.studies import reproduce
from zeta_core.studies.reproduce import main, plan

FILES = {
    "train/gpu.yaml": "kind: train\ntask: {kind: mqar}\nneeds: gpu\nsmoke: {training: {steps: 2}}\n",
    "bench/any.yaml": "kind: bench\nsmoke: {seq_lens: [32]}\n",
    "ablate/any.yaml": "kind: ablate\naxis: dk\nbase: {task: {kind: mqar}}\n",
}


@pytest.fixture
def root(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / "experiments" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "experiments" / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduce.torch.cuda, "is_available", lambda: False)
    return Path("experiments")


@pytest.fixture
def commands(monkeypatch):
    found = []

    def call(command):
        found.append(command[3:])
        return codes.pop(0) if codes else 0

    codes = []
    monkeypatch.setattr(reproduce.subprocess, "call", call)
    return found, codes


def test_what_this_machine_suffices_for(root, commands, capsys):
    assert main(["--out", "out"]) == 0
    found, _ = commands
    assert [command[0] for command in found] == ["bench", "ablate", "report"]
    assert found[0] == ["bench", "--config", "experiments/bench/any.yaml", "--out", "out", "--plot"]
    assert found[1][-1] == "--resume" and found[2] == ["report", "--out", "out"]
    assert "train/gpu.yaml: skipped: needs a CUDA GPU" in capsys.readouterr().out


def test_all_in_small(root, commands, capsys):
    assert main(["--out", "out", "--scale", "smoke", "-j", "2"]) == 0
    found, _ = commands
    assert [command[0] for command in found] == ["bench", "train", "report"]
    assert found[1][:3] == ["train", "--config", "out/configs/train/gpu.yaml"]
    text = Path("out/configs/train/gpu.yaml").read_text()
    assert "steps: 2" in text and "needs" not in text and "smoke" not in text
    assert "ablate/any.yaml: skipped: has no small version" in capsys.readouterr().out


def test_what_is_finished_is_not_done_again(root, commands, capsys):
    found, codes = commands
    codes += [1, 0]
    assert main(["--out", "out"]) == 1
    assert "failed: experiments/bench/any.yaml: exit code 1" in capsys.readouterr().err
    assert main(["--out", "out"]) == 0
    assert [command[0] for command in found if command[0] != "report"] == ["bench", "ablate", "bench"]
    assert "ablate/any.yaml: done before" in capsys.readouterr().out
    (root / "ablate" / "any.yaml").write_text(FILES["ablate/any.yaml"] + "seeds: [5]\n")
    assert main(["--out", "out"]) == 0
    assert [command[0] for command in found][5:] == ["ablate", "report"]


@pytest.mark.parametrize(
    "text", ["kind: train\ntask: {kind: text}\n", "kind: ablate\naxis: dk\nbase: {task: {kind: text}}\n"]
)
def test_what_needs_files_that_are_not_there_is_skipped(root, commands, capsys, tmp_path, monkeypatch, text):
    monkeypatch.setenv("ZETA_DATA", str(tmp_path / "data"))
    (root / "train" / "gpu.yaml").write_text(text)
    assert main(["--out", "out"]) == 0
    assert [command[0] for command in commands[0]] == ["bench", "ablate", "report"]
    shown = capsys.readouterr().out
    assert "train/gpu.yaml: skipped: text: needs IMDB's reviews" in shown and "zeta data import text PATH" in shown


def test_where_all_is_skipped_there_is_no_report(root, commands, capsys):
    assert main(["--out", "out", "--only", "train/"]) == 0
    assert commands[0] == [] and "nothing could be run here" in capsys.readouterr().out


def test_a_report_that_fails_counts_as_failed(root, commands, capsys):
    _, codes = commands
    codes += [0, 0, 2]
    assert main(["--out", "out"]) == 1
    assert "failed: zeta report: exit code 2" in capsys.readouterr().err
    codes += [130]
    assert main(["--out", "out"]) == 130


def test_ctrl_c_of_a_command_ends_it_all(root, commands, capsys):
    found, codes = commands
    codes.append(130)
    assert main(["--out", "out"]) == 130
    assert len(found) == 1 and "the same command goes on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--only", "lra"], "no file under"), (["--experiments", "nowhere"], "holds no experiments")],
)
def test_refusals(root, capsys, words, message):
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_a_file_of_another_kind_is_named(root, capsys):
    (root / "odd.yaml").write_text("kind: cook\n")
    assert main([]) == 2
    assert "odd.yaml: kind='cook': must be one of bench" in capsys.readouterr().err


def test_the_repository_s_own_experiments_are_planned(tmp_path):
    steps = plan(Path(__file__).parents[2] / "experiments", tmp_path, "smoke", None)
    kinds = {step.experiment.kind for step in steps if not step.skipped}
    assert kinds == {"bench", "locality", "train", "scaling", "ablate"}

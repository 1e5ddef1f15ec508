"""`zeta data`, and training that makes what it needs."""

import os
import signal
import subprocess
import sys
import time

import pytest

from zeta_cli.app import main

FEW = ["--examples", "train=64", "--examples", "validation=32", "--examples", "test=32"]
TRAIN = ["--set", "task.num_train=64", "--set", "task.num_validation=32", "--set", "task.num_test=32"]


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ZETA_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "data"


def test_make_check_and_list(capsys, root):
    assert main(["data", "make", "listops", *FEW]) == 0
    assert "128 examples made" in capsys.readouterr().out
    assert main(["data", "make", "listops", *FEW]) == 0
    assert "everything was there" in capsys.readouterr().out
    assert main(["data", "check", "listops", *FEW]) == 0
    shown = capsys.readouterr().out
    assert "in train and in test: 0" in shown and "tokens in train:" in shown
    folder = next(path for path in root.iterdir() if path.is_dir())
    assert main(["data", "check", "listops", str(folder)]) == 0
    capsys.readouterr()
    assert main(["data", "list"]) == 0
    assert folder.name in capsys.readouterr().out


def test_without_a_command_it_helps(capsys):
    assert main(["data"]) == 0
    assert "make" in capsys.readouterr().out
    assert main(["data", "list"]) == 0
    assert "zeta data make" in capsys.readouterr().out


def spoil(root):
    """A shard cut short, and a folder of other parameters."""
    main(["data", "make", "listops", *FEW])
    folder = next(path for path in root.iterdir() if path.is_dir())
    file = folder / "test/00000/tokens.npy"
    file.write_bytes(file.read_bytes()[:-5])
    return folder


MISTAKES = {
    "unknown task": (["data", "make", "listop"], "did you mean 'listops'"),
    "not made": (["data", "make", "mqar"], "its examples are not made by this command"),
    "imported": (["data", "make", "text"], "import IMDB's reviews (a folder with train/pos/*.txt"),
    "unknown preset": (["data", "make", "listops", "--preset", "big"], "presets small, paper"),
    "unknown field": (["data", "make", "listops", "--set", "deep=3"], "unknown field"),
    "bad number": (["data", "make", "listops", "--examples", "train=many"], "must be SPLIT=N"),
    "no processes": (["data", "make", "listops", "-j", "0"], "--jobs"),
    "no such folder": (["data", "check", "listops", "/nowhere"], "there is no such folder"),
    "no manifest": (["data", "check", "listops", "/tmp"], "has no manifest.json"),
    "nothing made": (["data", "check", "listops"], "make them with: zeta data make listops"),
    "takes long": (["train", "listops", "--set", "task.num_train=9000000"], "make them with: zeta data make listops"),
}


@pytest.mark.parametrize(("argv", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(argv, message, capsys):
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith("zeta: error: ") and message in said


def test_broken_files_are_one_line_everywhere(root, capsys, tmp_path):
    folder = spoil(root)
    capsys.readouterr()
    out = ["--out", str(tmp_path / "out")]
    for argv in (
        ["data", "check", "listops", *FEW], ["data", "check", "listops", str(folder)],
        ["train", "listops", *TRAIN, *out],
    ):  # fmt: skip
        assert main(argv) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and "bytes instead of" in said and "zeta data make listops" in said
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace('"max_depth": 10', '"max_depth": 9'))
    assert main(["train", "listops", *TRAIN, *out]) == 2
    assert "was made with max_depth=9, not 10; make what is wanted with" in capsys.readouterr().err
    assert main(["data", "make", "listops", *FEW]) == 0 and main(["data", "check", "listops", *FEW]) == 0


def test_training_makes_what_it_needs_and_says_so(root, capsys, tmp_path):
    argv = ["train", "listops", *TRAIN, "--steps", "2", "--batch-size", "8", "--out", str(tmp_path / "out")]
    assert main([*argv, "--wandb", "off"]) == 0
    shown, said = capsys.readouterr()
    assert "listops: making 128 examples in" in said
    assert "majority" in shown and "32 test examples" in shown
    assert len([path for path in root.iterdir() if path.is_dir()]) == 1


def test_ctrl_c_says_how_to_go_on(root):
    words = ["data", "make", "listops", "--preset", "paper", "-j", "1"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", "from zeta_cli.start import run; run()", *words],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list(root.glob("*/train/00001")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    said = process.communicate()[1]
    assert said.splitlines()[-1].endswith(f"what was made is kept; go on with: zeta {' '.join(words)}")
    assert list(root.glob("*/train/00001/tokens.npy")) and not list(root.glob("*/manifest.json"))

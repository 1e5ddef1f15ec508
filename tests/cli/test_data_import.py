"""`zeta data import`, and training before and after it."""

import csv

import pytest
from tasks.official import aan, cifar, citation_pairs, imdb, json_lines, listops, npz, pathfinder

from zeta_cli.app import main

WANTED = {"text": "train/pos/*.txt", "retrieval": "new_aan_pairs.train.tsv", "image": "data_batch_1"}
FILES = {"text": imdb, "retrieval": citation_pairs, "image": cifar}
TINY = [
    "--steps", "2", "--batch-size", "2", "--set", "training.eval_every=1", "--set", "model.d_model=16",
    "--set", "model.num_layers=1", "--set", "model.num_heads=2", "--wandb", "off", "--device", "cpu",
]  # fmt: skip


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ZETA_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    return tmp_path


def said(capsys, argv, code=2):
    """The one line of a refusal."""
    assert main(argv) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("zeta: error: ")
    return line


@pytest.mark.parametrize("task", WANTED)
def test_it_trains_once_its_files_are_imported(task, root, capsys):
    train = ["train", task, *TINY, "--out", str(root / "out")]
    line = said(capsys, train)
    assert WANTED[task] in line and f"zeta data import {task} PATH" in line and not (root / "out").exists()
    assert main(["data", "import", task, str(FILES[task](root / "files"))]) == 0
    shown, _ = capsys.readouterr()
    assert f"train on it with: zeta train {task}" in shown and "majority" in shown
    assert main(train) == 0
    shown, _ = capsys.readouterr()
    assert "what always saying the commonest class scores" in shown
    with (root / "out" / "results" / "train.csv").open() as file:
        rows = list(csv.DictReader(file))
    source = {"text": "imdb", "retrieval": "stand-in: ACL citation pairs, split=cited", "image": "cifar10 in gray"}
    assert {row["source"] for row in rows} == {source[task]} and {row["status"] for row in rows} == {"ok"}
    assert [row["slice"] for row in rows] == ["all", source[task]]
    assert all(int(row["examples"]) > 0 and 0.1 <= float(row["majority"]) < 1 for row in rows)
    assert main(["data", "check", task]) == 0


@pytest.mark.parametrize(("task", "files"), {"listops": listops, "pathfinder": pathfinder}.items())
def test_official_files_of_a_generated_task_are_a_task_beside_it(task, files, root, capsys):
    assert main(["data", "import", task, str(files(root / "files"))]) == 0
    assert f"train on it with: zeta train {task}_lra" in capsys.readouterr().out
    assert main(["train", f"{task}_lra", *TINY, "--out", str(root / "out")]) == 0
    with (root / "out" / "results" / "train.csv").open() as file:
        assert {row["source"].partition("'s")[0] for row in csv.DictReader(file)} == {"Long Range Arena"}
    assert main(["data", "import", f"{task}_lra", str(root / "files")]) == 0


def test_what_a_score_should_be_read_with_is_said(root, capsys):
    path = imdb(root / "files")
    text = (path / "train" / "pos" / "3_7.txt").read_text()
    (path / "test" / "neg" / "4_0.txt").write_text(text)
    (path / "train" / "neg" / "5_0.txt").write_text(text)
    (path / "test" / "neg" / "6_0.txt").write_text("")
    assert main(["data", "import", "text", str(path), "--drop-empty"]) == 0
    shown, notes = capsys.readouterr()
    assert (
        "zeta: warning: train and test share 1 examples" in notes
        or "zeta: warning: validation and test share 1" in notes
    )
    assert "empty left out: 1" in shown and "unlabelled left out: 1" in shown


def test_files_of_other_names(root, capsys):
    path = json_lines(root / "files")
    (path / "test.jsonl").rename(path / "held.jsonl")
    assert "--split test=NAME" in said(capsys, ["data", "import", "text", str(path)])
    assert main(["data", "import", "text", str(path), "--split", "test=held.jsonl"]) == 0


def spoil_columns(path):
    aan(path)
    (path / "new_aan_pairs.test.tsv").write_text("1\tP\tQ\ta\tb\n1\tP\n")


def spoil_label(path):
    aan(path)
    (path / "new_aan_pairs.test.tsv").write_text("7\tP\tQ\ta\tb\n")


def spoil_document(path):
    aan(path)
    (path / "new_aan_pairs.train.tsv").write_text("1\tP\tQ\ta\tb\n0\tP\tQ\t\tb\n")


def spoil_split(path):
    aan(path)
    (path / "new_aan_pairs.test.tsv").unlink()


def spoil_bytes(path):
    imdb(path)
    (path / "train" / "neg" / "2_0.txt").write_bytes(b"na\xefve")


def spoil_folder(path):
    imdb(path)
    for file in (path / "test" / "pos").iterdir():
        file.unlink()


def spoil_size(path):
    import numpy as np

    path.mkdir()
    npz(path / "x.npz", train_x=np.zeros((20, 16, 16, 3), np.uint8))


SPOILED = {
    "columns": ("retrieval", spoil_columns, "", "new_aan_pairs.test.tsv:2: has 2 columns instead of 5"),
    "label": ("retrieval", spoil_label, "", "new_aan_pairs.test.tsv:1: label='7' is none of the classes"),
    "empty document": ("retrieval", spoil_document, "", "new_aan_pairs.train.tsv:2: text1 is empty"),
    "no split": ("retrieval", spoil_split, "", "new_aan_pairs.test.tsv: there is no such file, so no test split"),
    "no UTF-8": ("text", spoil_bytes, "", "train/neg/2_0.txt: byte 2 is not UTF-8"),
    "empty folder": ("text", spoil_folder, "", "test/pos: holds no *.txt"),
    "size": ("image", spoil_size, "x.npz", "train_x: pictures are uint8 [16, 16, 3]"),
}


@pytest.mark.parametrize(("task", "spoil", "name", "message"), SPOILED.values(), ids=SPOILED.keys())
def test_bad_files_are_one_line_and_leave_nothing(task, spoil, name, message, root, capsys):
    spoil(root / "files")
    assert message in said(capsys, ["data", "import", task, str(root / "files" / name)])
    assert not [path for path in (root / "data").glob("*") if not path.name.endswith(".lock")]


MISTAKES = {
    "unknown task": (["texts", "x"], "did you mean 'text'?"),
    "a task without files": (["mqar", "x"], "'mqar' is not one of those that are imported, "),
    "no path": (["text"], "PATH"),
    "no such path": (["text", "/nowhere"], "/nowhere: does not have IMDB's reviews"),
    "a file": (["text", __file__], "does not have IMDB's reviews"),
    "unknown split": (
        ["text", "x", "--split", "dev=x"],
        "--split dev=x: must be SPLIT=FILE, with SPLIT one of train",
    ),
    "a split without a file": (["text", "x", "--split", "train="], "--split train=: must be SPLIT=FILE"),
    "a split twice": (["text", "x", "--split", "test=a", "--split", "test=b"], "--split test: given twice"),
}


@pytest.mark.parametrize(("argv", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_line(argv, message, capsys):
    assert message in said(capsys, ["data", "import", *argv])

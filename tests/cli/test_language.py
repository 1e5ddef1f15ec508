"""`zeta data` and `zeta train` on running text: what they show, and mistakes in one line."""

import json
import math

import pandas as pd
import pytest
import torch
from tasks.corpora import json_lines, wiki

from zeta_cli.app import main
from zeta_core.studies.report.settings import main_scores
from zeta_core.studies.train_run import make_run


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ZETA_DATA", str(tmp_path / "data"))
    torch.set_num_threads(1)
    return tmp_path


def settings(**fields):
    return [word for name, value in fields.items() for word in ("--set", f"{name}={value}")]


def test_make_check_list_train(root, capsys):
    path, folder = json_lines(root / "a.jsonl", 90), wiki(root / "wiki", "valid", "test")
    fields = {"source": "jsonl", "path": path, "eval_source": "wikitext103", "eval_path": folder, "seq_len": 64}
    assert main(["data", "make", "language", *settings(**fields), "-j", "2"]) == 0
    assert "language: 98 examples made in" in capsys.readouterr().out
    assert main(["data", "make", "language", *settings(**fields)]) == 0
    assert "everything was there" in capsys.readouterr().out
    assert main(["data", "check", "language", *settings(**fields)]) == 0
    shown = capsys.readouterr().out
    assert "test: 4 documents, " in shown and " words, " in shown and "majority" not in shown
    assert main(["data", "list"]) == 0
    assert capsys.readouterr().out.count("language") >= 4
    argv = [
        "train", "language", *settings(**{f"task.{name}": value for name, value in fields.items()}),
        *settings(**{"model.d_model": 16, "model.num_layers": 1, "training.eval_every": 2}),
        "--set", "task.max_eval_tokens=500",
        "--steps", "2", "--batch-size", "4", "--out", str(root / "out"), "--wandb", "off",
    ]  # fmt: skip
    assert main(argv) == 0
    shown = capsys.readouterr().out
    assert "bits per byte" in shown and shown.count("wikitext103") == 2
    rows = pd.read_csv(root / "out/results/train.csv")
    slices = ["all", "jsonl a.jsonl", "wikitext103 validation", "wikitext103 test"]
    metrics = ["loss", "perplexity", "word_perplexity", "bits_per_byte"]
    assert list(zip(rows["slice"], rows["metric"], strict=True)) == [(s, m) for s in slices for m in metrics]
    values = rows.pivot(index="slice", columns="metric", values="value")
    assert values["perplexity"].to_numpy() == pytest.approx([math.exp(loss) for loss in values["loss"]])
    counts = rows[rows["metric"] == "loss"].set_index("slice")["examples"]
    # WikiText's slices stand apart: `all` is of the text that was trained on.
    (own,) = [name for name in counts.index if name.startswith("jsonl")]
    assert len(counts) == 4 and counts["all"] == counts[own] and values.loc["all"].equals(values.loc[own])
    assert len(main_scores(list(rows.itertuples()))) == 1


MISTAKES = {
    "no path": ({"source": "text"}, "source=text needs task.path"),
    "missing": ({"source": "jsonl", "path": "none.jsonl"}, "none.jsonl: there is no such file or folder"),
    "stride": ({"stride": 300}, "stride=300 is above seq_len=256"),
    "tokenizer": ({"tokenizer": "json", "tokenizer_path": "none.json"}, "none.json: there is no such file"),
    "source": ({"source": "txt"}, "source='txt'"),
    "unread": ({"path": "x"}, "path=x is not read with source=python_stdlib"),
}


@pytest.mark.parametrize("command", ["train", "data make"])
@pytest.mark.parametrize(("fields", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_line(root, capsys, fields, message, command):
    names = fields if command == "data make" else {f"task.{name}": value for name, value in fields.items()}
    out = ["--out", str(root / "out")] if command == "train" else []
    assert main([*command.split(), "language", *settings(**names), *out]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith("zeta: error: ") and message in said
    assert not (root / "out").exists() and not list(root.glob("data/*/"))


def test_a_broken_line_is_one_line_and_leaves_nothing(root, capsys):
    path = json_lines(root / "a.jsonl")
    path.write_text(path.read_text() + json.dumps({"body": "x"}) + "\n")
    fields = settings(**{"task.source": "jsonl", "task.path": path})
    assert main(["train", "language", *fields, "--out", str(root / "out")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert (
        said[-1].startswith("zeta: error: ")
        and "a.jsonl:61: has no text in the field 'text' (it has body)" in said[-1]
    )
    assert not (root / "out").exists() and not list(root.glob("data/*/"))


@pytest.mark.parametrize("preset", ["small", "paper"])
def test_presets(preset, capsys):
    run = make_run("language", preset=preset)
    assert run.attention.chunk_size and run.attention.d_k == 3
    assert run.task.vocab_size == {"small": 257, "paper": 50_257}[preset]
    assert main(["train", "language", "--preset", preset, "--dry-run"]) == 0
    capsys.readouterr()


def test_the_paper_s_preset_says_what_it_needs(root, capsys):
    assert main(["train", "language", "--preset", "paper", "--out", str(root / "out")]) == 2
    assert "task.tokenizer_path: a folder with encoder.json and vocab.bpe" in capsys.readouterr().err

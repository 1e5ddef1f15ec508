"""`zeta locality` typed by hand."""

import pytest
import yaml
from rows import COMMON
from studies.sittings import folder_of, tiny, zeta

from zeta_cli.app import main
from zeta_cli.locality_view import show
from zeta_core.records import LocalityRow
from zeta_core.studies.locality import study

SMALL = [
    "locality", "--seq", "40,80", "--dk", "1,3", "--num-neighbours", "12", "--seeds", "0,1", "--points",
    "uniform,projected", "--wandb", "off", "--device", "cpu",
]  # fmt: skip


def test_a_small_table(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main([*SMALL, "--out", str(tmp_path), "--plot"]) == 0
    out, err = capsys.readouterr()
    assert "uniform points" in out and "projected points" in out and "±" in out
    assert "mean and standard deviation of 2 seeds" in out and "by chance 30.8 of 40, 15.2 of 80" in out
    assert "uniform 40 points, seed 1: 4 rows" in err
    assert (tmp_path / "results" / "locality.csv").exists() and (tmp_path / "results" / "locality.png").exists()


def test_the_paper_stands_beside_its_sizes(tmp_path, capsys):
    argv = ["locality", "--dk", "3,32", "--seq", "512", "--points", "uniform", "--seeds", "0", "--curves", "1"]
    assert main([*argv, "--device", "cpu", "--wandb", "off", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    (three,) = [line for line in out.splitlines() if line.startswith("│   3 │")]
    (many,) = [line for line in out.splitlines() if line.startswith("│  32 │")]
    assert "80-90" in three and " 40 " in many and "±" not in three
    assert "on the curves: one seed" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--points", "gausian"], "did you mean 'gaussian'"),
        (["--points", ""], "--points"),
        (["--dk", "three"], "--dk 'three': must be whole numbers by commas"),
        (["--dk", "3,3"], "3 is there twice"),
        (["--dk", ""], "--dk ''"),
        (["--dk", "200"], "must be at most 128"),
        (["--seq", "1.5"], "--seq '1.5'"),
        (["--curves", "3", "--dk", "2"], "curves=3 needs d_k=3"),
        (["--curves", "4"], "--curves"),
        (["--bits", "x"], "--bits 'x'"),
        (["--seeds", "-1"], "--seeds '-1'"),
        (["--num-neighbours", "512"], "must be less than the shortest of seq_lens, 512"),
        (["--num-neighbours", "many"], "--num-neighbours"),
        (["--examples", "4"], "needs a checkpoint"),
        (["--set", "speed=1"], "unknown field"),
        (["--device", "gpu"], "device='gpu' is not there"),
        (["--wandb", "perhaps"], "--wandb 'perhaps'"),
        (["--checkpoint", "nope"], "neither a run's folder nor the id of a run"),
        (["--checkpoint", "nope", "--bits", "12"], "--bits: bits is for random points"),
        (["--checkpoint", "nope", "--plot"], "--plot draws random points"),
        (["--config", "gone.yaml"], "gone.yaml: there is no such file"),
    ],
)
def test_bad_requests_are_one_line(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    assert main(["locality", *words]) == 2
    shown, err = capsys.readouterr()
    assert message in err and err.count("\n") == 1 and shown == ""
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_shows_the_configuration(tmp_path, capsys):
    assert main([*SMALL, "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert yaml.safe_load(text)["d_ks"] == [1, 3]
    (tmp_path / "again.yaml").write_text(text)
    assert main(["locality", "--config", str(tmp_path / "again.yaml"), "--dry-run"]) == 0
    assert capsys.readouterr().out == text


def test_ctrl_c_says_what_is_kept(tmp_path, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "of_points", interrupted)
    assert main([*SMALL, "--out", str(tmp_path)]) == 130
    assert "the rows so far are kept" in capsys.readouterr().err


def test_a_checkpoint_is_judged_by_the_paper_s_claims(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    assert zeta(tiny(tmp_path)) == 0
    capsys.readouterr()
    argv = ["locality", "--checkpoint", folder_of(tmp_path).name, "--device", "cpu", "--wandb", "off"]
    assert main([*argv, "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "d_K 3, k 4, 4 chunks; %, 16 examples" in out
    assert "paper: over 60.0 % on average: " in out and "where there is a choice)" in out
    assert "all heads missing one key" in out and "p^heads" in out and "answer" in out


@pytest.mark.parametrize(
    ("recalls", "verdict"),
    [
        ((0.5, 0.72), "mean recall 61.0 % (40.0 % where there is a choice); paper: over 60.0 % on average: met"),
        ((0.5, 0.7), "paper: over 60.0 % on average: not met"),
        ((0.5, 0.6), "mean recall 55.0 % (40.0 %"),
    ],
)
def test_the_claim_is_met_or_not_by_the_mean_over_layers_and_heads(tmp_path, monkeypatch, capsys, recalls, verdict):
    monkeypatch.setenv("COLUMNS", "200")
    settings = {"points": "model", "squash": "sigmoid", "d_k": 3, "seq_len": 64, "curves": 1, "bits": 12}
    settings |= {"num_neighbours": 8, "checkpoint": "a-run", "top_k": 8, "num_chunks": 4, "num_examples": 2}
    rows = [
        LocalityRow(
            **COMMON, **settings, run_id="x", seed=0, layer=0, head=head, overlap=0.1, recall=recall,
            recall_choosing=0.4,
        )
        for head, recall in enumerate(recalls)
    ]  # fmt: skip
    show(study.LocalityResult(rows, tmp_path / "locality.csv"))
    out = capsys.readouterr().out
    assert verdict in out and "all heads missing" not in out


def test_softmax_is_refused_in_one_line(tmp_path, capsys):
    argv = [word for word in tiny(tmp_path, "--attention", "softmax") if word not in ("--k", "--chunks", "4")]
    assert zeta(argv) == 0
    capsys.readouterr()
    assert main(["locality", "--checkpoint", str(folder_of(tmp_path)), "--out", str(tmp_path)]) == 2
    shown, err = capsys.readouterr()
    (line,) = [line for line in err.splitlines() if line.startswith("zeta: error: ")]
    assert "its attention is softmax" in line and shown == ""

"""`zeta bench` typed by hand."""

import pytest
from rows import bench_row

from zeta_cli.app import main
from zeta_core.records import append_rows
from zeta_core.studies.bench import study
from zeta_core.studies.bench.measure import Measurement

SMALL = ["bench", "--seq", "32,64", "--k", "4", "--chunks", "4", "--budget", "0.01", "--wandb", "off"]
TWO = ["--providers", "zeta_reference,sdpa_flash"]


def test_a_small_table(tmp_path, capsys):
    assert main([*SMALL, *TWO, "--out", str(tmp_path), "--plot"]) == 0
    out, err = capsys.readouterr()
    assert "8 rows on" in err and "zeta_reference" in err
    assert "forward_backward, eager: batch 1, 8 heads" in out
    assert "sdpa_flash, the fastest dense attention, at 64" in out
    assert "time grows as N^" in out
    assert (tmp_path / "results" / "bench.csv").exists() and (tmp_path / "results" / "bench.png").exists()


def test_what_did_not_run_is_said_once(tmp_path, capsys):
    main([*SMALL, "--providers", "zeta_reference,sdpa_cudnn", "--out", str(tmp_path)])
    out, err = capsys.readouterr()
    assert out.count("sdpa_cudnn") == 1 and "sdpa_cudnn: skipped: torch has this backend" in out
    assert "sdpa_cudnn" not in err


def test_there_is_no_picture_of_nothing(tmp_path, capsys):
    words = ["--seq", "32", "--providers", "sdpa_cudnn", "--plot", "--wandb", "off"]
    assert main(["bench", *words, "--out", str(tmp_path)]) == 0
    assert "no picture: nothing was timed" in capsys.readouterr().out
    assert not (tmp_path / "results" / "bench.png").exists()


@pytest.mark.parametrize(("status", "code"), [("failed", 1), ("killed", 1), ("timeout", 1), ("oom", 0)])
def test_the_exit_code(tmp_path, monkeypatch, capsys, status, code):
    monkeypatch.setattr(study.Worker, "measure", lambda *_: Measurement(status, "as it happens"))
    assert main([*SMALL, *TWO, "--out", str(tmp_path)]) == code
    assert f"{status}: as it happens" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seq", "0"], "--seq '0': must be whole numbers of 1 or more"),
        (["--seq", "many"], "--seq 'many'"),
        (["--providers", "flsh"], "'flsh' is not one of the providers"),
        (["--preset", "papers"], "did you mean 'paper'"),
        (["--providers", "naive", "--k", "8"], "--k: none of naive has top_k"),
        (["--mode", "backward"], "--mode"),
        (["--set", "speed=1"], "unknown field"),
        (["compare", "a.csv", "b.csv"], "a.csv: there is no such file"),
        (["--wandb", "perhaps"], "--wandb 'perhaps'"),
    ],
)
def test_bad_requests_are_one_line(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    assert main(["bench", *words]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_shows_the_configuration(tmp_path, capsys):
    assert main([*SMALL, *TWO, "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "seq_lens: [32, 64]" in text
    (tmp_path / "again.yaml").write_text(text)
    assert main(["bench", "--config", str(tmp_path / "again.yaml"), "--dry-run"]) == 0
    assert capsys.readouterr().out == text


def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(study.Worker, "measure", interrupted)
    assert main([*SMALL, "--out", str(tmp_path)]) == 130
    assert "the rows so far are kept" in capsys.readouterr().err


def test_compare(tmp_path, capsys):
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    append_rows(old, [bench_row(), bench_row(seq_len=2048)])
    append_rows(new, [bench_row(), bench_row(seq_len=2048, time_ms=2.0)])
    assert main(["bench", "compare", str(old), str(old)]) == 0
    assert main(["bench", "compare", str(old), str(new)]) == 1
    out = capsys.readouterr().out
    assert "2 rows compared: 2 the same, 0 worse" in out
    assert "2 rows compared: 1 the same, 1 worse" in out and "slower" in out

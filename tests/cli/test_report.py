"""`zeta report` typed by hand."""

import pytest
from studies.report.made_up import sweep, train_row

from zeta_cli.app import main
from zeta_core.records import append_rows

WIDE = {"two_layer": 0.9, "random_fixed": 0.5}


@pytest.fixture
def out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "220")
    append_rows(tmp_path / "out" / "results" / "train.csv", [train_row(), train_row(status="killed")])
    return tmp_path / "out"


def test_tables_a_page_and_figures(out, capsys):
    rows = [*sweep("dk", "d_k", {1: 0.5, 3: 0.9, 8: 0.9}), *sweep("dk", "d_k", {3: 0.1}, status="oom")]
    append_rows(out / "results" / "ablate.csv", rows)
    assert main(["report"]) == 0
    text, err = capsys.readouterr()
    assert err == ""
    assert "1 killed" in text and "3 oom" in text and "d_K = 1 hurts (on ZETA, mqar)" in text
    assert "2 reproduced" in text and "zeta ablate --config experiments/ablate/mqar_k.yaml" in text
    assert "page in out/REPORT.md, 2 figures in out/results/figures" in text
    assert "| 3 | 0.9000 |" in (out / "REPORT.md").read_text()


def test_values_are_whole_on_a_narrow_terminal(out, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    append_rows(out / "results" / "ablate.csv", sweep("projection", "projection", WIDE))
    assert main(["report"]) == 0
    shown = capsys.readouterr().out
    assert "│ random_fixed │" in shown and "│ two_layer    │" in shown


def test_in_a_file_tables_are_as_wide_as_they_need(out, capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    append_rows(out / "results" / "ablate.csv", sweep("projection", "projection", WIDE))
    assert main(["report"]) == 0
    assert "mean accuracy" in capsys.readouterr().out


def test_the_folder_here_is_the_evidence(out, capsys, monkeypatch):
    monkeypatch.chdir(out)
    assert main(["report", "--out", "."]) == 0
    assert "| the same rows |" in (out / "REPORT.md").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "empty"], "empty/results holds no rows to report; `zeta train mqar --out empty` makes some"),
        (["--evidence", "nowhere"], "--evidence nowhere"),
        (["--evidense", "out"], "did you mean '--evidence'?"),
        (["extra"], "unexpected extra argument"),
    ],
)
def test_refusals(out, capsys, words, message):
    assert main(["report", *words]) == 2
    err = capsys.readouterr().err
    assert message.lower() in err.lower() and err.count("\n") == 1
    assert not (out / "REPORT.md").exists()


def test_a_broken_table_is_one_line(out, capsys):
    path = out / "results" / "bench.csv"
    path.write_text("provider,time_ms\nnaive,1.0\n")
    assert main(["report"]) == 2
    err = capsys.readouterr().err
    assert "out/results/bench.csv: has no column study" in err and err.count("\n") == 1
    assert not (out / "REPORT.md").exists()

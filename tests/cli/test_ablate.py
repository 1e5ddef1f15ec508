"""`zeta ablate` typed by hand: refusals, and what is shown."""

import pytest

from zeta_cli.ablate_view import notes
from zeta_cli.app import main
from zeta_core.studies import launch
from zeta_core.studies.ablate.summary import summarise


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dkk", "--task", "mqar"], "axis 'dkk' is not one of"),
        (["dk"], "no TASK given"),
        (["dk", "--task", "mqar", "--retry", "fail"], "--retry 'fail' is not one of all, failed"),
        (["dk", "--task", "mqar", "-j", "0"], "-j 0: must be 1 or more"),
        (["dk", "--task", "mqar", "--timeout", "0"], "--timeout 0: must be more than 0 seconds"),
        (["dk", "--task", "mqar", "--slurm", "partition"], "--slurm 'partition': write KEY=VALUE"),
        (["dk", "--task", "mqar", "--slurm", "partition=gpu"], "slurm cannot be used"),
        (["dk", "--task", "mqar", "--wandb", "no"], "--wandb 'no'"),
    ],
)
def test_refusals_are_one_line_and_write_nothing(tmp_path, capsys, words, message):
    out = tmp_path / "out"
    assert main(["ablate", *words, "--out", str(out)]) == 2
    shown, said = capsys.readouterr()
    assert message in said and said.count("\n") == 1 and shown == ""
    assert not (out / "results").exists()


def test_without_submitit_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: None)
    assert main(["ablate", "dk", "--task", "mqar", "-j", "2", "--out", str(tmp_path)]) == 2
    assert "pip install 'zeta-attention[sweep]'" in capsys.readouterr().err


def test_a_dry_run_shows_the_sweep(capsys):
    assert main(["ablate", "dk", "--task", "mqar", "--values", "1,3", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "kind: ablate" in shown and "values: [1, 3]" in shown and "seeds: [0, 1, 2]" in shown


def test_the_table_says_what_its_numbers_rest_on():
    row = {"slice": "all", "metric": "accuracy", "system": "zeta", "status": "ok", "value": "0.4", "examples": "500"}
    rows = [
        {**row, "axis_value": "zeta", "parameters": "2040", "majority": "0.169"},
        {**row, "axis_value": "softmax", "parameters": "2000", "majority": "0.169"},
    ]
    cells = summarise(rows)
    assert [cell.majority for cell in cells] == [0.169, 0.169]
    assert notes(cells, (0, 1)) == [
        "500 test answers scored, seeds 0, 1; majority: what always saying the commonest class scores",
        "2,000 to 2,040 parameters without the embeddings, 2.0 % apart",
    ]
    assert notes(summarise([{**row, "axis_value": "zeta"}]), (0,)) == ["500 test answers scored, seed 0"]


def test_what_an_axis_sets_is_not_dropped_in_silence(capsys):
    words = ["--dry-run", "--set", "attention.chunk_size=8", "--set", "training.batch_size=8", "--steps", "3"]
    assert main(["ablate", "chunks", "--task", "mqar", *words]) == 0
    said = capsys.readouterr().err
    assert said == "zeta: note: --set attention.chunk_size is dropped, since AXIS chunks is given\n"
    assert main(["ablate", "training.steps", "--task", "mqar", "--values", "3,4", *words]) == 0
    assert capsys.readouterr().err == "zeta: note: --steps is dropped, since AXIS training.steps is given\n"
    words += ["--set", "training.steps=7"]
    assert main(["ablate", "dk", "--task", "mqar", *words]) == 0
    assert capsys.readouterr().err == "zeta: note: --set training.steps is dropped, since --steps is given\n"

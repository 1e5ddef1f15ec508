"""A run that ends by memory, by a bug or by Ctrl-C says so in its state, its row and its log."""

import json
import sys

import pytest
import torch
from studies.sittings import agree, folder_of, rows_of, tiny, zeta

from zeta_core.studies import train
from zeta_core.studies.train_failures import SMALLER, out_of_memory, reason_of

CPU = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"


def raising(error):
    def instead(*given, **options):
        raise error

    return instead


def state(out):
    return json.loads((folder_of(out) / "state.json").read_text())


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError(f"{CPU} 655 bytes."), torch.OutOfMemoryError("CUDA out of memory. Tried 9 GiB")],
    ids=["python", "torch on a CPU", "a GPU"],
)
@pytest.mark.parametrize("place", ["fit", "build"])
def test_out_of_memory_has_its_row(tmp_path, capsys, monkeypatch, error, place):
    monkeypatch.setattr(
        *((train, "fit") if place == "fit" else (train.TrainRun.model_fields["model"].annotation, "build")),
        raising(error),
    )
    assert zeta(tiny(tmp_path)) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    log = folder_of(tmp_path) / "log.txt"
    assert line.startswith(f"zeta: error: {folder_of(tmp_path).name} oom: out of memory (")
    assert SMALLER in line and line.endswith(f"(log: {log})")
    assert state(tmp_path)["status"] == "oom" and "out of memory" in state(tmp_path)["reason"]
    (row,) = rows_of(tmp_path)
    assert (row["status"], row["value"], row["parameters"] == "") == ("oom", "", place == "build")
    assert "oom: Traceback" in log.read_text()


def test_memory_is_not_what_every_error_is_about():
    assert not out_of_memory(RuntimeError("shapes differ")) and not out_of_memory(ValueError(CPU))
    assert reason_of(MemoryError()) == f"out of memory (MemoryError); {SMALLER}"


def test_examples_that_do_not_fit_in_memory_are_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("zeta_core.tasks.MqarConfig.build", raising(MemoryError("Unable to allocate 3 TiB")))
    assert zeta(tiny(tmp_path / "out")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "task mqar: its examples do not fit in memory (Unable to allocate 3 TiB); use fewer" in line
    assert not (tmp_path / "out").exists()


def test_a_bug_is_in_the_log_and_has_its_row(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(train, "fit", raising(ZeroDivisionError("division\nby zero")))
    assert zeta(tiny(tmp_path)) == 1
    said = capsys.readouterr().err
    log = folder_of(tmp_path) / "log.txt"
    assert said.splitlines()[-1] == (
        f"zeta: error: {folder_of(tmp_path).name} failed: ZeroDivisionError: division (log: {log})"
    )
    assert "Traceback" not in said
    assert state(tmp_path) == {"status": "failed", "reason": "ZeroDivisionError: division"}
    assert [row["status"] for row in rows_of(tmp_path)] == ["failed"]
    assert "failed: Traceback" in log.read_text() and "in instead" in log.read_text()
    assert zeta(["--debug", *tiny(tmp_path)]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_leaves_a_run_to_go_on_with(tmp_path, capsys, monkeypatch):
    assert zeta(tiny(tmp_path / "whole")) == 0
    out = tmp_path / "out"
    steps = []

    def stopping(self, step):
        steps.append(step)
        if step == 5:
            raise KeyboardInterrupt
        return at(self, step)

    from zeta_core.training.batches import BatchOrder

    at = BatchOrder.at
    monkeypatch.setattr(BatchOrder, "at", stopping)
    monkeypatch.setattr(sys, "argv", ["zeta", *tiny(out)])
    assert zeta(tiny(out)) == 130
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("zeta: interrupted; go on with: zeta train mqar") and said.endswith(" --resume")
    assert state(out) == {"status": "interrupted", "reason": "--resume goes on with it"}
    monkeypatch.setattr(BatchOrder, "at", at)
    assert zeta(tiny(out, "--resume")) == 0
    agree(out, tmp_path / "whole")


def test_ctrl_c_before_the_run_is_begun_leaves_nothing_to_resume(tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    monkeypatch.setattr(train, "start_accelerator", raising(KeyboardInterrupt()))
    monkeypatch.setattr(sys, "argv", ["zeta", *tiny(out)])
    assert zeta(tiny(out)) == 130
    said = capsys.readouterr().err.splitlines()[-1]
    assert "start again with: zeta train mqar" in said and "--resume" not in said
    assert not out.exists()


def test_a_reader_that_leaves_does_not_fail_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(train, "fit", raising(BrokenPipeError("gone")))
    assert zeta(tiny(tmp_path)) == 1
    assert state(tmp_path)["status"] == "interrupted"
    assert not (tmp_path / "results").exists()


NO_TABLES = {
    "no text": (b"\xff\xfe\x00bad\n", "byte 0 is not UTF-8"),
    "another table": (b"a,b\n1,2\n", "no column run_id, slice, metric, value"),
    "some other text": (b"notes", "no column run_id"),
    "a row too long": (b"run_id,slice,metric,value\na,b,c,d,e\n", "row 1 is longer than the header"),
}


@pytest.mark.parametrize(("held", "words"), NO_TABLES.values(), ids=NO_TABLES.keys())
def test_a_table_that_cannot_take_the_rows_is_refused_before_training(tmp_path, capsys, monkeypatch, held, words):
    monkeypatch.setattr(train, "fit", None)
    table = tmp_path / "results" / "train.csv"
    table.parent.mkdir()
    table.write_bytes(held)
    assert zeta(tiny(tmp_path)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{table}: rows cannot be added to it: " in line and words in line and "choose another --out" in line
    assert table.read_bytes() == held and [path.name for path in tmp_path.iterdir()] == ["results"]

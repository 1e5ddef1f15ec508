"""A sweep outlives what becomes of its runs, and a rerun does what is missing."""

import errno
import os
import time

import psutil
import pytest
from processes import begin
from studies.ablate.sweeps import LONG, rows_of, statuses, sweep
from studies.sittings import zeta

from zeta_core.errors import StorageError
from zeta_core.studies import launch
from zeta_core.studies.ablate import study
from zeta_core.studies.train_run import make_run
from zeta_core.tasks import MqarConfig


def start(argv, log):
    """The command in a process of its own, which can be killed."""
    return begin(zeta, argv, words=log, environment={"OMP_NUM_THREADS": "1"})


def end_of(process):
    """Its exit code."""
    process.join(120)
    return process.exitcode


def wait_until(what, seconds=60):
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < seconds, "it never came to that"
        time.sleep(0.02)


def training(out, steps):
    """Whether the run of so many steps has begun to train."""
    texts = [path.parent for path in out.glob("runs/*/metrics.csv")]
    return any(f"steps: {steps}\n" in (folder / "config.yaml").read_text() for folder in texts)


def test_rows_of_every_value_and_slice(tmp_path, capsys):
    assert zeta(sweep(tmp_path, "dk", "1,3", "--seeds", "0,1")) == 0
    out, err = capsys.readouterr()
    assert "4 runs, 1 at a time" in err and "for training, by a few steps" in err and "[4/4] dk=3, seed 1" in err
    assert "mean accuracy" in out and "the paper on dk" in out
    rows = rows_of(tmp_path)
    assert [(row["axis_value"], row["seed"], row["slice"]) for row in rows] == [
        (value, seed, part) for seed in "01" for value in "13" for part in ("all", "pairs=2")
    ]
    assert {(row["axis"], row["system"], row["status"], row["study"]) for row in rows} == {
        ("dk", "zeta", "ok", "ablate")
    }
    assert [row["d_k"] for row in rows[:4:2]] == ["1", "3"]
    assert not (tmp_path / "results" / "train.csv").exists()
    assert {row["trained"] for row in rows} == {path.name for path in (tmp_path / "runs").iterdir()}


def test_a_rerun_does_nothing_again(tmp_path, capsys):
    zeta(sweep(tmp_path, "dk", "1,3"))
    before = rows_of(tmp_path)
    assert zeta(sweep(tmp_path, "dk", "3,1,2")) == 0
    assert "1 runs, 1 at a time, 2 done before" in capsys.readouterr().err
    assert rows_of(tmp_path)[: len(before)] == before and statuses(tmp_path) == dict.fromkeys("132", "ok")


def test_axes_share_the_runs_that_they_have_in_common(tmp_path):
    zeta(sweep(tmp_path, "dk", "3"))
    folders = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*/rows.json")}
    assert zeta(sweep(tmp_path, "k", "4")) == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*/rows.json")} == folders
    rows = [row for row in rows_of(tmp_path) if row["slice"] == "all"]
    assert [(row["axis"], row["axis_value"]) for row in rows] == [("dk", "3"), ("k", "4")]
    assert rows[0]["value"] == rows[1]["value"] and rows[0]["trained"] == rows[1]["trained"]


def test_a_diverging_run_is_a_row_and_the_only_one_done_again(tmp_path, capsys):
    line = sweep(tmp_path, "learning_rate", "1e30,1e-3")
    assert zeta(line) == 1
    shown = capsys.readouterr().out
    assert "learning_rate=1e+30, seed 0: failed:" in shown and "log.txt" in shown
    assert statuses(tmp_path) == {"1e+30": "failed", "0.001": "ok"}
    bad = next(row for row in rows_of(tmp_path) if row["status"] == "failed")
    assert "not finite" in bad["reason"] and bad["log"].endswith("log.txt") and bad["value"] == ""
    assert zeta(line) == 1
    assert "1 runs, 1 at a time, 1 done before" in capsys.readouterr().err
    assert statuses(tmp_path) == {"1e+30": "failed", "0.001": "ok"}


@pytest.mark.parametrize(("retry", "runs"), [("failed", 1), ("oom", 0), ("all", 2)])
def test_retry_narrows_a_rerun(tmp_path, capsys, retry, runs):
    zeta(sweep(tmp_path, "learning_rate", "1e30"))
    capsys.readouterr()
    zeta(sweep(tmp_path, "learning_rate", "1e30,1e-3", "--retry", retry))
    out, err = capsys.readouterr()
    assert f"{runs} runs, 1 at a time" in err
    assert (f"{2 - runs} runs without a score were left out" in out) == (runs < 2)


@pytest.mark.parametrize("how", [(), ("-j", "1")], ids=["here", "in a process"])
def test_a_run_that_hangs(tmp_path, how):
    assert zeta(sweep(tmp_path, "training.steps", f"{LONG},2", "--timeout", "15" if how else "4", *how)) == 1
    assert statuses(tmp_path) == {str(LONG): "timeout", "2": "ok"}
    bad = next(row for row in rows_of(tmp_path) if row["status"] == "timeout")
    assert bad["reason"] == f"no end after {15 if how else 4} s" and bad["data_fingerprint"]


def test_a_first_run_that_hangs_gives_no_estimate_and_no_wait(monkeypatch):
    monkeypatch.setattr(study, "run_train", lambda *_, **__: time.sleep(60))
    began = time.monotonic()
    assert study.probe_seconds(make_run("mqar"), 0.2) is None
    assert time.monotonic() - began < 10


def test_a_full_folder_for_temporary_files_takes_the_estimate_alone(monkeypatch):
    def full(*_, **__):
        raise StorageError("no space left")

    monkeypatch.setattr(study, "run_train", full)
    assert study.probe_seconds(make_run("mqar")) is None


def test_kill_9_of_a_worker(tmp_path):
    process = start(sweep(tmp_path / "out", "training.steps", f"{LONG},2", "-j", "1"), tmp_path / "log")
    wait_until(lambda: training(tmp_path / "out", LONG))
    for child in psutil.Process(process.pid).children(recursive=True):
        if "_submit" in " ".join(child.cmdline()):
            child.kill()
    assert end_of(process) == 1, (tmp_path / "log").read_text()
    assert statuses(tmp_path / "out") == {str(LONG): "killed", "2": "ok"}


@pytest.mark.parametrize("how", [(), ("-j", "1")], ids=["here", "in processes"])
def test_kill_9_of_the_sweep(tmp_path, how, capsys):
    out = tmp_path / "out"
    line = sweep(out, "training.steps", "2,400", *how)
    process = start(line, tmp_path / "log")
    wait_until(lambda: training(out, 400))
    process.kill()
    process.join()
    assert statuses(out) == {"2": "ok"}
    assert zeta([*line, "--resume"]) == 0
    assert "1 runs, 1 at a time, 1 done before" in capsys.readouterr().err
    assert statuses(out) == {"2": "ok", "400": "ok"}


def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupted(work, monitor):
        raise KeyboardInterrupt

    monkeypatch.setattr(launch, "train_one", interrupted)
    assert zeta(sweep(tmp_path, "dk", "1,3")) == 130
    assert "go on with: zeta " in capsys.readouterr().err


def test_an_error_that_nobody_expected_is_a_row(tmp_path, monkeypatch):
    train_one = launch.train_one

    def first_fails(work, monitor):
        if work.run.attention.d_k == 1:
            raise LookupError("no such thing")
        train_one(work, monitor)

    monkeypatch.setattr(launch, "train_one", first_fails)
    assert zeta(sweep(tmp_path, "dk", "1,3")) == 1
    assert statuses(tmp_path) == {"1": "failed", "3": "ok"}
    assert rows_of(tmp_path)[0]["reason"] == "LookupError: no such thing"


def test_a_full_disk_stops_the_sweep_and_loses_nothing(tmp_path, monkeypatch, capsys):
    zeta(sweep(tmp_path, "dk", "1"))
    before = (tmp_path / "results" / "ablate.csv").read_bytes()
    real = os.fsync

    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert zeta(sweep(tmp_path, "dk", "1,3")) == 1
    assert "No space left" in capsys.readouterr().err
    assert (tmp_path / "results" / "ablate.csv").read_bytes() == before
    monkeypatch.setattr(os, "fsync", real)
    assert zeta(sweep(tmp_path, "dk", "1,3")) == 0
    assert statuses(tmp_path) == {"1": "ok", "3": "ok"}


def test_a_last_line_cut_short_is_done_again(tmp_path):
    zeta(sweep(tmp_path, "dk", "1,3"))
    table = tmp_path / "results" / "ablate.csv"
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join(lines[:-2]) + lines[-2][:30])
    assert statuses(tmp_path) != {"1": "ok", "3": "ok"}
    assert zeta(sweep(tmp_path, "dk", "1,3")) == 0
    assert statuses(tmp_path) == {"1": "ok", "3": "ok"}


@pytest.mark.parametrize("how", [(), ("-j", "2")], ids=["here", "in processes"])
def test_a_table_without_a_column_is_refused(tmp_path, capsys, how):
    table = tmp_path / "results" / "ablate.csv"
    table.parent.mkdir()
    table.write_text("run_id,status\na,ok\n")
    assert zeta(sweep(tmp_path, "dk", "1,3", *how)) == 2
    assert "it has no column axis, axis_value" in capsys.readouterr().err
    assert table.read_text() == "run_id,status\na,ok\n" and not (tmp_path / "runs").exists()


def test_a_changed_default_is_another_run(tmp_path, monkeypatch, capsys):
    zeta(sweep(tmp_path, "dk", "1,3"))
    small = MqarConfig.presets["small"]
    changed = {**small, "training": {**small["training"], "learning_rate": 1e-3}}
    monkeypatch.setattr(MqarConfig, "presets", {**MqarConfig.presets, "small": changed})
    capsys.readouterr()
    assert zeta(sweep(tmp_path, "dk", "1,3")) == 0
    out, err = capsys.readouterr()
    assert "2 runs, 1 at a time" in err and "done before" not in err
    assert len([row for row in rows_of(tmp_path) if row["slice"] == "all"]) == 4
    assert [line.split()[-4] for line in out.splitlines() if line.startswith("│ 1 ")] == ["1"]  # runs, not two


def test_two_sweeps_at_once_write_whole_rows(tmp_path):
    line = sweep(tmp_path / "out", "dk", "1,2,3,4")
    both = [start(line, tmp_path / f"log{number}") for number in range(2)]
    assert [end_of(process) for process in both] == [0, 0], (tmp_path / "log0").read_text()
    assert statuses(tmp_path / "out") == dict.fromkeys("1234", "ok")
    assert len(rows_of(tmp_path / "out")) == 8


def test_processes_of_their_own_train_the_same(tmp_path):
    assert zeta(sweep(tmp_path / "here", "dk", "1,3")) == 0
    assert zeta(sweep(tmp_path / "there", "dk", "1,3", "-j", "2")) == 0
    here, there = (
        sorted((row["axis_value"], row["slice"], row["value"]) for row in rows_of(tmp_path / name))
        for name in ("here", "there")
    )
    assert here == there

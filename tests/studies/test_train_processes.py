"""Two processes share a run: the same rows, once. When one of them ends, the run does, and can be gone on with."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from accelerate import Accelerator
from studies.sittings import folder_of, metrics_of, rows_of, sit, tiny, together, weights_of, zeta

from zeta_core.errors import ConfigError, OptionError
from zeta_core.run_folder import RunFolder
from zeta_core.studies import train_processes
from zeta_core.studies.train_processes import Processes, ProcessLost, Terminated, agreed, forget_words
from zeta_core.studies.train_run import make_run

TESTS = Path(__file__).parents[1]
LONG = ["--steps", "24", "--set", "training.checkpoint_seconds=0.01"]
CUT = ["--set", "training.sharding=fsdp"]


def start(argv, words, *, delay):
    """A command line in two slow processes under torchrun, whose words go to a file."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    paths = f"{TESTS}{os.pathsep}{TESTS.parent}"
    with words.open("a") as file:
        return subprocess.Popen(
            [*launcher, str(TESTS / "studies" / "slowly.py"), str(delay), *argv],
            stdout=file,
            stderr=file,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
        )


def said(words):
    """The lines that are ours: not the launcher's."""
    ours = ("zeta", "mqar-", "step ", "resumed", "W&B", "best ", "rows ", "training.")
    return [line for line in words.read_text().splitlines() if line.startswith(ours)]


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def state(out):
    return json.loads((folder_of(out) / "state.json").read_text())


def curve(out):
    """The losses of training and validation at each validation, and the test scores."""
    with (out / "results" / "train.csv").open() as file:
        test = [float(row["value"]) for row in csv.DictReader(file)]
    names = ("loss", "validation.all.loss")
    return [[float(row[name]) for name in names] for row in metrics_of(out)] + [test]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What one process makes of the run that nobody stops."""
    out = tmp_path_factory.mktemp("whole")
    process = sit(long(out / "out", *LONG), out / "words")
    process.join()
    assert process.exitcode == 0, (out / "words").read_text()
    return out / "out"


def long(out, *options):
    """A run's command line, without dropout: each process draws its own."""
    return [word.replace("model.dropout=0.1", "model.dropout=0") for word in tiny(out, *options)]


def close(out, other):
    for ours, theirs in zip(curve(out), curve(other), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)


def kill_one(argv, words, rank):
    """Start two slow processes and kill one of them in the middle."""
    launcher = start(argv, words, delay=0.05)
    until(lambda: "step 8/24" in words.read_text())
    (process,) = (
        child for child in psutil.Process(launcher.pid).children() if child.environ().get("RANK") == str(rank)
    )
    process.kill()
    began = time.monotonic()
    assert launcher.wait(timeout=60) == 1
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(("rank", "options"), [(0, LONG), (1, [*LONG, *CUT])], ids=["main", "other, cut"])
def test_a_killed_process_ends_the_run_which_goes_on(whole, tmp_path, rank, options):
    """After the main one's end two go on, after the other's one."""
    out, words = tmp_path / "out", tmp_path / "words"
    kill_one(long(out, *options), words, rank)
    reason = f"process {rank} of 2 was killed or failed; --resume goes on from the last checkpoint"
    assert state(out) == {"status": "failed", "reason": reason}
    lines = [line for line in said(words) if line.startswith("zeta: error")]
    log = folder_of(out) / "log.txt"
    assert lines == [f"zeta: error: {folder_of(out).name} failed: {reason} (log: {log})"]
    assert "Traceback" not in log.read_text() and reason in log.read_text()
    assert [row["status"] for row in rows_of(out)] == ["failed"]
    if rank == 0:
        assert together(long(out, *options, "--resume"), words) == [0, 0], words.read_text()
    else:
        assert zeta(long(out, *options, "--resume")) == 0
    assert state(out)["status"] == "ok"
    close(out, whole)


def test_two_go_on_with_what_was_killed_alone(whole, tmp_path):
    out, words, options = tmp_path / "out", tmp_path / "words", [*LONG, *CUT]
    process = sit(long(out, *options), words, delay=0.02)
    until(lambda: words.exists() and "step 8/24" in words.read_text())
    process.kill()
    process.join()
    assert state(out)["status"] == "running"
    words.write_text("")
    assert together(long(out, *options, "--resume"), words) == [0, 0], words.read_text()
    lines = said(words)
    assert len(set(lines)) == len(lines)
    cut_off = f"{folder_of(out).name}: the last sitting was cut off: it was killed, or the machine stopped"
    assert cut_off in lines and any(line.startswith("resumed at step") for line in lines)
    close(out, whole)


def test_two_processes_train_as_one(tmp_path):
    options = ["--steps", "6", "--set", "model.dropout=0", "--seed", "2"]
    argv = [word.replace("model.dropout=0.1", "model.d_mlp=32") for word in tiny(tmp_path / "two")] + options
    words = tmp_path / "words"
    assert together(argv, words) == [0, 0], words.read_text()
    assert words.read_text().count("test scores") == 1
    assert len(set(said(words))) == len(said(words)) > 5
    argv[argv.index(str(tmp_path / "two"))] = str(tmp_path / "one")
    assert zeta(argv) == 0
    assert folder_of(tmp_path / "two").name == folder_of(tmp_path / "one").name
    two, one = rows_of(tmp_path / "two"), rows_of(tmp_path / "one")
    assert [row["slice"] for row in two] == ["all", "pairs=2"]
    for ours, theirs in zip(two, one, strict=True):
        assert {name for name in ours if ours[name] != theirs[name]} <= {"value", "best_step"}
        assert abs(float(ours["value"]) - float(theirs["value"])) <= 2 / 48
    assert [row["step"] for row in metrics_of(tmp_path / "two")] == ["2", "4", "6"]
    last = [weights_of(place)[1] for place in (tmp_path / "two", tmp_path / "one")]
    for name, tensor in last[0].items():
        torch.testing.assert_close(tensor, last[1][name], rtol=0, atol=2e-3)
        assert (tensor - last[1][name]).abs().mean() < 1e-4


@pytest.mark.parametrize(
    ("more", "code", "line"),
    [
        (["--resume"], 2, "holds no run of this configuration"),
        (["--lr", "1e30", "--set", "training.warmup_steps=0"], 1, "not finite at step 2"),
    ],
    ids=["refused", "failed"],
)
def test_what_all_processes_find_is_said_once(tmp_path, more, code, line):
    words = tmp_path / "words"
    assert together(tiny(tmp_path / "out", *more), words) == [code, code]
    (error,) = (one for one in said(words) if one.startswith("zeta: error"))
    assert line in error


def two_of(monkeypatch, rank, *pids):
    """The processes of these ids, seen from the one of this rank."""
    host = train_processes.socket.gethostname()
    monkeypatch.setattr(train_processes, "gather_object", lambda mine: [(host, pid) for pid in pids])
    accelerator = Accelerator(cpu=True)
    monkeypatch.setattr(Accelerator, "num_processes", len(pids))
    monkeypatch.setattr(Accelerator, "process_index", rank)
    monkeypatch.setattr(train_processes, "SHOWS", 0.3)
    return Processes(accelerator, 5.0)


@pytest.fixture
def dead():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def folder(tmp_path):
    found = RunFolder(tmp_path / "run")
    with found.locked():
        found.set_status("running")
    return found


def test_the_first_that_is_left_speaks(monkeypatch, dead, folder):
    alive = os.getpid()
    assert two_of(monkeypatch, 0, alive, dead).speaks(folder)
    assert two_of(monkeypatch, 2, dead, dead, alive).speaks(folder)
    assert not two_of(monkeypatch, 2, dead, alive, alive).speaks(folder)
    with folder.locked():
        assert not two_of(monkeypatch, 1, dead, alive).speaks(folder)
    folder.set_status("oom")
    assert not two_of(monkeypatch, 1, dead, alive).speaks(folder)


def test_another_process_repeats_what_the_main_one_wrote(monkeypatch, folder):
    alive = os.getpid()
    assert not two_of(monkeypatch, 1, alive, alive).repeats(folder)
    folder.set_status("failed")
    assert two_of(monkeypatch, 1, alive, alive).repeats(folder)
    assert not two_of(monkeypatch, 0, alive, alive).repeats(folder)


def test_one_that_fails_alone_leaves_word_for_the_main_process(monkeypatch, dead, folder):
    alive, lost = os.getpid(), ProcessLost("process 1 of 2 was killed or failed", [1])
    end = two_of(monkeypatch, 1, alive, alive).verdict(MemoryError("3 TiB"), folder)
    assert (end.status, end.speaks, end.logged, end.quiet) == ("oom", False, True, True)
    end = two_of(monkeypatch, 0, alive, dead).verdict(lost, folder)
    assert (end.status, end.speaks, end.logged, end.quiet) == ("oom", True, True, False)
    assert end.reason.startswith("out of memory (3 TiB); ") and end.reason.endswith(" (process 1)")
    forget_words(folder)
    assert two_of(monkeypatch, 0, alive, dead).verdict(lost, folder).reason == str(lost)
    end = two_of(monkeypatch, 2, alive, dead, alive).verdict(lost, folder)
    assert (end.speaks, end.logged, end.quiet) == (False, False, True)


@pytest.mark.parametrize(
    ("error", "others", "becomes", "words"),
    [
        (
            RuntimeError("[gloo/pair.cc:1] Connection closed by peer"),
            "dead",
            ProcessLost,
            "process 1 of 2 was killed",
        ),
        (RuntimeError("[gloo/pair.cc:1] Connection closed by peer"), "alive", RuntimeError, "by peer"),
        (RuntimeError("[gloo/b.cc:1] Timed out waiting 5000ms"), "alive", ProcessLost, "process_timeout=5 s"),
        (RuntimeError("shapes differ"), "dead", RuntimeError, "shapes differ"),
        (Terminated(), "dead", ProcessLost, "process 1 of 2 was killed or failed"),
        (Terminated(), "alive", KeyboardInterrupt, None),
    ],
)
def test_whose_end_it_was(monkeypatch, dead, error, others, becomes, words):
    processes = two_of(monkeypatch, 0, os.getpid(), dead if others == "dead" else os.getpid())
    try:
        with pytest.raises(becomes, match=words), processes.watched(print):
            raise error
        os.kill(os.getpid(), signal.SIGTERM)  # what follows is not disturbed
    finally:
        processes.release()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


STUCK = """
import ctypes, os, signal, sys, threading
from zeta_core.studies import train_processes as t
t.GRACE, t.gather_object = 0.2, lambda mine: [mine[0], (mine[0][0], int(sys.argv[1]))]
from types import SimpleNamespace
processes = t.Processes(SimpleNamespace(process_index=0, num_processes=2), 5.0)
with processes.watched(lambda reason: print(reason, flush=True)):
    signal.siginterrupt(signal.SIGTERM, False)
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
    ctypes.CDLL(None).read(os.pipe()[0], ctypes.create_string_buffer(1), 1)
"""


def test_one_that_waits_in_a_library_has_its_last_words(dead):
    done = subprocess.run([sys.executable, "-c", STUCK, str(dead)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    assert done.stdout == "process 1 of 2 was killed or failed; --resume goes on from the last checkpoint\n"


def test_a_refusal_is_every_processes(monkeypatch):
    accelerator = Accelerator(cpu=True)
    agreed(accelerator, None)
    with pytest.raises(OptionError, match="no"):
        agreed(accelerator, OptionError("no"))
    monkeypatch.setattr(Accelerator, "num_processes", 2)
    monkeypatch.setattr(train_processes, "broadcast_object_list", lambda given: [ConfigError("main's")])
    with pytest.raises(ConfigError, match="main's"):
        agreed(accelerator, None)


def test_cut_weights_have_no_loss_scaling():
    with pytest.raises(ConfigError, match=r"sharding='fsdp' has no loss scaling.*use bf16"):
        make_run("mqar", settings=["training.sharding=fsdp", "dtype=fp16"])

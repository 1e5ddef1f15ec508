"""The child process: whatever becomes of it, the next request is answered."""

import time

import pytest
import torch
from studies.bench.shapes import Compiling, Doubling, request

from zeta_core.studies.bench.worker import Worker, compile_ahead


@pytest.fixture
def worker(tmp_path):
    found = Worker(torch.device("cpu"), tmp_path / "logs" / "doubling.log")
    yield found
    found.close()


def test_one_process_answers_many(worker):
    assert worker.measure(request(Doubling()), 60).status == "ok"
    first = worker.process.pid
    assert worker.measure(request(Doubling(), "forward_backward"), 60).status == "ok"
    assert worker.process.pid == first


@pytest.mark.parametrize(
    ("how", "status", "reason"),
    [
        ("die", "killed", "SIGKILL"),
        ("hang", "timeout", "no result after 1 s"),
        ("raise", "failed", "RuntimeError"),
        ("full", "oom", "memory"),
    ],
)
def test_a_row_that_goes_wrong_stops_nothing(worker, how, status, reason):
    assert worker.measure(request(Doubling(at_length=how)), 60).status == "ok"
    found = worker.measure(request(Doubling(at_length=how), seq_len=300), 1 if how == "hang" else 60)
    assert found.status == status and reason in found.reason
    assert worker.process is None
    assert worker.measure(request(Doubling()), 60).status == "ok"


def test_closing_twice_is_no_error(worker):
    worker.measure(request(Doubling()), 60)
    process = worker.process
    worker.close()
    worker.close()
    assert not process.is_alive()


def test_what_compiles_is_called_ahead_a_process_a_mode(tmp_path):
    made = tmp_path / "made"
    made.mkdir()
    ours = Compiling(folder=str(made))
    rows = [
        request(provider, mode, timing, seq_len=seq_len)
        for provider in (ours, Doubling())
        for mode in ("forward", "forward_backward")
        for timing in ("eager", "graph")
        for seq_len in (300, 400)
    ]
    assert compile_ahead(rows, torch.device("cpu"), tmp_path / "compile.log", 60) == 2
    calls = [file.name.split("_") for file in made.iterdir()]
    assert {int(length) for length, _ in calls} == {256, 300, 400}
    assert len({process for _, process in calls}) == 2
    assert compile_ahead(rows[:2], torch.device("cpu"), tmp_path / "compile.log", 60) == 0


def test_compiling_ahead_ends_in_time(tmp_path):
    rows = [
        request(Compiling(folder=str(tmp_path), at_length="hang"), mode, seq_len=300)
        for mode in ("forward", "forward_backward")
    ]
    began = time.monotonic()
    assert compile_ahead(rows, torch.device("cpu"), tmp_path / "compile.log", 8) == 2
    assert time.monotonic() - began < 30

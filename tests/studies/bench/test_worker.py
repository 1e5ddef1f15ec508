"""The child process: whatever becomes of it, the next request is answered."""

import pytest
import torch
from studies.bench.shapes import Doubling, request

from zeta_core.studies.bench.worker import Worker


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

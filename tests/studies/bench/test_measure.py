"""One row: skipped, failed, out of memory, slow, or timed."""

import pytest
import torch
from studies.bench.shapes import Doubling, request, shape

from zeta_core.studies.bench import measure, timing
from zeta_core.studies.bench.measure import Bench, Request, call_of
from zeta_core.studies.bench.providers.fla_nsa import FlaNsaProvider
from zeta_core.studies.bench.providers.sdpa import SdpaProvider
from zeta_core.studies.bench.providers.zeta import ZetaProvider
from zeta_core.studies.bench.timing import profiled_peak, quantile, times_ms

CPU = torch.device("cpu")


def test_a_row_has_times_and_memory():
    found = Bench(CPU).run(request(Doubling(), "forward_backward"))
    assert found.status == "ok" and found.reason == ""
    assert 0 < found.time_ms_p20 <= found.time_ms <= found.time_ms_p80
    assert found.repeats >= 5
    assert found.peak_mib == pytest.approx(2 * 48 * 2 * 16 * 4 / 2**20, rel=0.01)  # the output and the gradient


@pytest.mark.parametrize(
    ("how", "status", "reason"),
    [
        ("raise", "failed", "RuntimeError: a long ... story"),
        ("out of memory", "oom", "CUDA out of memory"),
        ("full", "oom", "can't allocate memory"),
    ],
)
def test_what_goes_wrong_is_a_row(how, status, reason):
    found = Bench(CPU).run(request(Doubling(at_length=how), seq_len=300))
    assert (found.status, found.time_ms) == (status, None)
    assert reason in found.reason


def test_a_provider_that_computes_something_else_is_not_timed():
    found = Bench(CPU).run(request(Doubling(at_length="wrong")))
    assert found.status == "failed" and found.time_ms is None
    assert "output is off its definition by 5.0e-02" in found.reason


def test_the_check_sees_a_wrong_gradient(monkeypatch):
    provider = ZetaProvider(kind="zeta_reference")
    exact = measure.results

    def results(inputs, forward, draws):
        found = exact(inputs, forward, draws)
        if draws and inputs[0].dtype != torch.float64:
            found[2] = found[2] * 1.01
        return found

    monkeypatch.setattr(measure, "results", results)
    bench = Bench(CPU)
    assert bench.difference(provider, shape(), "forward") is None
    assert "gradient of input 1" in bench.difference(provider, shape(), "forward_backward")


def test_what_needs_too_much_is_not_tried():
    found = Bench(CPU).run(request(Doubling(), top_k=1000))
    assert found.status == "skipped" and "needs 1073741824.0 GiB" in found.reason


def test_graphs_need_a_gpu_and_providers_may_be_missing(monkeypatch):
    assert "CUDA" in Bench(CPU).run(request(Doubling(), timing="graph")).reason
    monkeypatch.setattr(Doubling, "missing_here", "not on a Tuesday")
    assert Bench(CPU).run(request(Doubling())).reason == "not on a Tuesday"
    assert "fp16 and bf16" in SdpaProvider().missing(shape(), torch.device("cuda"), False)


def test_a_long_first_call_is_the_only_one(monkeypatch):
    monkeypatch.setattr(measure, "LONG_CALL_S", 0.0)
    found = Bench(CPU).run(request(Doubling()))
    assert found.status == "ok" and found.repeats == 1
    assert found.time_ms == found.time_ms_p20 == found.time_ms_p80
    assert "is the only one" in found.reason


def test_a_call_over_the_budget_is_made_once():
    found = Bench(CPU).run(Request(Doubling(), shape(), "forward", "eager", budget_s=1e-9))
    assert (found.status, found.repeats, found.reason) == ("ok", 1, "")


def test_forward_is_without_gradients_and_backward_gives_all_of_them():
    provider = ZetaProvider(kind="zeta_reference")
    assert not call_of(provider, shape(), "forward", CPU)().requires_grad
    shapes = [tuple(gradient.shape) for gradient in call_of(provider, shape(), "forward_backward", CPU)()]
    assert shapes == [(1, 2, 48, 3), (1, 2, 48, 3), (1, 2, 48, 16), ()]


def test_the_check_is_of_a_short_slice():
    small = Doubling().slice_of(shape(seq_len=100_000, batch=32, heads=8, points="equal"))
    assert (small.seq_len, small.batch, small.heads, small.points) == (256, 1, 2, "random")
    assert Doubling().slice_of(shape()) == shape()
    assert FlaNsaProvider().slice_of(shape(heads=8)).heads == 8


@pytest.mark.parametrize(("budget", "repeats"), [(0.0, 1), (0.004, 1), (0.006, 5), (0.02, 9), (10.0, 50)])
def test_repeats_fit_the_budget(budget, repeats, monkeypatch):
    """Calls of 2 ms, by a clock that only they move."""
    now, calls = [0.0], []

    def call():
        calls.append(None)
        now[0] += 0.002

    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    found = times_ms(call, CPU, budget)
    assert len(found) == len(calls) - 1 == repeats
    assert found == pytest.approx([2.0] * repeats)


def test_quantiles():
    numbers = [float(number) for number in range(10)]
    assert [quantile(numbers, share) for share in (0.2, 0.5, 0.8, 1.0)] == [2, 5, 8, 9]
    assert quantile([7.0], 0.8) == 7


def test_memory_of_a_call():
    kept = []

    def call():
        a = torch.zeros(2**18)  # 1 MiB
        b = a + 1  # and another
        del a
        kept.append(b)
        return b

    assert profiled_peak(call) == pytest.approx(2 * 2**20, rel=1e-3)
    assert profiled_peak(lambda: None) == 0

"""The check of this machine: it passes here, and notices each kind of fault."""

import pytest
import torch

from zeta_cli.app import main
from zeta_core.studies import check

CPU = torch.device("cpu")


def test_the_reference_passes_every_check():
    lines = list(check.run_checks(CPU))
    assert [line for line in lines if not line.passed] == []
    assert list(check.run_checks(CPU, workers=2)) == lines


def spoiled(change):
    """zeta_attention with something done to its output."""
    right = check.zeta_attention

    def wrong(q, k, v, **options):
        return change(right(q, k, v, **options), q, v)

    return wrong


def sees_the_future(out, q, v):
    return out + 1e-6 * v.sum(2, keepdim=True).to(out.dtype)


def is_random(out, q, v):
    return out + 1e-6 * torch.randn_like(out)


def depends_on_strides(out, q, v):
    return out if q.is_contiguous() else out + 1e-6


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (sees_the_future, "no row sees the future"),
        (is_random, "two runs, the same bits"),
        (depends_on_strides, "strided inputs"),
    ],
)
def test_a_fault_of_this_kind_is_found(monkeypatch, fault, name):
    monkeypatch.setattr(check, "zeta_attention", spoiled(fault))
    assert name in [line.name for line in check.run_checks(CPU) if not line.passed]


class WrongGradient(torch.autograd.Function):
    """The identity with a gradient 1 % too large."""

    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        return gradient * 1.01


@pytest.mark.parametrize("name", ["q", "k", "v", "gamma"])
def test_a_gradient_that_is_one_percent_off_is_found(monkeypatch, name):
    right = check.zeta_attention
    calls = []

    def wrong(q, k, v, *, gamma, **options):
        given = {"q": q, "k": k, "v": v, "gamma": gamma}
        calls.append(name)
        if len(calls) == 1:  # the implementation under test comes first, then plain torch as a measure of rounding
            given[name] = WrongGradient.apply(given[name])
        return right(given["q"], given["k"], given["v"], gamma=given["gamma"], **options)

    monkeypatch.setattr(check, "zeta_attention", wrong)
    found = check.compare(check.SETTINGS[0], CPU, "reference")
    assert not found.passed
    where, _, _, off, *_ = found.found.split()
    # Of the terms that were summed, which may be somewhat more than their sum.
    assert where == f"d{name}" and 5e-3 < float(off.rstrip(",")) < 1.1e-2


class Shifted(torch.autograd.Function):
    """The identity with something added to its gradient."""

    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        return gradient + 50.0


def test_where_the_terms_of_a_gradient_cancel_it_is_compared_all_the_same(monkeypatch):
    right = check.zeta_attention
    calls = []

    def wrong(q, k, v, *, gamma, **options):
        calls.append(gamma)
        return right(q, k, v, gamma=Shifted.apply(gamma) if len(calls) == 1 else gamma, **options)

    (equal,) = (setting for setting in check.SETTINGS if setting.points == "equal")
    _, sizes = check.by_definition(equal, check.tensors(equal, CPU))
    assert check.compare(equal, CPU, "reference").passed
    monkeypatch.setattr(check, "zeta_attention", wrong)
    found = check.compare(equal, CPU, "reference")
    assert sizes["dgamma"] > 1000
    assert not found.passed and found.found.startswith("dgamma off by")


def test_the_command_says_that_no_kernel_was_run_and_exits_0(capsys):
    assert main(["check"]) == 0
    said = capsys.readouterr().out
    assert "the Triton kernels were not run" in said
    assert "FAILED" not in said


def test_the_command_exits_1_on_any_failure(monkeypatch, capsys):
    monkeypatch.setattr(check, "zeta_attention", spoiled(is_random))
    assert main(["check", "--device", "cpu"]) == 1
    assert "FAILED" in capsys.readouterr().out


def test_an_unknown_device_is_refused(capsys):
    assert main(["check", "--device", "cuda:9"]) == 2
    assert "device='cuda:9' is not there" in capsys.readouterr().err

"""Gradients of the weighted mean: against finite differences, in float32, and with less memory."""

import pytest
import torch
from ops.cases import (
    SCORES,
    at_centres,
    gamma_of,
    gradients,
    one_thread,  # noqa: F401 (an automatic fixture)
    padding,
)

from zeta_core.ops import zeta_attention
from zeta_core.ops.attend import reference

GRADIENT_OPTIONS = {
    "window": {"history_mean": False},
    "history": {},
    "local": {"local_window": 3},
    "local, no history": {"local_window": 2, "history_mean": False},
    "fewer keys than k": {"top_k": 8, "chunk_size": 2},
    "three curves": {"curves": 3, "top_k": 6},
    "refine": {"refine": 3},
    "bidirectional": {"causal": False, "local_window": 2},
    "padding": {"key_padding_mask": padding(2, 7, 5), "local_window": 2},
    "padding, bidirectional": {"key_padding_mask": padding(2, 7, 5), "causal": False},
}


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("options", GRADIENT_OPTIONS.values(), ids=GRADIENT_OPTIONS.keys())
def test_gradients_of_q_k_v_and_gamma(score, options):
    gamma = gamma_of("per head" if "local_window" in options else "0-d")

    def run(q, k, v, gamma):
        return zeta_attention(q, k, v, gamma=gamma, score=score, **{"chunk_size": 3, "top_k": 2, **options})

    assert torch.autograd.gradcheck(run, (*at_centres(), gamma), eps=1e-6, atol=1e-6, fast_mode=True)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", ["0-d", "per head"])
def test_every_entry_of_the_gradients(score, kind):
    q, k, v = at_centres(5)
    codes = q.detach(), k.detach()

    def run(q, k, v, gamma):
        options = {"gamma": gamma, "score": score, "chunk_size": 2, "top_k": 2, "local_window": 2}
        return zeta_attention(q, k, v, code_q=codes[0], code_k=codes[1], **options)

    assert torch.autograd.gradcheck(run, (q, k, v, gamma_of(kind)), eps=1e-6, atol=1e-6)


def test_no_gradient_goes_through_the_codes():
    q, k, v = at_centres()
    code_q, code_k = (t.detach().clone().requires_grad_() for t in (q, k))
    out = zeta_attention(q, k, v, gamma=0.4, chunk_size=2, top_k=2, code_q=code_q, code_k=code_k)
    out.sum().backward()
    assert code_q.grad is None and code_k.grad is None


@pytest.mark.parametrize("score", SCORES)
def test_float32_gradients_are_those_of_float64(score):
    options = {"score": score, "chunk_size": 20, "top_k": 6, "local_window": 3}
    narrow_inputs = at_centres(90, dtype=torch.float32)
    narrow = gradients(narrow_inputs, gamma_of("per head", torch.float32), **options)
    wide_inputs = [t.detach().double().requires_grad_() for t in narrow_inputs]
    wide = gradients(wide_inputs, gamma_of("per head", torch.float32), **options)
    for a, b in zip(narrow, wide, strict=True):
        # 1e-5 of the largest entry is some hundred roundings of float32.
        assert (a - b).abs().max() <= 1e-5 * b.abs().max()


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("setting", ["computed again", "small blocks", "both"])
def test_memory_settings_change_nothing(monkeypatch, setting, score, padded):
    options = {"score": score, "chunk_size": 50, "top_k": 6, "curves": 3, "local_window": 3}
    if padded:
        options["key_padding_mask"] = padding(2, 200, 1)
    inputs, gamma = at_centres(200), gamma_of("per head")
    before = gradients(inputs, gamma, **options)
    with torch.no_grad():
        silent = zeta_attention(*inputs, gamma=gamma, **options)
    if setting != "small blocks":
        monkeypatch.setattr(reference, "SAVED_BYTES", 0)
    if setting != "computed again":
        monkeypatch.setattr(reference, "GRADIENT_BYTES", 1)
        monkeypatch.setattr(reference, "FORWARD_BYTES", 1)
    for a, b in zip(gradients(inputs, gamma, **options), before, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        again = zeta_attention(*inputs, gamma=gamma, **options)
    torch.testing.assert_close(again, silent, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(again, before[0], rtol=1e-12, atol=1e-12)


def test_recomputation_is_really_used(monkeypatch):
    calls = []
    monkeypatch.setattr(reference, "checkpoint", lambda f, *a, use_reentrant: calls.append(f) or f(*a))
    inputs, gamma = at_centres(), gamma_of("0-d")
    gradients(inputs, gamma)
    assert not calls
    monkeypatch.setattr(reference, "SAVED_BYTES", 0)
    gradients(inputs, gamma)
    assert calls

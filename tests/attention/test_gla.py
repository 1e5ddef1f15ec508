"""Gated linear attention against its recurrence, and against the package that has a kernel for it."""

import importlib.util

import pytest
import torch
from attention.plain import MASK, built, merged, states

from zeta_core.attention.gla import GlaConfig, by_kernel, gated_sums


def expected(mixer, hidden, mask):
    q, k, v, gate = mixer.qkvr(hidden).split(mixer.widths, dim=-1)
    decay = mixer.decay(hidden).sigmoid() ** (1 / mixer.config.temperature)
    rows = []
    for row in range(len(hidden)):
        heads = []
        for head in range(mixer.num_heads):
            own_q, own_k, own_v, own_decay, own_gate = (
                x[row].view(x.shape[1], mixer.num_heads, -1)[:, head] for x in (q, k, v, decay, gate)
            )
            state, found = torch.zeros(own_k.shape[1], own_v.shape[1], dtype=hidden.dtype), []
            for i in range(hidden.shape[1]):
                if mask is None or not mask[row, i]:
                    state = own_decay[i][:, None] * state + own_k[i][:, None] * own_v[i]
                out = own_q[i] @ state / own_q.shape[1] ** 0.5
                out = out / (out.square().mean() + 1e-5).sqrt() * mixer.norm.weight
                found.append(out * own_gate[i] * own_gate[i].sigmoid())
            heads.append(torch.stack(found))
        rows.append(heads)
    return merged(mixer, rows)


@pytest.mark.parametrize("temperature", [16.0, 0.2])
def test_it_is_the_recurrence(temperature, monkeypatch):
    monkeypatch.setattr("zeta_core.attention.gla.CHUNK", 4)
    monkeypatch.setattr("zeta_core.attention.gla.SEGMENT", 3)
    mixer = built(GlaConfig(gate_rank=3, temperature=temperature))
    for mask in (None, MASK):
        found, right = (states().requires_grad_() for _ in range(2))
        out, plain = mixer(found, mask), expected(mixer, right, mask)
        keep = slice(None) if mask is None else ~mask
        torch.testing.assert_close(out[keep], plain[keep])
        out[keep].square().sum().backward()
        plain[keep].square().sum().backward()
        torch.testing.assert_close(found.grad, right.grad)


def test_decays_that_vanish_stay_finite():
    q, k, v = torch.randn(3, 1, 2, 90, 4).requires_grad_()
    out = gated_sums(q, k, v, torch.full((1, 2, 90, 4), -500.0))
    torch.testing.assert_close(out, (q * k).sum(-1, keepdim=True) * v)
    out.sum().backward()


@pytest.mark.skipif(
    not torch.cuda.is_available() or importlib.util.find_spec("fla") is None,
    reason="needs a CUDA GPU and pip install 'zeta-attention[baselines]'",
)
def test_the_package_s_kernel_is_the_same():
    q, k = torch.randn(2, 2, 4, 300, 32, device="cuda")
    v, decay = torch.randn(2, 4, 300, 64, device="cuda"), -torch.rand(2, 4, 300, 32, device="cuda")
    wide = gated_sums(*(x.double() for x in (q, k, v, decay)))
    assert (by_kernel(q, k, v, decay) - wide).norm() < 1e-2 * wide.norm()

"""The scan of logarithmic depth, and the parts that linear and selective mixers share, against loops."""

import pytest
import torch

from zeta_core.attention.linear import causal_sums, sums_before
from zeta_core.attention.scan import scan
from zeta_core.attention.selected import attend_selected


@pytest.mark.parametrize("length", [1, 2, 3, 8, 37])
def test_the_scan_is_the_recurrence(length):
    decay, added = torch.rand(length, 3, 1, dtype=torch.float64), torch.randn(length, 3, 4, dtype=torch.float64)
    state, found = torch.zeros(3, 4, dtype=torch.float64), []
    for a, b in zip(decay, added, strict=True):
        state = a * state + b
        found.append(state)
    torch.testing.assert_close(scan(decay, added), torch.stack(found))
    assert torch.autograd.gradcheck(scan, (decay.requires_grad_(), added.requires_grad_()))


def test_later_steps_change_no_bit():
    decay, added = torch.rand(50, 7), torch.randn(50, 7)
    before = scan(decay, added)
    for first in range(1, 50):
        changed = added.clone()
        changed[first:] = 1e6
        assert torch.equal(scan(decay, changed)[:first], before[:first])


@pytest.mark.parametrize("seq_len", [1, 9, 70])
def test_causal_sums_are_the_sums(seq_len):
    q, k, v = torch.randn(3, 2, 2, seq_len, 5, dtype=torch.float64)
    for chunk in (1, 4, 64):
        torch.testing.assert_close(causal_sums(q, k, v, chunk), (q @ k.mT).tril() @ v)
    x = torch.arange(1.0, 5).view(1, 1, 4, 1, 1)
    assert sums_before(x, 2).flatten().tolist() == [0, 0, 1, 3]
    assert sums_before(x, 2, backwards=True).flatten().tolist() == [7, 4, 0, 0]


@pytest.mark.parametrize("fetched", [1 << 24, 200])
def test_lists_by_mask_and_by_fetching_agree(fetched, monkeypatch):
    monkeypatch.setattr("zeta_core.attention.selected.FETCHED", fetched)
    inputs = [torch.randn(2, 2, 30, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    index = torch.randint(-1, 30, (2, 2, 30, 6))  # some keys twice
    index[0, 0, 3] = -1
    found = []
    for longest in (1024, 0):
        out = attend_selected(*inputs, index, longest_dense=longest)
        found.append((out, *torch.autograd.grad(out.square().sum(), inputs)))
    assert not found[0][0][0, 0, 3].any()
    torch.testing.assert_close(*found)

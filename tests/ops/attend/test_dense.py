"""All keys compared with all queries: the exact nearest ones, and the mean over all of them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ops import brute_force
from ops.cases import (
    FEW,
    SCORES,
    make,
    numbers,
    one_thread,  # noqa: F401 (an automatic fixture)
    padding,
    points,
)

from zeta_core.ops import zeta_attention
from zeta_core.ops.attend import dense, dense_attend, nearest_keys


@st.composite
def dense_options(draw: st.DrawFn) -> dict:
    seq_len = draw(st.integers(1, 12))
    padded = draw(st.booleans())
    return {
        "seed": draw(st.integers(0, 10**6)),
        "seq_len": seq_len,
        "d_k": draw(st.integers(1, 4)),
        "kind": draw(st.sampled_from(["edges", "tied", "spread"])),
        "visibility": draw(st.sampled_from(["chunk", "token"])),
        "chunk_size": draw(st.integers(1, seq_len + 2)),
        "causal": draw(st.booleans()),
        "key_padding_mask": padding(2, seq_len, 1) if padded else None,
    }


def expected_mean(
    q, k, v, *, gamma, score, visibility, chunk_size, causal, history_mean, local_window, key_padding_mask
):
    chosen = list(
        brute_force.seen_densely(
            q.shape[2], visibility=visibility, chunk_size=chunk_size, causal=causal, local_window=local_window
        )
    )
    return brute_force.weighted_mean(
        q,
        k,
        v,
        [[chosen] * q.shape[1]] * q.shape[0],
        gamma=gamma,
        score=score,
        history_mean=history_mean,
        causal=causal,
        key_padding_mask=key_padding_mask,
    )


@given(
    options=dense_options(),
    score=st.sampled_from(SCORES),
    history_mean=st.booleans(),
    local_window=st.sampled_from([0, 1, 3, 20]),
)
@FEW
def test_the_mean_over_all_keys_equals_brute_force(options, score, history_mean, local_window):
    shape = {name: options.pop(name) for name in ("seq_len", "d_k", "kind")}
    q, k, v = make(options.pop("seed"), **shape)
    options |= {"gamma": torch.tensor([0.2, 1.5], dtype=torch.float64), "score": score}
    options |= {"history_mean": history_mean, "local_window": local_window}
    torch.testing.assert_close(
        dense_attend(q, k, v, **options), expected_mean(q, k, v, **options), rtol=1e-10, atol=1e-10
    )


@given(options=dense_options(), top_k=st.integers(1, 14))
@FEW
def test_nearest_keys_equal_brute_force(options, top_k):
    shape = {name: options.pop(name) for name in ("seq_len", "d_k", "kind")}
    q, k, _ = make(options.pop("seed"), **shape)
    if shape["kind"] == "spread":
        q, k = ((t * 64).round() / 64 for t in (q, k))
    else:
        q, k = ((t * 8).round() / 8 for t in (q, k))
    found = nearest_keys(q, k, top_k=top_k, **options)
    assert torch.equal(found, brute_force.nearest(q, k, top_k=top_k, **options))


def test_of_equally_near_keys_the_first_positions_are_taken():
    q = torch.full((1, 1, 6, 1), 0.5)
    k = torch.tensor([0.75, 0.25, 0.75, 0.5, 0.25, 0.5]).view(1, 1, 6, 1)
    options = {"visibility": "chunk", "chunk_size": 5, "causal": True}
    assert nearest_keys(q, k, top_k=1, **options)[0, 0, 5].tolist() == [3]
    assert nearest_keys(q, k, top_k=3, **options)[0, 0, 5].tolist() == [0, 1, 3]


def test_the_nearest_keys_do_not_depend_on_the_future():
    q, k, _ = make(1, seq_len=20)
    options = {"top_k": 3, "visibility": "token", "chunk_size": 1, "causal": True}
    before = nearest_keys(q, k, **options)
    k[:, :, 12:] = q[:, :, 3:11]
    assert torch.equal(nearest_keys(q, k, **options)[:, :, :12], before[:, :, :12])


@pytest.mark.parametrize("visibility", ["chunk", "token"])
def test_small_blocks_give_the_same(monkeypatch, visibility):
    q, k, v = make(2, seq_len=150)
    options = {"visibility": visibility, "chunk_size": 40, "causal": True, "key_padding_mask": padding(2, 150, 1)}
    means = options | {"gamma": torch.ones(2), "score": "cauchy", "history_mean": True, "local_window": 3}
    whole = nearest_keys(q, k, top_k=5, **options), dense_attend(q, k, v, **means)
    one_block = dense.query_blocks
    monkeypatch.setattr(
        dense, "query_blocks", lambda start, stop, size, budget: one_block(start, stop, size, budget=1)
    )
    assert torch.equal(nearest_keys(q, k, top_k=5, **options), whole[0])
    torch.testing.assert_close(dense_attend(q, k, v, **means), whole[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("visibility", ["chunk", "token"])
def test_gradients(score, visibility):
    q, k = (points("centres", (1, 2, 6, 3), seed) for seed in (1, 2))
    k[:, :, 2] = k[:, :, 0]
    q[:, :, -1] = k[:, :, 0]
    inputs = [t.requires_grad_() for t in (q, k, numbers((1, 2, 6, 2), 3))]
    gamma = torch.tensor([0.3, 0.8], dtype=torch.float64, requires_grad=True)

    def run(q, k, v, gamma):
        options = {"visibility": visibility, "chunk_size": 2, "causal": True, "history_mean": True, "local_window": 0}
        return dense_attend(q, k, v, gamma=gamma, score=score, **options)

    assert torch.autograd.gradcheck(run, (*inputs, gamma), eps=1e-6, atol=1e-6)


@pytest.mark.parametrize("score", SCORES)
def test_rows_without_a_key_are_zero_with_finite_gradients(score):
    inputs = [t.requires_grad_() for t in make(1, seq_len=6)]
    options = {"visibility": "chunk", "chunk_size": 3, "causal": True, "history_mean": False, "local_window": 0}
    out = dense_attend(*inputs, gamma=torch.ones(2), score=score, **options)
    assert (out[:, :, :3] == 0).all() and (out[:, :, 3:] != 0).all()
    assert all(found.isfinite().all() for found in torch.autograd.grad(out.sum(), inputs))


@pytest.mark.parametrize("score", SCORES)
def test_a_window_of_all_keys_is_the_mean_over_all_keys(score):
    q, k, v = make(1, seq_len=20)
    shared = {"score": score, "chunk_size": 6, "causal": True, "history_mean": True, "local_window": 3}
    windowed = zeta_attention(q, k, v, gamma=0.4, top_k=20, **shared)
    dense_out = dense_attend(q, k, v, gamma=torch.full((2,), 0.4, dtype=torch.float64), visibility="chunk", **shared)
    torch.testing.assert_close(windowed, dense_out, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("d_k", [1, 3, 40])
def test_squared_distances_by_dimensions_are_torch_s(d_k):
    q, k = torch.rand(2, 3, 7, d_k, dtype=torch.float64), torch.rand(2, 3, 5, d_k, dtype=torch.float64)
    expected = (q[..., :, None, :] - k[..., None, :, :]).square().sum(-1)
    torch.testing.assert_close(dense.by_dimensions(q, k), expected)
    torch.testing.assert_close(dense.squared_distances(q, k), expected)
    assert dense.squared_distances(q.half(), k.half()).dtype == torch.float32


def test_gradients_of_squared_distances():
    q, k = (torch.rand(2, 4, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    with torch.no_grad():
        k[:, 0] = q[:, 0]  # at distance zero too
    assert torch.autograd.gradcheck(dense.squared_distances, (q, k))

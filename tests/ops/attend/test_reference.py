"""The weighted mean: values against float64 brute force, and rows and values at the edge."""

import pytest
import torch
from hypothesis import example, given
from ops import brute_force
from ops.cases import (
    FEW,
    SCORES,
    Case,
    at_centres,
    attention_cases,
    gamma_of,
    gradients,
    make,
    one_thread,  # noqa: F401 (an automatic fixture)
    padding,
)

from zeta_core.ops import zeta_attention, zeta_plan
from zeta_core.ops.attend import attend


class Chosen:
    """A plan whose positions are given."""

    def __init__(self, ids: torch.Tensor) -> None:
        self.ids = ids

    def indices(self) -> torch.Tensor:
        return self.ids


def planned(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """The output from positions that brute force found, and brute force's output."""
    shared = {
        name: case.plan_options.get(name, default) for name, default in (("causal", True), ("key_padding_mask", None))
    }
    options = {name: value for name, value in case.other_options.items() if not name.startswith("code_")}
    ids = brute_force.select(*case.codes, **case.plan_options)
    out = attend(case.q, case.k, case.v, Chosen(ids), gamma=case.gamma, **options, **shared)
    return out, brute_force.zeta(case.q, case.k, case.v, **case.options)


def padded_case(**other) -> Case:
    q, k, v = make(3, seq_len=14, kind="tied")
    options = {"chunk_size": 4, "top_k": 3, "key_padding_mask": padding(2, 14, 2)}
    return Case(q, k, v, torch.tensor(0.4), options, {"local_window": 3, **other})


@given(case=attention_cases())
@example(case=padded_case(score="normalized_dot"))
@example(case=padded_case(score="negative_euclidean", history_mean=False))
@FEW
def test_output_equals_brute_force(case):
    found, expected = planned(case)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("history_mean", [True, False])
@pytest.mark.parametrize("local_window", [0, 3])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_output_equals_brute_force_past_a_block_of_64(score, history_mean, local_window, causal, padded):
    # The history mean is summed in blocks of 64 tokens.
    q, k, v = make(5, batch=2, heads=1, seq_len=70, d_v=2)
    plan_options = {"chunk_size": 30, "top_k": 2, "causal": causal}
    if padded:
        plan_options["key_padding_mask"] = padding(2, 70, 1)
    other = {"score": score, "history_mean": history_mean, "local_window": local_window}
    found, expected = planned(Case(q, k, v, 0.3, plan_options, other))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_a_key_in_window_and_local_part_counts_once():
    q, k, v = make(1, batch=1, heads=1, seq_len=4)
    window_only = torch.tensor([[-1, -1], [0, -1], [0, 1], [2, 1]]).view(1, 1, 4, 2)
    none = torch.full_like(window_only, -1)
    options = {"gamma": 0.5, "history_mean": False, "local_window": 4}
    both = attend(q, k, v, Chosen(window_only), **options)
    torch.testing.assert_close(both, attend(q, k, v, Chosen(none), **options), rtol=1e-12, atol=1e-12)


def test_the_order_of_slots_does_not_matter():
    q, k, v = make(1, batch=1, heads=1, seq_len=6)
    ids = torch.tensor([[-1, -1, -1], [0, -1, -1], [1, 0, -1], [-1, 2, 0], [1, -1, 3], [2, 4, 1]]).view(1, 1, 6, 3)
    options = {"gamma": torch.tensor(0.5), "score": "normalized_dot"}
    torch.testing.assert_close(
        attend(q, k, v, Chosen(ids), **options), attend(q, k, v, Chosen(ids.flip(-1)), **options)
    )


# Rows and values at the edge.
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("gamma", [1e-4, 0.05, 30.0])
@pytest.mark.parametrize("history_mean", [True, False])
def test_nothing_is_nan_or_infinite(score, dtype, gamma, history_mean):
    # Queries on keys (d = 0), fewer than k keys, ties, rows without any candidate, far points, a padded row.
    inputs = at_centres(9, dtype=dtype)
    with torch.no_grad():
        inputs[0][0, 0, 3] = 100
        inputs[1][0, 0, 1] = -100
    options = {"score": score, "chunk_size": 2, "history_mean": history_mean, "key_padding_mask": padding(2, 9, 2)}
    gamma = torch.tensor(gamma, requires_grad=True)
    out, *found = gradients(inputs, gamma, **options)
    assert out.isfinite().all() and out.dtype == dtype
    wide = [t.detach().double().requires_grad_() for t in inputs]
    for narrow, exact in zip(found, gradients(wide, gamma, **options)[1:], strict=True):
        assert exact.isfinite().all()
        # A gradient that float16 cannot hold (it ends at 65,504) may become infinite, never NaN.
        assert (narrow.isfinite() | ((exact.abs() > 60_000) & narrow.isinf() & (dtype == torch.float16))).all()
    assert [narrow.dtype for narrow in found] == [dtype] * 3 + [torch.float32]


@pytest.mark.parametrize("score", SCORES)
def test_rows_without_a_candidate_are_zero_and_send_no_gradient(score):
    inputs = at_centres(6)
    options = {"score": score, "history_mean": False, "chunk_size": 3, "top_k": 4}
    out = zeta_attention(*inputs, gamma=gamma_of("0-d"), **options)
    assert (out[:, :, :3] == 0).all() and (out[:, :, 3:] != 0).all()
    for found in torch.autograd.grad(out[:, :, :3].sum(), inputs):
        assert (found == 0).all()


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("causal", [True, False])
def test_padded_keys_have_no_influence_and_no_gradient(score, causal):
    mask = padding(2, 70, 4)
    inputs, gamma = at_centres(70), gamma_of("0-d")
    options = {"score": score, "causal": causal, "chunk_size": 9, "local_window": 4, "key_padding_mask": mask}
    out, _, dk, dv, _ = gradients(inputs, gamma, **options)
    hidden = mask[:, None, :, None]
    assert (dk.masked_select(hidden) == 0).all() and (dv.masked_select(hidden) == 0).all()
    q, k, v = inputs
    changed = zeta_attention(q, k.masked_fill(hidden, 7.0), v.masked_fill(hidden, 1e6), gamma=gamma, **options)
    assert torch.equal(changed, out)
    assert (out[-1] == 0).all()


def test_the_distance_has_gradient_zero_at_zero():
    q, k, v = (t.detach()[:, :, :1].requires_grad_() for t in at_centres())
    with torch.no_grad():
        q.copy_(k)
    out = zeta_attention(q, k, v, gamma=0.3, score="inverse_euclidean", local_window=1, history_mean=False)
    torch.testing.assert_close(out, v)
    for found in torch.autograd.grad(out.sum(), (q, k)):
        assert (found == 0).all()


@pytest.mark.parametrize("short", [0.0, 1e-8])
def test_vectors_too_short_get_no_gradient_from_the_cosine(short):
    q, k, v = (t.detach() for t in at_centres())
    q[:, :, 4], k[:, :, 1] = 0.5 + short, 0.5 + short
    q, k, v = (t.requires_grad_() for t in (q, k, v))
    options = {"score": "normalized_dot", "history_mean": False, "chunk_size": 2, "top_k": 3}
    out, dq, dk, _, _ = gradients((q, k, v), gamma_of("0-d"), **options)
    assert (dq[:, :, 4] == 0).all() and (dk[:, :, 1] == 0).all()
    assert (dq[:, :, 5] != 0).any() and (dk[:, :, 0] != 0).any()
    expected = brute_force.zeta(q, k, v, gamma=0.4, **options)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("score", SCORES)
def test_one_head_or_sequence_does_not_reach_another(score):
    q, k, v = make(4, batch=2, heads=2, seq_len=40)
    options = {"gamma": 0.3, "score": score, "chunk_size": 7, "local_window": 2}
    before = zeta_attention(q, k, v, **options)
    q, k, v = (t.clone() for t in (q, k, v))
    q[1, 0], k[1, 0], v[1, 0] = 0.9, 0.9 - k[1, 0], 1e6
    after = zeta_attention(q, k, v, **options)
    assert torch.equal(after[0], before[0]) and torch.equal(after[1, 1], before[1, 1])
    assert not torch.equal(after[1, 0], before[1, 0])


def test_gamma_is_taken_head_by_head():
    q, k, v = make(4, heads=2)
    options = {"chunk_size": 3, "top_k": 3}
    both = zeta_attention(q, k, v, gamma=torch.tensor([0.1, 2.0], dtype=torch.float64), **options)
    for head, gamma in enumerate((0.1, 2.0)):
        alone = zeta_attention(q, k, v, gamma=gamma, **options)
        assert torch.equal(both[:, head], alone[:, head])


def test_a_real_plan_and_its_positions_give_the_same():
    q, k, v = make(4)
    plan = zeta_plan(q, k, chunk_size=3, top_k=4)
    assert torch.equal(attend(q, k, v, plan, gamma=0.3), attend(q, k, v, Chosen(plan.indices()), gamma=0.3))


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("gamma", [1e-18, 1e18])
def test_the_outermost_gammas_stay_finite(score, gamma):
    q, k, v = make(0)
    assert zeta_attention(q.float(), k.float(), v.float(), gamma=gamma, score=score).isfinite().all()


def test_a_local_window_beyond_the_sequence_costs_no_more_than_one_as_long():
    q, k, v = make(0)
    options = {"gamma": 0.3, "refine": 10**6}
    assert torch.equal(
        zeta_attention(q, k, v, local_window=10**9, **options),
        zeta_attention(q, k, v, local_window=q.shape[2], **options),
    )

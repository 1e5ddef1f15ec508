"""The operator as a whole: values, determinism, layouts, dtypes and shapes."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from ops import brute_force
from ops.cases import (
    FEW,
    SCORES,
    Case,
    attention_cases,
    make,
    one_thread,  # noqa: F401 (an automatic fixture)
    padding,
)

from zeta_core.ops import zeta_attention, zeta_plan

every_score = pytest.mark.parametrize("score", SCORES)


@given(case=attention_cases())
@FEW
def test_the_operator_equals_brute_force(case):
    found = zeta_attention(case.q, case.k, case.v, **case.options)
    expected = brute_force.zeta(case.q, case.k, case.v, **case.options)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("d_k", [1, 2, 3, 4, 5, 6, 7, 16, 128])
def test_the_operator_equals_brute_force_in_every_dimension(d_k):
    q, k, v = make(d_k, d_k=d_k, kind="outside")
    options = {"gamma": 0.3, "chunk_size": 4, "top_k": 3, "local_window": 2, "refine": 2}
    torch.testing.assert_close(
        zeta_attention(q, k, v, **options), brute_force.zeta(q, k, v, **options), rtol=1e-10, atol=1e-10
    )


def test_the_defaults_equal_brute_force():
    q, k, v = make(0, seq_len=19)
    torch.testing.assert_close(
        zeta_attention(q, k, v, gamma=0.3), brute_force.zeta(q, k, v, gamma=0.3), rtol=1e-10, atol=1e-10
    )


def test_many_options_together_equal_brute_force():
    q, k, v = make(3, seq_len=20, kind="tied")
    case = Case(
        q, k, v, 0.4, {"num_chunks": 5, "top_k": 6, "curves": 6, "refine": 2, "key_padding_mask": padding(2, 20, 2)}
    )
    torch.testing.assert_close(
        zeta_attention(q, k, v, **case.options), brute_force.zeta(q, k, v, **case.options), rtol=1e-10, atol=1e-10
    )


# The same input, the same bits.
def run_with_gradients(q, k, v, **options) -> tuple[torch.Tensor, ...]:
    gamma = torch.tensor([0.2, 0.6], requires_grad=True)
    inputs = [t.detach().requires_grad_() for t in (q, k, v)]
    out = zeta_attention(*inputs, gamma=gamma, **options)
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)
    return out.detach(), *torch.autograd.grad((out * weight).sum(), [*inputs, gamma])


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@every_score
@pytest.mark.parametrize("kind", ["spread", "tied"])
@pytest.mark.usefixtures("two_threads")
def test_two_runs_give_the_same_bits(score, kind):
    q, k, v = make(1, seq_len=400, d_v=16, kind=kind, dtype=torch.float32)
    options = {"score": score, "top_k": 12, "curves": 3, "local_window": 3}
    for first, second in zip(*(run_with_gradients(q, k, v, **options) for _ in range(2)), strict=True):
        assert torch.equal(first, second)


LAYOUTS = {
    "transposed": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "features first": lambda t: t.permute(3, 0, 1, 2).contiguous().permute(1, 2, 3, 0),
    "expanded heads": lambda t: t[:, :1].expand_as(t),
    "expanded sequences": lambda t: t[:1].expand_as(t),
    "expanded tokens": lambda t: t[:, :, :1].expand_as(t),
    "every second token": lambda t: t.repeat_interleave(2, dim=2)[:, :, ::2],
    "columns of a wider tensor": lambda t: torch.cat((t, t, t), -1)[..., t.shape[-1] : 2 * t.shape[-1]],
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize("score", ["cauchy", "normalized_dot"])
def test_other_layouts_give_what_contiguous_tensors_give(layout, score):
    views = [layout(t) for t in make(1, seq_len=30)]
    assert not any(t.is_contiguous() for t in views)
    options = {"score": score, "chunk_size": 7, "top_k": 6, "curves": 3, "local_window": 2}
    expected = run_with_gradients(*(t.contiguous() for t in views), **options)
    for found, contiguous in zip(run_with_gradients(*views, **options), expected, strict=True):
        torch.testing.assert_close(found, contiguous, rtol=1e-12, atol=1e-12)
    plans = [zeta_plan(*pair, chunk_size=7, top_k=6) for pair in (views[:2], [t.contiguous() for t in views[:2]])]
    assert torch.equal(plans[0].indices(), plans[1].indices())


def test_inputs_and_random_state_are_left_alone():
    q, k, v = make(1)
    before = [t.clone() for t in (q, k, v)]
    state = torch.get_rng_state()
    zeta_attention(q, k, v, gamma=0.2, top_k=4, local_window=2)
    assert all(torch.equal(a, b) for a, b in zip((q, k, v), before, strict=True))
    assert torch.equal(torch.get_rng_state(), state)


# Dtypes.
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@every_score
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_float_dtype_is_computed_in_float32_at_least(dtype, score):
    q, k, v = make(2, seq_len=40, dtype=dtype)
    options = {"score": score, "gamma": 0.3, "chunk_size": 8, "top_k": 5, "local_window": 2}
    out = zeta_attention(q, k, v, **options)
    assert out.dtype == dtype and out.shape == v.shape
    exact = zeta_attention(*(t.double() for t in (q, k, v)), **options)
    # Half precision rounds once, at the end: half a unit in the last place, and float32's error in the middle.
    bound = torch.finfo(dtype).eps * exact.abs() / 2 + 4e-6 if dtype != torch.float64 else 1e-12
    assert ((out.double() - exact).abs() <= bound).all()


@pytest.mark.parametrize("values", DTYPES)
@pytest.mark.parametrize("coordinates", DTYPES)
def test_the_output_has_the_dtype_of_the_values(coordinates, values):
    q, k, _ = make(2, dtype=coordinates)
    v = make(2, dtype=values)[2]
    inputs = [t.requires_grad_() for t in (q, k, v)]
    out = zeta_attention(*inputs, gamma=0.3, top_k=4)
    assert out.dtype == values
    assert [g.dtype for g in torch.autograd.grad(out.sum(), inputs)] == [coordinates, coordinates, values]


@every_score
def test_autocast_does_not_reach_the_operator(score):
    q, k, v = make(2, seq_len=70, dtype=torch.float32)
    options = {"score": score, "gamma": 0.3, "top_k": 5}
    expected = zeta_attention(q, k, v, **options)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(zeta_attention(q, k, v, **options), expected)


# Shapes at the edge.
@pytest.mark.parametrize("shape", [(0, 2, 5), (2, 0, 5), (2, 2, 0)])
def test_empty_tensors_give_empty_ones(shape):
    q, v = torch.zeros(*shape, 3, requires_grad=True), torch.zeros(*shape, 4, requires_grad=True)
    out = zeta_attention(q, q, v, gamma=0.3, key_padding_mask=torch.zeros(shape[0], shape[2], dtype=torch.bool))
    assert out.shape == v.shape
    out.sum().backward()
    assert v.grad.shape == v.shape
    assert zeta_plan(q, q, top_k=4).indices().shape == (*shape, 4)


def test_a_single_token_sees_its_own_history_alone():
    q, k, v = make(1, seq_len=1)
    torch.testing.assert_close(zeta_attention(q, k, v, gamma=0.3), v)
    assert (zeta_attention(q, k, v, gamma=0.3, history_mean=False) == 0).all()
    torch.testing.assert_close(zeta_attention(q, k, v, gamma=0.3, history_mean=False, causal=False), v)


def test_codes_may_have_their_own_coordinates_and_dimension():
    codes, (q, k, v) = make(1, d_k=3), make(5, d_k=7, kind="outside")
    options = {"gamma": 0.3, "chunk_size": 3, "top_k": 3, "curves": 3, "code_q": codes[0], "code_k": codes[1]}
    out = zeta_attention(9 * q, 9 * k, v, **options)
    torch.testing.assert_close(out, brute_force.zeta(9 * q, 9 * k, v, **options), rtol=1e-10, atol=1e-10)


def test_it_runs_under_compile():
    q, k, v = make(1, batch=1, seq_len=10, dtype=torch.float32)
    compiled = torch.compile(zeta_attention, backend="eager")
    options = {"gamma": 0.3, "chunk_size": 3, "top_k": 3}
    for layout in (lambda t: t, LAYOUTS["transposed"]):
        torch.testing.assert_close(
            compiled(*(layout(t) for t in (q, k, v)), **options), zeta_attention(q, k, v, **options)
        )

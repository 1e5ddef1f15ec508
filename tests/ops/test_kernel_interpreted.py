"""Every option of the kernels by Triton's interpreter, on small odd shapes. Run by test_kernel.py, in its process."""

import os

import pytest
import torch
from ops.kernel_cases import KernelCase, judge
from torch import library

from zeta_core.errors import OptionError
from zeta_core.ops import zeta_attention, zeta_plan
from zeta_core.ops.attend import attend

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip(
        "needs TRITON_INTERPRET=1, which test_kernel.py sets for a process of its own", allow_module_level=True
    )

CPU = torch.device("cpu")
CASES = [
    KernelCase("odd length, chunks that do not divide it", seq_len=53, d_v=20, options={"num_chunks": 7}),
    KernelCase("distinct points", points="distinct", seq_len=45, options={"num_chunks": 4}),
    KernelCase("all equal", points="equal", seq_len=40, options={"num_chunks": 4}),
    KernelCase("clusters", points="clusters", seq_len=45, options={"num_chunks": 3}),
    KernelCase("all queries beyond the keys", points="beyond", seq_len=45, options={"num_chunks": 3}),
    KernelCase("drifting", points="drifting", seq_len=45, options={"num_chunks": 3}),
    KernelCase("fewer visible than top_k", seq_len=33, options={"num_chunks": 8, "top_k": 30}),
    KernelCase("no history mean", options={"history_mean": False}),
    KernelCase("negative_euclidean", options={"score": "negative_euclidean"}),
    KernelCase("inverse_euclidean", options={"score": "inverse_euclidean"}, points="distinct"),
    KernelCase("normalized_dot", options={"score": "normalized_dot", "local_window": 3}),
    KernelCase("bidirectional", seq_len=37, options={"causal": False}),
    KernelCase("bidirectional, padded, local", seq_len=37, padded=True, options={"causal": False, "local_window": 4}),
    KernelCase("padded", padded=True, points="distinct"),
    KernelCase("local window", options={"local_window": 7}),
    KernelCase("three curves", seq_len=37, points="distinct", options={"curves": 3, "top_k": 6, "num_chunks": 3}),
    KernelCase(
        "six curves, refined", seq_len=20, heads=1, options={"curves": 6, "top_k": 6, "refine": 2, "num_chunks": 2}
    ),
    KernelCase("refined, padded", seq_len=30, padded=True, points="distinct", options={"refine": 3, "num_chunks": 3}),
    KernelCase("many short chunks", seq_len=67, heads=1, options={"chunk_size": 1}),
    KernelCase(
        "many short chunks, padded, local",
        seq_len=66,
        heads=1,
        padded=True,
        points="distinct",
        options={"chunk_size": 1, "top_k": 3, "local_window": 3},
    ),
    KernelCase("d_K 1", d_k=1, seq_len=37),
    KernelCase("d_K 5", d_k=5, seq_len=37),
    KernelCase("d_K 7, two words", d_k=7, seq_len=37, options={"local_window": 2}),
    KernelCase("float16, tiny gamma", dtype=torch.float16, seq_len=37, gamma=1e-3),
    KernelCase("one token", seq_len=1),
    KernelCase("one chunk", seq_len=20, options={"num_chunks": 1}),
    KernelCase("one chunk, no history mean", seq_len=20, options={"num_chunks": 1, "history_mean": False}),
    KernelCase("batch of several", batch=3, seq_len=17, options={"num_chunks": 3}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernels_agree_with_the_reference(case: KernelCase) -> None:
    judge(case, CPU, twice=False)


def test_tiles_that_many_queries_see_are_cut_and_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import zeta_core.ops.attend.kernel_run_backward as run

    monkeypatch.setattr(run, "PART", 32)
    run.backward_of.cache_clear()
    judge(KernelCase("cut", points="beyond", heads=1, seq_len=120, options={"num_chunks": 3}), CPU, twice=False)
    run.backward_of.cache_clear()


def tensors() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    q, k = torch.rand((2, 1, 2, 20, 3), generator=generator)
    return q, k, torch.randn((1, 2, 20, 16), generator=generator), torch.tensor(0.3)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
    return zeta_attention(q, k, v, gamma=gamma, num_chunks=3, top_k=4, impl="triton")


def gradients(function, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    leaves = [t.clone().requires_grad_() for t in inputs]
    function(*leaves).square().sum().backward()
    return [leaf.grad for leaf in leaves]


def test_gradients_of_only_some_inputs() -> None:
    inputs = tensors()
    whole = gradients(attention, inputs)
    for i in range(4):
        leaves = [t.clone().requires_grad_(i == j) for j, t in enumerate(inputs)]
        attention(*leaves).square().sum().backward()
        torch.testing.assert_close(leaves[i].grad, whole[i])


def test_expanded_strided_and_empty_inputs() -> None:
    q, k, v, gamma = tensors()
    expanded = [t[:, :1].expand_as(t) for t in (q, k, v)]
    torch.testing.assert_close(attention(*expanded, gamma), attention(*(t.contiguous() for t in expanded), gamma))
    turned = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v)]
    out = attention(*turned, gamma)
    assert out.stride() == turned[2].stride()
    assert torch.equal(out, attention(q, k, v, gamma))
    assert attention(q[:0], k[:0], v[:0], gamma).shape == (0, 2, 20, 16)


def test_no_bit_of_a_sum_of_weights_depends_on_later_tokens_of_the_chunk() -> None:
    from zeta_core.ops.attend.kernel_run import Setting, forward
    from zeta_core.ops.kernel_ops import planned

    generator = torch.Generator().manual_seed(5)
    cut, chunk, top_k = 70, 48, 8
    q, k = torch.rand((2, 1, 1, 100, 3), generator=generator)
    v, gamma = torch.randn((1, 1, 100, 16), generator=generator), torch.tensor(0.1)

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        plan, _ = planned(q, k, None, chunk, top_k, 1, 1, False)
        out, kept = forward(q, k, v, gamma, None, plan, None, Setting(0, chunk, top_k, 1, 1, False, False, 0))
        return out[:, :, :cut].clone(), kept[:cut].clone()

    before, sums = run()
    for tensor in (q, k, v):
        tensor[:, :, cut:] = torch.rand(tensor[:, :, cut:].shape, generator=generator)
    after, other_sums = run()
    assert torch.equal(sums, other_sums)
    # Not by its bits: numpy's matrix product, unlike a GPU's, adds up a row in an order that depends on its place.
    torch.testing.assert_close(before, after, rtol=1e-6, atol=1e-6)


def test_a_missing_value_reaches_no_earlier_token() -> None:
    q, k, v, gamma = tensors()
    v = v.clone()
    v[:, :, 17] = float("nan")
    q, k, v = (t[:, :1].repeat(1, 1, 4, 1) for t in (q, k, v.half()))
    v[:, :, 37:] = 1
    for chunk, local in ((1, 3), (30, 5)):
        plan = zeta_plan(q, k, chunk_size=chunk, top_k=4, impl="triton")
        # zeta_attention itself refuses such values on a CPU.
        out = attend(q, k, v, plan, gamma=gamma, local_window=local, impl="triton")
        assert torch.isfinite(out[:, :, :17]).all()
        assert torch.isnan(out[:, :, 17:]).all()


def test_compiled_whole_checkpointed_and_under_autocast() -> None:
    inputs = tensors()
    whole = gradients(attention, inputs)
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    for other in (
        gradients(compiled, inputs),
        gradients(lambda *t: torch.utils.checkpoint.checkpoint(attention, *t, use_reentrant=False), inputs),
    ):
        assert all(torch.equal(a, b) for a, b in zip(whole, other, strict=True))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(attention(*inputs), attention(*inputs))
    assert torch.equal(attention(*inputs), compiled(*inputs))


def test_registered_operators_pass_torchs_own_checks() -> None:
    q, k, v, _ = tensors()
    plan = zeta_plan(q, k, num_chunks=3, top_k=4, impl="triton")
    arguments = [t.clone().requires_grad_() for t in (q, k, v, torch.full((2,), 0.3))]
    setting = (0, 7, 4, 1, 1, True, True, 0)
    library.opcheck(torch.ops.zeta.attend.default, (*arguments, None, plan.buffer, plan.cells, *setting))
    # Not by its values: parts of a plan that nothing reads are not written.
    only = ("test_schema", "test_faketensor", "test_autograd_registration")
    library.opcheck(torch.ops.zeta.plan.default, (q, k, None, 7, 4, 1, 1, True), test_utils=only)


def test_what_the_kernels_do_not_take_is_refused_or_left_to_the_reference() -> None:
    q, k, v, gamma = tensors()
    with pytest.raises(OptionError, match="float64"):
        attention(q.double(), k.double(), v.double(), gamma)
    with pytest.raises(OptionError, match="above 256"):
        attention(q, k, torch.randn(1, 2, 20, 300), gamma)
    leaves = [t.clone().requires_grad_() for t in (q, k, v)]
    first = torch.autograd.grad(attention(*leaves, gamma).square().sum(), leaves[0], create_graph=True)[0]
    with pytest.raises(RuntimeError, match="twice"):
        first.sum().backward()

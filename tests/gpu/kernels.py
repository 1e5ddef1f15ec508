"""The kernels on a GPU, every option at lengths that fill it. Not collected by a plain `pytest`: name this file.

Fails, and does not skip, where there is no GPU."""

from __future__ import annotations

import pytest
import torch
from ops.kernel_cases import KernelCase, judge

from zeta_core.errors import OptionError
from zeta_core.ops import zeta_attention, zeta_plan
from zeta_core.ops.impl import note_fallback

HALF = torch.bfloat16


def case(
    name: str, seq_len: int = 1500, batch: int = 2, d_v: int = 64, dtype: torch.dtype = HALF, **rest
) -> KernelCase:
    options = {"top_k": 32, **rest.pop("options", {})}
    return KernelCase(name, seq_len=seq_len, batch=batch, d_v=d_v, dtype=dtype, options=options, **rest)


CASES = [
    case("random"),
    case("distinct", points="distinct", seq_len=4000),
    case("equal", points="equal", seq_len=9000, batch=1),
    case("clusters", points="clusters", seq_len=4000),
    case("beyond", points="beyond", seq_len=6000, batch=1, dtype=torch.float32),
    case("drifting", points="drifting", seq_len=4000),
    case("chunks that do not divide, M no multiple of 16", seq_len=1003, d_v=80, options={"num_chunks": 7}),
    case("fewer visible than top_k", seq_len=203, options={"num_chunks": 16, "top_k": 128}),
    case("float32", dtype=torch.float32),
    case("float16, tiny gamma", dtype=torch.float16, gamma=1e-4, multiple=8),
    case("no history mean", options={"history_mean": False}),
    case("negative_euclidean", options={"score": "negative_euclidean"}, multiple=8),
    case("inverse_euclidean", points="distinct", options={"score": "inverse_euclidean"}),
    case("normalized_dot", options={"score": "normalized_dot"}, gamma=0.3),
    case("normalized_dot, d_K 32", d_k=32, seq_len=600, options={"score": "normalized_dot", "local_window": 8}),
    case("bidirectional", options={"causal": False}),
    case("bidirectional, padded, local", padded=True, options={"causal": False, "local_window": 20}),
    case("padded", points="distinct", padded=True),
    case("local", options={"local_window": 50}),
    case("curves 3", options={"curves": 3, "top_k": 30}),
    case("curves 6, refined", seq_len=700, points="distinct", options={"curves": 6, "top_k": 30, "refine": 3}),
    case("refined, padded, local", padded=True, points="distinct", options={"refine": 4, "local_window": 9}),
    case("short chunks", options={"chunk_size": 8}),
    case("short chunks, drifting", points="drifting", dtype=torch.float32, options={"chunk_size": 8}),
    case(
        "short chunks, all options",
        seq_len=600,
        batch=1,
        padded=True,
        points="distinct",
        options={"chunk_size": 5, "curves": 3, "top_k": 12, "local_window": 3, "refine": 2},
    ),
    *(case(f"d_K {d_k}", d_k=d_k) for d_k in (1, 2, 4, 5, 16)),
    case("d_K 128", d_k=128, seq_len=600, dtype=torch.float32),
    *(case(f"d_V {d_v}", d_v=d_v, seq_len=600) for d_v in (16, 128, 192, 256)),
    case("d_V 256, float32", d_v=256, seq_len=600, dtype=torch.float32),
    case("top_k 1", options={"top_k": 1}, dtype=torch.float32),
    case("top_k 128", options={"top_k": 128}),
    case("64 chunks", options={"num_chunks": 64}),
    case("sorted flat, one pass", batch=1, heads=3, seq_len=50_000, d_k=2),
    case("sorted flat, two passes", batch=1, heads=8, seq_len=40_000),
    case("sorted flat, 64 bits", batch=1, heads=3, seq_len=50_000, d_k=4),
    case("many rows", batch=128, seq_len=128, options={"top_k": 16}),
]


@pytest.fixture
def device() -> torch.device:
    assert torch.cuda.is_available(), "these tests need a CUDA GPU"
    return torch.device("cuda")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernels_agree_with_the_reference(case: KernelCase, device: torch.device) -> None:
    judge(case, device)


def inputs(device: torch.device, seq_len: int = 2000, heads: int = 4, seed: int = 0) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    q, k = torch.rand((2, 1, heads, seq_len, 3), device=device)
    v = torch.randn((1, heads, seq_len, 64), device=device, dtype=HALF)
    return [q, k, v, torch.tensor(0.1, device=device)]


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
    return zeta_attention(q, k, v, gamma=gamma, impl="triton")


def gradients(function, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    leaves = [t.clone().requires_grad_() for t in tensors]
    function(*leaves).float().square().sum().backward()
    return [leaf.grad for leaf in leaves]


def test_auto_takes_the_kernels(device: torch.device) -> None:
    tensors = inputs(device)
    assert torch.equal(attention(*tensors), zeta_attention(*tensors[:3], gamma=tensors[3]))


def test_what_the_kernels_do_not_take_goes_to_the_reference_with_one_line(
    device: torch.device, caplog: pytest.LogCaptureFixture
) -> None:
    note_fallback.cache_clear()
    q, k, v, gamma = inputs(device, 100)
    wide = [t.double() for t in (q, k, v)]
    for _ in range(2):
        found = zeta_attention(*wide, gamma=gamma)
    assert torch.equal(found, zeta_attention(*wide, gamma=gamma, impl="reference"))
    assert [record.name for record in caplog.records] == ["zeta"]
    assert "float64" in caplog.text
    with pytest.raises(OptionError, match="float64"):
        zeta_attention(*wide, gamma=gamma, impl="triton")


def test_a_graph_replays_forward_and_backward(device: torch.device) -> None:
    tensors = inputs(device)
    leaves = [t.clone().requires_grad_() for t in tensors]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):
            attention(*leaves).float().square().sum().backward()
            for leaf in leaves:
                leaf.grad = None
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        attention(*leaves).float().square().sum().backward()
    other = inputs(device, seed=1)
    with torch.no_grad():
        for leaf, fresh in zip(leaves, other, strict=True):
            leaf.copy_(fresh)
    graph.replay()
    torch.cuda.synchronize()
    for leaf, wanted in zip(leaves, gradients(attention, other), strict=True):
        assert torch.equal(leaf.grad, wanted)


def test_compiled_whole_checkpointed_and_under_autocast(device: torch.device) -> None:
    tensors = inputs(device)
    whole = gradients(attention, tensors)
    compiled = torch.compile(attention, fullgraph=True)
    recomputed = lambda *t: torch.utils.checkpoint.checkpoint(attention, *t, use_reentrant=False)  # noqa: E731
    for function in (compiled, recomputed):
        for a, b in zip(whole, gradients(function, tensors), strict=True):
            torch.testing.assert_close(a, b)
    with torch.autocast("cuda", dtype=HALF):
        assert torch.equal(attention(*tensors), attention(*tensors))


def test_no_output_reads_a_later_token(device: torch.device) -> None:
    for options, dtype in (
        ({"num_chunks": 8}, HALF),
        ({"num_chunks": 8}, torch.float32),
        ({"num_chunks": 4, "score": "negative_euclidean"}, torch.float16),
        ({"chunk_size": 8, "local_window": 40}, HALF),
        ({"num_chunks": 8, "curves": 3, "top_k": 30}, HALF),
    ):
        q, k, v, gamma = inputs(device)
        v = v.to(dtype)
        before = zeta_attention(q, k, v, gamma=gamma, **options)
        q[:, :, 1111:], k[:, :, 1111:], v[:, :, 1111:] = 0.5, 0.25, float("nan")
        after = zeta_attention(q, k, v, gamma=gamma, **options)
        assert torch.equal(before[:, :, :1111], after[:, :, :1111])


def test_strided_and_expanded_inputs(device: torch.device) -> None:
    q, k, v, gamma = inputs(device)
    turned = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v)]
    assert torch.equal(attention(*turned, gamma), attention(q, k, v, gamma))
    assert attention(*turned, gamma).stride() == turned[2].stride()
    shared = [t[:, :1].expand_as(t) for t in (q, k, v)]
    assert torch.equal(attention(*shared, gamma), attention(*(t.contiguous() for t in shared), gamma))


def test_a_million_tokens(device: torch.device) -> None:
    leaves = [t.requires_grad_() for t in inputs(device, 1 << 20, 8)]
    attention(*leaves).float().square().sum().backward()
    assert all(torch.isfinite(leaf.grad).all() for leaf in leaves)


def test_more_rows_than_a_grid_has_in_y(device: torch.device) -> None:
    q, k = torch.rand((2, 1 << 16, 1, 16, 3), device=device)
    v = torch.randn((1 << 16, 1, 16, 16), device=device)
    options = {"gamma": 0.2, "num_chunks": 2, "top_k": 4}
    torch.testing.assert_close(
        zeta_attention(q, k, v, **options), zeta_attention(q, k, v, **options, impl="reference"), rtol=1e-4, atol=1e-5
    )
    plans = [zeta_plan(q, k, num_chunks=2, top_k=4, impl=impl).indices() for impl in ("triton", "reference")]
    assert torch.equal(*plans)

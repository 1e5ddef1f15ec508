"""`zeta check`: is the operator right on this machine? Against float64, from the definitions."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import Any, Literal

import torch
from torch import Tensor

from zeta_core.ops import zeta_attention, zeta_plan
from zeta_core.ops.impl import resolve_impl
from zeta_core.records import versions
from zeta_core.tasks.store_write import end_with_parent

from .definition import positions_to_mask, weights

TORCH_RANGE, TRITON_RANGE = "2.11 to 2.13", "3.6 to 3.8"
"""What this was tested with; another version is named, and judged by its results like any."""
MULTIPLE = 4.0
"""A kernel may be this many times further from float64 than plain torch in the same precision is, at most."""
FLOORS = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
"""Relative errors that are allowed whatever plain torch's own error: rounding of the weights and of the output."""


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str
    passed: bool
    found: str


@dataclass(frozen=True)
class Setting:
    """Shapes and options of one comparison."""

    name: str
    seq_len: int = 203
    d_k: int = 3
    d_v: int = 64
    dtype: torch.dtype = torch.float32
    points: Literal["random", "few", "equal"] = "random"
    padded: bool = False
    options: dict[str, Any] = field(default_factory=dict)


SETTINGS = (
    Setting("cauchy, fp32"),
    # Those with the most to compile come early: with an empty cache they are what the others wait for.
    Setting("3 curves, refined", options={"curves": 3, "top_k": 24, "refine": 2}),
    Setting("local window, padding", padded=True, options={"local_window": 5}),
    Setting("cauchy, bf16", dtype=torch.bfloat16),
    Setting("cauchy, fp16, 64 chunks", dtype=torch.float16, options={"num_chunks": 64}),
    Setting("64 distinct points, bf16", points="few", dtype=torch.bfloat16, seq_len=1031),
    Setting("all points equal, bf16", points="equal", dtype=torch.bfloat16, seq_len=517),
    Setting("negative_euclidean, d_K 2", d_k=2, options={"score": "negative_euclidean"}),
    Setting("inverse_euclidean, d_K 1", d_k=1, options={"score": "inverse_euclidean"}),
    Setting("normalized_dot, d_K 5", d_k=5, options={"score": "normalized_dot"}),
    Setting("bidirectional, padding", padded=True, options={"causal": False}),
    Setting("d_K 16, d_V 48, no mean", d_k=16, d_v=48, options={"history_mean": False, "chunk_size": 50}),
    Setting("1 token", seq_len=1),
)


def run_checks(device: torch.device, workers: int | None = None) -> Iterator[Check]:
    """All checks of the implementation that `auto` takes on a device, one by one.

    workers: processes to share them; by default one for the reference, and one a core, 8 at most, for the kernels,
    since with an empty cache nearly all of the time is compiling them."""
    impl = resolve_impl("auto", device)
    found = versions()
    yield Check(
        "versions", True, f"python {platform.python_version()}, torch {found.torch}, triton {found.triton or '-'}"
    )
    jobs = [partial(compare, setting, device, impl) for setting in SETTINGS]
    jobs += [partial(check, device, impl) for check in (future_leak, determinism, strides)]
    workers = workers or (1 if impl == "reference" else min(8, os.cpu_count() or 1))
    if workers == 1:
        yield from map(_run, jobs)
        return
    # Spawned, since a CUDA context does not survive a fork.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=end_with_parent) as pool:
        yield from pool.map(_run, jobs)


def _run(job: Callable[[], Check]) -> Check:
    return job()


def tensors(setting: Setting, device: torch.device) -> dict[str, Tensor]:
    """q, k, v, gamma (a leaf a head), the output's gradient and the padding mask, seeded."""
    generator = torch.Generator().manual_seed(1)
    shape = (2, 3, setting.seq_len)
    q, k = torch.rand(2, *shape, setting.d_k, generator=generator).unbind(0)
    if setting.points == "few":
        words = torch.rand(64, setting.d_k, generator=generator)
        q, k = (words[torch.randint(64, shape, generator=generator)] for _ in range(2))
    elif setting.points == "equal":
        q, k = torch.full_like(q, 0.5), torch.full_like(k, 0.5)
    v, gradient = torch.randn(2, *shape, setting.d_v, generator=generator).to(setting.dtype).unbind(0)
    gamma = torch.tensor([0.05, 0.2, 0.5])
    mask = torch.zeros(2, setting.seq_len, dtype=torch.bool)
    if setting.padded:
        mask[0, setting.seq_len // 2 :], mask[1, :3] = True, True
    given = {"q": q, "k": k, "v": v, "gamma": gamma, "gradient": gradient, "mask": mask}
    return {name: tensor.to(device) for name, tensor in given.items()}


NAMES = ("out", "dq", "dk", "dv", "dgamma")


def results(
    given: dict[str, Tensor], forward: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
) -> dict[str, Tensor]:
    """The output, and the gradients of q, k, v and gamma, in float64 on the CPU."""
    leaves = [given[name].detach().clone().requires_grad_() for name in ("q", "k", "v", "gamma")]
    out = forward(*leaves)
    gradients = torch.autograd.grad(out, leaves, given["gradient"].to(out.dtype), allow_unused=True)
    values = (out, *(torch.zeros_like(leaf) if g is None else g for g, leaf in zip(gradients, leaves, strict=True)))
    return {name: value.detach().double().cpu() for name, value in zip(NAMES, values, strict=True)}


def compare(setting: Setting, device: torch.device, impl: Literal["reference", "triton"]) -> Check:
    """An implementation's output and every gradient against float64 from the definitions."""
    given = tensors(setting, device)
    mask = given["mask"] if setting.padded else None

    def run(which: Literal["reference", "triton"]) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
        return lambda q, k, v, gamma: zeta_attention(
            q, k, v, gamma=gamma, key_padding_mask=mask, impl=which, **setting.options
        )

    exact, sizes = by_definition(setting, {name: tensor.cpu() for name, tensor in given.items()})
    found, plain = results(given, run(impl)), results(given, run("reference"))
    worst, bound, where = 0.0, 1.0, "out"
    for name, value in exact.items():
        error, own = (float((side[name] - value).norm()) / sizes[name] for side in (found, plain))
        limit = max(FLOORS[setting.dtype], MULTIPLE * own)
        if not error / limit <= worst / bound:
            worst, bound, where = error, limit, name
    passed = worst <= bound
    return Check(f"against float64: {setting.name}", passed, f"{where} off by {worst:.1e}, at most {bound:.1e}")


def by_definition(setting: Setting, given: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, float]]:
    """The results in float64 from all pairs, with the keys that the given coordinates select; and the size of each.

    The size is the norm, or the root of the sum of squares of what single pairs add to a gradient if that is larger:
    where terms cancel (all weights of a row equal, say), rounding is as large as they are and not as their sum."""
    q, k, v, gamma = (given[name].double().requires_grad_() for name in ("q", "k", "v", "gamma"))
    mask = given["mask"]
    options = {"score": "cauchy", "causal": True, "history_mean": True, "local_window": 0, **setting.options}
    chosen = {
        name: options[name] for name in ("num_chunks", "chunk_size", "top_k", "curves", "refine") if name in options
    }
    ids = zeta_plan(
        given["q"], given["k"], causal=options["causal"], key_padding_mask=mask, impl="reference", **chosen
    ).indices()
    seq_len = q.shape[2]
    place = torch.arange(seq_len)
    see = positions_to_mask(ids, seq_len)
    past = place <= place[:, None] if options["causal"] else torch.ones(seq_len, seq_len, dtype=torch.bool)
    see = (see | (past & ((place - place[:, None]).abs() < options["local_window"]))) & ~mask[:, None, None]
    average = (past & ~mask[:, None]).double()
    average = (average / average.sum(-1, keepdim=True).clamp(min=1))[:, None]
    # The gradients of these are the terms that the gradients of q, k and gamma are the sums of.
    pairs = (*see.shape, q.shape[3])
    each = {
        "dq": q[..., :, None, :].expand(pairs), "dk": k[..., None, :, :].expand(pairs),
        "dgamma": gamma[:, None, None].expand(see.shape),
    }  # fmt: skip
    weight = torch.where(see, weights(each["dq"], each["dk"], each["dgamma"], options["score"]), 0)
    mean_key, mean_value = average @ k, average @ v
    mean_weight = weights(q, mean_key, gamma[:, None], options["score"]) * (average.sum(-1) > 0)
    total = weight.sum(-1, keepdim=True)
    summed = weight @ v
    if options["history_mean"]:
        summed, total = summed + mean_weight[..., None] * mean_value, total + mean_weight[..., None]
    out = torch.where(total > 0, summed / torch.where(total > 0, total, 1), 0)
    wanted = (q, k, v, gamma, *each.values())
    gradients = torch.autograd.grad(out, wanted, given["gradient"].double())
    exact = {name: value.detach() for name, value in zip(NAMES, (out, *gradients), strict=False)}
    terms = {name: float(value.norm()) for name, value in zip(each, gradients[4:], strict=True)}
    # A gradient without terms, as for a single token, is compared by its size.
    return exact, {name: max(1.0, float(value.norm()), terms.get(name, 0.0)) for name, value in exact.items()}


def future_leak(device: torch.device, impl: Literal["reference", "triton"]) -> Check:
    """Changing all tokens from some position on must not change any bit of the rows before.

    The position lies inside a chunk: its later queries are sorted among the earlier ones."""
    given = tensors(Setting("leak", seq_len=300), device)
    cut = 211

    def out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return zeta_attention(q, k, v, gamma=0.1, chunk_size=60, top_k=8, local_window=3, impl=impl)[:, :, :cut]

    before = out(given["q"], given["k"], given["v"])
    for tensor in (given["q"], given["k"], given["v"]):
        tensor[:, :, cut:] = torch.rand_like(tensor[:, :, cut:])
    changed = int((out(given["q"], given["k"], given["v"]) != before).any(-1).sum())
    return Check(
        "no row sees the future", changed == 0, f"{changed} of {before[..., 0].numel()} earlier rows changed"
    )


def determinism(device: torch.device, impl: Literal["reference", "triton"]) -> Check:
    """Two runs give the same bits, forward and backward."""
    setting = Setting(
        "twice", seq_len=1025, points="few", dtype=torch.bfloat16 if device.type == "cuda" else torch.float32
    )
    given = tensors(setting, device)

    def run() -> dict[str, Tensor]:
        return results(given, lambda q, k, v, gamma: zeta_attention(q, k, v, gamma=gamma, impl=impl))

    first, second = run(), run()
    different = [name for name in first if not torch.equal(first[name], second[name])]
    return Check("two runs, the same bits", not different, ", ".join(different) or "out, dq, dk, dv, dgamma")


def strides(device: torch.device, impl: Literal["reference", "triton"]) -> Check:
    """Transposed and expanded inputs give the bits of contiguous ones."""
    given = tensors(Setting("strides", seq_len=257), device)
    q, k, v = (given[name].transpose(1, 2).contiguous().transpose(1, 2) for name in ("q", "k", "v"))
    q = q[:, :1].expand(-1, 3, -1, -1)

    def out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return zeta_attention(q, k, v, gamma=0.1, impl=impl)

    same = torch.equal(out(q, k, v), out(q.contiguous(), k.contiguous(), v.contiguous()))
    return Check("strided inputs", same, "as contiguous ones" if same else "differ from contiguous ones")

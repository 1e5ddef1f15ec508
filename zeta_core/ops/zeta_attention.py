"""ZETA attention as one function: codes, windows and weighted means in a row."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor

from zeta_core.errors import NonFiniteError, OptionError, ShapeError

from .attend import SCORES, Score, attend
from .attend.api import gamma_tensor, unfused
from .impl import Impl, note_fallback, resolve_impl
from .windows import chunk_length, plan_windows
from .windows.api import WindowPlan, divisibility
from .zorder import curve_orders, grid_cells, zorder_codes
from .zorder.api import MAX_D_K, NUM_BITS, check_coords

IMPLS: tuple[str, ...] = get_args(Impl)
GAMMAS = (1e-18, 1e18)
"""Where a float gamma must lie: its square fits float32."""


def zeta_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    gamma: float | Tensor,
    num_chunks: int = 8,
    chunk_size: int | None = None,
    top_k: int = 32,
    score: Score = "cauchy",
    curves: int = 1,
    causal: bool = True,
    history_mean: bool = True,
    local_window: int = 0,
    refine: int = 1,
    key_padding_mask: Tensor | None = None,
    code_q: Tensor | None = None,
    code_k: Tensor | None = None,
    impl: Impl = "auto",
    check_inputs: bool = False,
) -> Tensor:
    """Attention over the top_k keys nearest on a Z-order curve, in O(N log N) time and O(N) memory.

    q, k: [batch, heads, seq_len, d_K], d_K 1 to 128, coordinates in [0, 1] that serve both distance and code.
    v: [batch, heads, seq_len, d_V]. Any float dtype; out has v's. Gradients for q, k, v and gamma, never
    through the selection of keys.
    gamma: float in 1e-18..1e18, or a tensor, 0-d or [heads].
    num_chunks, chunk_size: a query sees the keys of earlier chunks of M tokens; M = chunk_size if given, else
        ceil(seq_len / num_chunks). Only with a fixed chunk_size is a prefix of the output the output of the
        prefix.
    curves: 1, 3 or 6 (the last two for d_K = 3), each giving top_k / curves keys; a repeat counts once.
    refine: the window is refine times as wide and cut to the keys nearest on the grid.
    history_mean: the mean of keys and values over 0..i is one more candidate. local_window: so are the last
        local_window tokens, itself included.
    causal: False makes every key visible, whatever the chunks.
    key_padding_mask: [batch, seq_len] bool, True = ignore the key. Queries there are computed like any other.
    code_q, code_k: [batch, heads, seq_len, d] in [0, 1], coordinates for the codes alone; q and k may then be
        any reals.
    impl: "auto", "reference" or "triton". On a CPU NaN or infinity in q, k or v is an error; on a GPU only
        with check_inputs=True, since looking costs a synchronisation. The kernels may then pass a NaN in v on to
        other queries of a chunk that see its key's chunk, though no window of theirs holds the key (with
        history_mean all later tokens get it anyway); never to an earlier token.

    The kernels do not take float64, d_V above 256, or a head of 2^31 numbers: "auto" then takes the reference
    and logs one line, "triton" is an error.
    Not supported: grouped-query heads, q and k of different lengths, attention dropout, returned weights
    (which keys a query sees: `zeta_plan(...).indices()`).
    Raises: ShapeError, OptionError, NonFiniteError, DeviceError. Source: ZETA (ICLR 2025), its method."""
    check_tensors(q, k, v, gamma, key_padding_mask)
    if code_q is not None or code_k is not None:
        check_code_coords(q, code_q, code_k)
    if score not in SCORES:
        raise OptionError(f"score={score!r} is not one of {', '.join(SCORES)}")
    if local_window < 0:
        raise OptionError(f"local_window={local_window} must be at least 0 (0: none)")
    if check_inputs or (q.device.type == "cpu" and not torch.compiler.is_compiling()):
        check_finite(q=q, k=k, v=v)
    check_options(top_k, curves, refine, num_chunks, chunk_size, impl)
    impl = implementation(impl, q, k, v)
    code_q, code_k = q if code_q is None else code_q, k if code_k is None else code_k
    if impl == "triton" and v.numel():
        check_coords(code_q, NUM_BITS)
        length = chunk_length(q.shape[2], num_chunks=num_chunks, chunk_size=chunk_size) if causal else 0
        setting = (SCORES.index(score), length, top_k, curves, refine, history_mean, local_window)
        return by_kernels(q, k, v, gamma, code_q, code_k, key_padding_mask, *setting)
    plan = zeta_plan(
        code_q,
        code_k,
        num_chunks=num_chunks,
        chunk_size=chunk_size,
        top_k=top_k,
        curves=curves,
        causal=causal,
        refine=refine,
        key_padding_mask=key_padding_mask,
        impl=impl,
    )
    # Autocast would turn the reference's products to half precision; it does not reach into the kernels.
    with torch.autocast(q.device.type, enabled=False):
        return attend(
            q,
            k,
            v,
            plan,
            gamma=gamma,
            score=score,
            history_mean=history_mean,
            local_window=local_window,
            causal=causal,
            key_padding_mask=key_padding_mask,
            impl=impl,
        )


def by_kernels(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gamma: float | Tensor,
    code_q: Tensor,
    code_k: Tensor,
    mask: Tensor | None,
    score: int,
    chunk: int,
    top_k: int,
    curves: int,
    refine: int,
    history_mean: bool,
    local_window: int,
) -> Tensor:
    """The whole operator by the Triton kernels; chunk 0 sees every key, score is its place in SCORES."""
    from . import kernel_ops

    setting = (score, chunk, top_k, curves, refine, history_mean, local_window)
    return kernel_ops.plan_and_attend(q, k, v, gamma_tensor(gamma, q), code_q, code_k, mask, *setting)


def implementation(impl: Impl, q: Tensor, k: Tensor, v: Tensor) -> Impl:
    """What `impl` means for these tensors: "reference" or "triton".

    Raises: OptionError if `triton` was asked for tensors that the kernels do not take."""
    resolved = resolve_impl(impl, q.device)
    reason = unfused(q, k, v) if resolved == "triton" else None
    if reason is None:
        return resolved
    if impl == "triton":
        raise OptionError(f"impl='triton' does not take this: {reason}; use impl='auto' or 'reference'")
    if not torch.compiler.is_compiling():
        note_fallback(reason)
    return "reference"


@torch.no_grad()
def zeta_plan(
    code_q: Tensor,
    code_k: Tensor,
    *,
    num_chunks: int = 8,
    chunk_size: int | None = None,
    top_k: int = 32,
    curves: int = 1,
    causal: bool = True,
    refine: int = 1,
    key_padding_mask: Tensor | None = None,
    impl: Impl = "auto",
) -> WindowPlan:
    """The keys that zeta_attention selects; `plan.indices()` is [batch, heads, seq_len, top_k], -1 if empty.

    code_q, code_k: [batch, heads, seq_len, d] coordinates in [0, 1]. Options as in zeta_attention.
    Raises: ShapeError, OptionError, DeviceError."""
    check_options(top_k, curves, refine, num_chunks, chunk_size, impl)
    if code_q.shape != code_k.shape:
        raise ShapeError(f"coordinates for codes differ in shape: {list(code_q.shape)} and {list(code_k.shape)}")
    check_mask(key_padding_mask, code_q)
    orders = curve_orders(curves, code_q.shape[-1])
    length = chunk_length(code_q.shape[-2], num_chunks=num_chunks, chunk_size=chunk_size)
    if resolve_impl(impl, code_q.device) == "triton" and code_q.numel():
        check_coords(code_q, NUM_BITS)
        return plan_by_kernels(code_q, code_k, key_padding_mask, length if causal else None, top_k, curves, refine)
    q_codes, k_codes = (
        torch.stack([zorder_codes(side[..., list(order)], impl=impl) for order in orders])
        for side in (code_q, code_k)
    )
    return plan_windows(
        q_codes,
        k_codes,
        top_k=top_k,
        chunk_size=length,
        causal=causal,
        refine=refine,
        q_cells=grid_cells(code_q) if refine > 1 else None,
        k_cells=grid_cells(code_k) if refine > 1 else None,
        key_padding_mask=key_padding_mask,
        impl=impl,
    )


def plan_by_kernels(
    code_q: Tensor,
    code_k: Tensor,
    key_padding_mask: Tensor | None,
    chunk: int | None,
    top_k: int,
    curves: int,
    refine: int,
) -> WindowPlan:
    """A plan straight from coordinates: codes never take the form that plan_windows reads."""
    from . import kernel_ops

    return kernel_ops.make_plan(
        code_q, code_k, key_padding_mask, chunk=chunk, top_k=top_k, curves=curves, refine=refine
    )


def check_options(top_k: int, curves: int, refine: int, num_chunks: int, chunk_size: int | None, impl: Impl) -> None:
    """Raises OptionError if an option is outside its range, or top_k is not divisible by curves."""
    if curves in (1, 3, 6) and (top_k < 1 or top_k % curves):
        raise OptionError(divisibility(top_k, curves))
    if refine < 1 or num_chunks < 1 or (chunk_size is not None and chunk_size < 1):
        sizes = {"refine": refine, "num_chunks": num_chunks, "chunk_size": chunk_size}
        name, value = next((name, size) for name, size in sizes.items() if size is not None and size < 1)
        raise OptionError(f"{name}={value} must be at least 1")
    if impl not in IMPLS:
        raise OptionError(f"impl={impl!r} is not one of {', '.join(IMPLS)}")


def check_code_coords(q: Tensor, code_q: Tensor | None, code_k: Tensor | None) -> None:
    """Raises OptionError or ShapeError unless both are given and fit q."""
    if code_q is None or code_k is None:
        raise OptionError("code_q and code_k go together: give both or neither")
    for name, tensor in (("code_q", code_q), ("code_k", code_k)):
        if tensor.dim() != 4 or tensor.shape[:3] != q.shape[:3]:
            raise ShapeError(f"{name} has shape {list(tensor.shape)}; expected {[*q.shape[:3], 'd']}")
    if code_q.shape != code_k.shape:
        raise ShapeError(f"coordinates for codes differ in shape: {list(code_q.shape)} and {list(code_k.shape)}")


def check_tensors(q: Tensor, k: Tensor, v: Tensor, gamma: float | Tensor, key_padding_mask: Tensor | None) -> None:
    """Raises ShapeError or OptionError unless the tensors fit each other."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dim() != 4:
            raise ShapeError(f"{name} has shape {list(tensor.shape)}; expected [batch, heads, seq_len, dim]")
        if not tensor.is_floating_point():
            raise ShapeError(f"{name} has dtype {tensor.dtype}; expected a floating-point dtype")
    q_shape, k_shape, v_shape = q.shape, k.shape, v.shape
    if q_shape != k_shape or q_shape[:3] != v_shape[:3]:
        raise misfit(q_shape, k_shape, v_shape)
    if not 1 <= q_shape[3] <= MAX_D_K:
        raise ShapeError(f"d_K={q_shape[3]} is outside 1..{MAX_D_K}")
    if isinstance(gamma, Tensor):
        if gamma.dim() > 1 or (gamma.dim() == 1 and gamma.shape[0] != q.shape[1]):
            raise ShapeError(f"gamma has shape {list(gamma.shape)}; expected a 0-d tensor or [{q.shape[1]}] (heads)")
    elif not GAMMAS[0] <= gamma <= GAMMAS[1]:
        raise OptionError(f"gamma={gamma} is outside {GAMMAS[0]:g}..{GAMMAS[1]:g}")
    check_mask(key_padding_mask, q)


def misfit(q: torch.Size, k: torch.Size, v: torch.Size) -> ShapeError:
    """What is wrong with shapes of 4 dimensions that do not fit each other."""
    if q[1] != k[1] or k[1] != v[1]:
        return ShapeError(
            f"q, k and v have {q[1]}, {k[1]} and {v[1]} heads; grouped-query heads are not supported: repeat k and v "
            "with repeat_interleave(groups, dim=1)"
        )
    if q[2] != k[2]:
        return ShapeError(f"q has {q[2]} tokens and k has {k[2]}; both must come from the same sequence")
    if q != k:
        return ShapeError(f"q has shape {list(q)} and k {list(k)}; they must be the same")
    return ShapeError(f"v has shape {list(v)}; expected {[*q[:3], 'd_V']}")


def check_mask(key_padding_mask: Tensor | None, q: Tensor) -> None:
    """Raises ShapeError unless the mask fits q [batch, heads, seq_len, dim]."""
    if key_padding_mask is None:
        return
    if key_padding_mask.dtype != torch.bool:
        raise ShapeError(f"key_padding_mask has dtype {key_padding_mask.dtype}; expected bool, True = ignore")
    if key_padding_mask.shape != (q.shape[0], q.shape[2]):
        raise ShapeError(
            f"key_padding_mask has shape {list(key_padding_mask.shape)}; expected {[q.shape[0], q.shape[2]]}"
        )


def check_finite(**tensors: Tensor) -> None:
    """Raises NonFiniteError naming the first tensor that holds NaN or infinity."""
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise NonFiniteError(
                f"{name} holds NaN or infinity; zeta_attention needs finite values (look at what made {name})"
            )

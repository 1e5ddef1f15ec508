"""The kernels as operators of torch: `zeta::plan`, `zeta::attend` and its backward pass.

Registered when this module is first imported, which `impl="triton"` does. A `Library` rather than
`custom_op`: about half the time a call."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, library
from torch.autograd.function import once_differentiable

from zeta_core.errors import OptionError

from .attend.kernel_run import Setting, along, forward, kept_size, shape_of
from .attend.kernel_run_backward import Need, backward
from .layout import fields_of, layout_of
from .windows.kernel_plan import KernelPlan, empty_cells, plan_coords
from .zorder.api import curve_orders

operators = library.Library("zeta", "DEF")
SETTING = "int score, int chunk, int top_k, int curves, int refine, bool gradients, bool history, int local"
TENSORS = "Tensor q, Tensor k, Tensor v, Tensor gamma, Tensor? mask, Tensor plan, Tensor cells"
operators.define(
    "plan(Tensor code_q, Tensor code_k, Tensor? mask, int chunk, int top_k, int curves, int refine, bool gradients)"
    " -> (Tensor, Tensor)"
)
operators.define(f"attend({TENSORS}, {SETTING}) -> (Tensor, Tensor)")
operators.define(
    f"attend_backward(Tensor grad, {TENSORS}, Tensor out, Tensor kept, {SETTING}, bool need_q, "
    "bool need_k, bool need_v, bool need_gamma) -> (Tensor, Tensor, Tensor, Tensor)"
)
ANY_DEVICE = "CompositeExplicitAutograd"


def device_of(tensor: Tensor) -> AbstractContextManager[Any]:
    """Triton launches on the current device: make it the tensor's."""
    if tensor.is_cuda and tensor.get_device() != torch.cuda.current_device():
        return torch.cuda.device(tensor.device)
    return nullcontext()


def make_plan(
    code_q: Tensor, code_k: Tensor, mask: Tensor | None, *, chunk: int | None, top_k: int, curves: int, refine: int
) -> KernelPlan:
    """The plan of coordinates [batch, heads, seq_len, d], none of whose sizes is 0; chunk None sees all keys."""
    batch, heads, seq_len, _ = code_q.shape
    options = (chunk or 0, top_k, curves, refine, True)
    make = plan if is_plain(code_q) else torch.ops.zeta.plan
    buffer, cells = make(code_q.detach(), code_k.detach(), mask, *options)
    return KernelPlan(buffer, cells, batch, heads, seq_len, chunk, top_k, curves, refine, True)


def attend_plan(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    plan: Any,
    gamma: Tensor,
    score: int,
    history_mean: bool,
    local_window: int,
    causal: bool,
    mask: Tensor | None,
) -> Tensor:
    """The weighted mean over a plan's windows; score is its place in SCORES, gamma 0-d or [heads], float32."""
    if causal != (plan.chunk is not None):
        raise OptionError(f"causal={causal} does not fit the plan, which was made with causal={not causal}")
    of_plan = (plan.chunk or 0, plan.top_k, plan.curves, plan.refine, plan.gradients)
    setting = Setting(score, *of_plan, history_mean, local_window)
    inputs = (q, k, v, gamma, mask, plan.buffer, plan.cells)
    if not is_plain(q):
        return torch.ops.zeta.attend(*inputs, *setting)[0]
    with device_of(q):
        return attended(*inputs, setting, wants_gradients(q, k, v, gamma))


def plan_and_attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gamma: Tensor,
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
    """Both in a row; chunk 0 sees all keys, and a plan that no backward pass will use holds less."""
    wanted = wants_gradients(q, k, v, gamma)
    options = (chunk, top_k, curves, refine, wanted)
    setting = Setting(score, *options, history_mean, local_window)
    if not is_plain(q):
        buffer, cells = torch.ops.zeta.plan(code_q.detach(), code_k.detach(), mask, *options)
        return torch.ops.zeta.attend(q, k, v, gamma, mask, buffer, cells, *setting)[0]
    with device_of(q):
        return attended(q, k, v, gamma, mask, *planned(code_q, code_k, mask, *options), setting, wanted)


def wants_gradients(q: Tensor, k: Tensor, v: Tensor, gamma: Tensor) -> bool:
    return torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad or gamma.requires_grad)


def attended(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gamma: Tensor,
    mask: Tensor | None,
    plan: Tensor,
    cells: Tensor | None,
    setting: Setting,
    wanted: bool,
) -> Tensor:
    """The output without torch's dispatcher, on the current device."""
    if wanted:
        out: Tensor = Attend.apply(q, k, v, gamma, mask, plan, cells, setting)
        return out
    return forward(q, k, v, gamma, mask, plan, cells, setting)[0]


def planned(
    code_q: Tensor, code_k: Tensor, mask: Tensor | None, chunk: int, top_k: int, curves: int, refine: int,
    gradients: bool,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """The plan's buffer and its cells, if it has any; chunk 0 sees every key."""
    orders = curve_orders(curves, code_q.shape[-1])
    return plan_coords(
        code_q, code_k, mask, orders, chunk=chunk or None, top_k=top_k, refine=refine, gradients=gradients
    )


def plan(code_q: Tensor, code_k: Tensor, mask: Tensor | None, *options: Any) -> tuple[Tensor, Tensor]:
    """options: as of `planned`."""
    with device_of(code_q):
        buffer, cells = planned(code_q, code_k, mask, *options)
        return buffer, empty_cells(code_q.device) if cells is None else cells


def plan_fake(code_q: Tensor, code_k: Tensor, mask: Tensor | None, *options: int) -> tuple[Tensor, Tensor]:
    # Sizes step with the length (powers of two, tiles), so that a symbolic length becomes a number here.
    batch, heads, seq_len, dims = (int(size) for size in code_q.shape)
    chunk, _top_k, curves, refine, gradients = (int(option) for option in options)
    layout = layout_of(batch * heads, seq_len, chunk or None)
    size = fields_of(layout, curves, refine, bool(gradients)).size
    cells = (2, batch * heads, seq_len, dims) if refine > 1 else (2, 0, 0, 1)
    return code_q.new_empty(curves, size, dtype=torch.int32), code_q.new_empty(cells, dtype=torch.int16)


def attend(
    q: Tensor, k: Tensor, v: Tensor, gamma: Tensor, mask: Tensor | None, plan: Tensor, cells: Tensor, *setting: int
) -> tuple[Tensor, Tensor]:
    """setting: the fields of Setting."""
    with device_of(q):
        return forward(q, k, v, gamma, mask, plan, cells, Setting(*setting))


def attend_fake(
    q: Tensor, k: Tensor, v: Tensor, gamma: Tensor, mask: Tensor | None, plan: Tensor, cells: Tensor, *setting: int
) -> tuple[Tensor, Tensor]:
    options = Setting(*(number if isinstance(number, bool) else int(number) for number in setting))
    shape = shape_of(torch.Size(int(size) for size in q.shape), int(v.shape[-1]), options)
    return torch.empty_like(along(v)), v.new_empty(kept_size(shape, options), dtype=torch.float32)


def attend_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gamma: Tensor,
    mask: Tensor | None,
    plan: Tensor,
    cells: Tensor,
    out: Tensor,
    kept: Tensor,
    *rest: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """rest: the fields of Setting, then those of Need."""
    with device_of(q):
        return backward(
            grad, q, k, v, gamma, mask, plan, cells, out, kept, Setting(*rest[:-4]), Need(*rest[-4:])
        )  # fmt: skip


def attend_backward_fake(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, gamma: Tensor, *rest: object
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, k, gamma = (torch.empty_like(t, memory_format=torch.contiguous_format) for t in (q, k, gamma))
    return q, k, torch.empty_like(along(v)), gamma


def save(ctx: torch.autograd.function.FunctionCtx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:7], *output)
    ctx.setting = inputs[7:]


def differentiate(ctx: torch.autograd.function.FunctionCtx, grad: Tensor | None, *_others: None) -> tuple:
    need, nothing = ctx.needs_input_grad[:4], (None,) * (3 + len(ctx.setting))
    if grad is None:
        return (None,) * 4 + nothing
    gradients = torch.ops.zeta.attend_backward(grad, *ctx.saved_tensors, *ctx.setting, *need)
    return (*(g if wanted else None for g, wanted in zip(gradients, need, strict=True)), *nothing)


class Attend(torch.autograd.Function):
    """`zeta::attend` without torch's dispatcher, whose Python costs more than the kernels on short sequences.

    In the older form, with the context first: torch binds the arguments of the newer one anew at every call."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        out, kept = forward(*inputs)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:7], out, kept)
        ctx.setting = inputs[7]
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, ...]:
        # Entering and leaving a mode is left out where there is nothing to refuse.
        return once(ctx, grad) if torch.is_grad_enabled() else returned(ctx, grad)


def returned(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, ...]:
    """The gradients of what Attend took."""
    if grad is None:
        return (None,) * 8
    need = Need(*ctx.needs_input_grad[:4])
    with device_of(grad):
        dq, dk, dv, dgamma = backward(grad, *ctx.saved_tensors, ctx.setting, need)
    wanted = (dq if need.q else None, dk if need.k else None, dv if need.v else None, dgamma if need.gamma else None)
    return (*wanted, None, None, None, None)


once = once_differentiable(returned)


def is_plain(tensor: Tensor) -> bool:
    """Whether nothing traces, transforms or intercepts calls, so that the dispatcher may be left out."""
    return (
        not torch.compiler.is_compiling()
        and type(tensor) in (Tensor, torch.nn.Parameter)
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
    )


def save_nothing(ctx: torch.autograd.function.FunctionCtx, inputs: tuple, output: tuple) -> None:
    pass


def refuse(ctx: torch.autograd.function.FunctionCtx, *grads: Tensor | None) -> tuple:
    raise OptionError("the kernels have no second derivatives; use impl='reference' for those")


for name, function, fake in (
    ("plan", plan, plan_fake),
    ("attend", attend, attend_fake),
    ("attend_backward", attend_backward, attend_backward_fake),
):
    operators.impl(name, function, ANY_DEVICE)
    library.register_fake(f"zeta::{name}", fake, lib=operators)
library.register_autograd("zeta::attend", differentiate, setup_context=save, lib=operators)
library.register_autograd("zeta::attend_backward", refuse, setup_context=save_nothing, lib=operators)

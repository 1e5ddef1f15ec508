"""A model and its optimizer on several processes: copied to each (DDP), or cut over them (FSDP2).

Whatever is chosen, state_dict and load_state_dict of both are about whole tensors under the same names: a checkpoint
can be gone on with on any number of processes, cut or not. What cuts is imported when it is used: it takes as long as
all the rest of a short command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from zeta_core.model import Network
from zeta_core.model.block import Block


def shard(network: Network, accelerator: Accelerator) -> None:
    """Cut the parameters over the processes, in place: a unit for each block, and one for what is left.

    In bf16 the MLPs, most of a block, are a unit of their own that is gathered rounded. All else stays fp32, as
    autocast has it: norms, gamma and a state's decay, and the q and k projections, whose coordinates would collapse
    onto few cells. state_dict and load_state_dict must then be called by all processes at once.
    Must come before the optimizer is built, and after every process has drawn the same weights."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    rounded = MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=False)
    mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
    network.to(accelerator.device)
    for block in network.blocks:
        assert isinstance(block, Block)
        if accelerator.mixed_precision == "bf16":
            fully_shard(block.mlp, mesh=mesh, mp_policy=rounded)
        fully_shard(block, mesh=mesh)
    fully_shard(network, mesh=mesh)
    cuts = {name: p for name, p in network.named_parameters() if is_cut(p)}

    def gather(module: nn.Module, state: dict[str, Any], prefix: str, _: object) -> None:
        for name, tensor in state.items():
            state[name] = copied(tensor)

    def cut(module: nn.Module, state: dict[str, Any], prefix: str, *_: object) -> None:
        for name, tensor in state.items():
            if name in cuts:
                state[name] = cut_like(cuts[name], tensor)

    network.register_state_dict_post_hook(gather)  # type: ignore[no-untyped-call]
    network.register_load_state_dict_pre_hook(cut)  # type: ignore[no-untyped-call]


def gather_states(optimizer: torch.optim.Optimizer) -> None:
    """state_dict and load_state_dict of an optimizer of cut parameters are about whole tensors from now on."""

    def gather(optimizer: torch.optim.Optimizer, found: dict[str, Any]) -> dict[str, Any]:
        state = {
            place: {name: copied(value) if isinstance(value, Tensor) else value for name, value in kept.items()}
            for place, kept in found["state"].items()
        }
        return {**found, "state": state}

    def cut(optimizer: torch.optim.Optimizer, given: dict[str, Any]) -> dict[str, Any]:
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        state = {
            place: {name: cut_like(parameters[place], value) for name, value in kept.items()}
            for place, kept in given["state"].items()
        }
        return {**given, "state": state}

    optimizer.register_state_dict_post_hook(gather)
    optimizer.register_load_state_dict_pre_hook(cut)


def is_cut(part: Tensor | nn.Module) -> bool:
    """Whether a tensor is a DTensor, or a module's weights are."""
    return hasattr(part, "full_tensor" if isinstance(part, Tensor) else "unshard")


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor that is cut over the processes; another one as it is."""
    return cast(Any, tensor).full_tensor() if is_cut(tensor) else tensor


def copied(tensor: Tensor) -> Tensor:
    """The same on the CPU, in memory of its own: gathering leaves a view of more, which would be saved along."""
    return whole(tensor).detach().to("cpu", copy=True)


def cut_like(parameter: Tensor, tensor: Tensor) -> Tensor:
    """This process's share of a whole tensor, which each has; one of another shape, such as a count, as it is."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(parameter, DTensor) or tensor.shape != parameter.shape:
        return tensor
    mesh = parameter.device_mesh
    return distribute_tensor(tensor.to(mesh.device_type), mesh, parameter.placements, src_data_rank=None)


@contextmanager
def gathered(network: nn.Module) -> Iterator[None]:
    """Every process has all weights inside, for what reads them outside of forward."""
    units: list[Any] = [module for module in network.modules() if is_cut(module)]
    for unit in units:
        unit.unshard()
    try:
        yield
    finally:
        for unit in units:
            unit.reshard()


def prepare(
    network: Network, optimizer: torch.optim.Optimizer, accelerator: Accelerator
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Both as accelerate trains and saves them. A network that is cut already is not copied to the processes."""
    if not is_cut(network):
        model, optimizer = accelerator.prepare(network, optimizer)
        return model, optimizer
    gather_states(optimizer)
    return (
        accelerator.prepare_model(network, evaluation_mode=True),
        accelerator.prepare_optimizer(optimizer, device_placement=False),
    )

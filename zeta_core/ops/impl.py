"""Which implementation runs: plain torch (`reference`) or the Triton kernels (`triton`)."""

from __future__ import annotations

import importlib.util
import os
from typing import Literal

import torch

from zeta_core.errors import DeviceError

Impl = Literal["auto", "reference", "triton"]
ResolvedImpl = Literal["reference", "triton"]

KERNELS_READY = False
"""The operator has a reference implementation alone so far."""


def missing_for_kernels(device: torch.device) -> str | None:
    """What keeps the Triton kernels from running on `device`; None if nothing does."""
    if not KERNELS_READY:
        return "this version has no Triton kernels"
    if importlib.util.find_spec("triton") is None:
        return "the package triton is not installed"
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return f"device {device.type} is no CUDA GPU"
    return None


def resolve_impl(impl: Impl, device: torch.device) -> ResolvedImpl:
    """The implementation that `impl` means for tensors on `device`.

    `auto` takes the kernels on a CUDA GPU that has Triton, else the reference.
    Raises: DeviceError if `triton` was asked for and cannot run here."""
    if impl == "reference" or (impl == "auto" and device.type != "cuda"):
        return "reference"
    missing = missing_for_kernels(device)
    if missing is None:
        return "triton"
    if impl == "triton":
        raise DeviceError(f"impl='triton' cannot run here: {missing}; use impl='auto' or 'reference'")
    return "reference"

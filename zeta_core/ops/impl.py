"""Which implementation runs: plain torch (`reference`) or the Triton kernels (`triton`)."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from functools import cache
from typing import Literal

import torch

from zeta_core.errors import DeviceError

Impl = Literal["auto", "reference", "triton"]
ResolvedImpl = Literal["reference", "triton"]


def missing_for_kernels(device: torch.device) -> str | None:
    """What keeps the Triton kernels from running on `device`; None if nothing does."""
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return f"device {device.type} is no CUDA GPU"
    return None if has_triton() else "the package triton is not installed"


def has_triton() -> bool:
    """Whether Triton can be imported; looked up on disk until it has been."""
    if "triton" in sys.modules:
        return True
    try:
        return importlib.util.find_spec("triton") is not None
    except ImportError:
        return False


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


@cache
def note_fallback(reason: str) -> None:
    """Log, once for each reason, that `auto` took the reference on a GPU."""
    logging.getLogger("zeta").warning("impl='auto' takes the reference implementation here: %s", reason)

"""torch's scaled_dot_product_attention, one backend at a time."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.backends import cudnn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from ..case import Shape, vectors
from .provider import Problem, Provider, all_pairs_bytes, past, softmax_attention


class SdpaProvider(Provider):
    """Dense softmax attention by torch's cuDNN, Flash, memory-efficient or plain backend."""

    kind: Literal["sdpa_cudnn", "sdpa_flash", "sdpa_efficient", "sdpa_math"] = "sdpa_cudnn"
    dense: ClassVar[bool] = True

    @property
    def torch_backend(self) -> SDPBackend:
        """torch's name of the backend."""
        return {
            "sdpa_cudnn": SDPBackend.CUDNN_ATTENTION,
            "sdpa_flash": SDPBackend.FLASH_ATTENTION,
            "sdpa_efficient": SDPBackend.EFFICIENT_ATTENTION,
            "sdpa_math": SDPBackend.MATH,
        }[self.kind]

    def missing(self, shape: Shape, device: torch.device, backward: bool) -> str | None:
        """torch's CPU has the Flash and the plain backend; a GPU's Flash and cuDNN take half precision."""
        gpu = device.type == "cuda"
        if not gpu and self.kind in ("sdpa_cudnn", "sdpa_efficient"):
            return "torch has this backend for CUDA GPUs alone"
        if gpu and self.kind in ("sdpa_cudnn", "sdpa_flash") and shape.dtype == "fp32":
            return "takes fp16 and bf16 alone, not fp32; use --dtype bf16"
        return None

    def needs_bytes(self, shape: Shape, backward: bool) -> int:
        """The plain backend keeps scores and weights of all pairs, in fp32 whatever the inputs."""
        pairs = all_pairs_bytes(shape, 4 if backward else 2, 4) if self.kind == "sdpa_math" else 0
        return super().needs_bytes(shape, backward) + pairs

    def backend(self, device: torch.device) -> str:
        """torch's backend by name; cuDNN with its own version."""
        there = self.kind == "sdpa_cudnn" and cudnn.is_available()  # type: ignore[no-untyped-call]
        own = f"cuDNN {cudnn.version()}, " if there else ""  # type: ignore[no-untyped-call]
        return f"{self.torch_backend.name}, {own}{super().backend(device)}"

    def build(self, shape: Shape, device: torch.device) -> Problem:
        """Heads of width d_V, for queries and keys too."""
        q, k, v = vectors(shape, device, 3)

        def forward() -> Tensor:
            with sdpa_kernel(self.torch_backend):
                return scaled_dot_product_attention(q, k, v, is_causal=shape.causal)

        see = past if shape.causal else lambda seq_len: None
        return Problem([q, k, v], v, forward, lambda q, k, v: softmax_attention(q, k, v, see(q.shape[2])))

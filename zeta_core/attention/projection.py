"""From hidden states to query and key coordinates (paper, method step 1, and its silence on normalising)."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Coordinates = Literal["sigmoid", "sigmoid_code_only", "layernorm", "minmax"]
ProjectionKind = Literal["two_layer", "linear", "random_fixed"]
LAYERNORM_SCALE = 1.5
"""layernorm coordinates t give codes from sigmoid(1.5 t)."""


class Projection(nn.Module):
    """Hidden states to heads * d_K raw coordinates, in fp32 also under autocast.

    In half precision the coordinates would collapse onto few of the 4,096 cells."""

    def __init__(self, d_model: int, width: int, d_out: int, kind: ProjectionKind) -> None:
        super().__init__()
        self.hidden = nn.Linear(d_model, width) if kind == "two_layer" else None
        self.out = nn.Linear(width if kind == "two_layer" else d_model, d_out)
        if kind == "random_fixed":
            self.out.requires_grad_(False)

    def forward(self, hidden: Tensor) -> Tensor:
        """[batch, seq_len, d_model] to [batch, seq_len, d_out], float32 (float64 if hidden is)."""
        with torch.autocast(hidden.device.type, enabled=False):
            x = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
            if self.hidden is not None:
                x = F.gelu(_linear(self.hidden, x))
            return _linear(self.out, x)


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    return F.linear(x, layer.weight.to(x.dtype), layer.bias.to(x.dtype))


def place(raw: Tensor, coordinates: Coordinates) -> tuple[Tensor, Tensor | None]:
    """Raw coordinates [batch, heads, seq_len, d_K] as (points, coordinates for the codes or None if the same).

    sigmoid: in [0, 1], for both. sigmoid_code_only: raw points, sigmoid for the codes. layernorm: normalised
    points t, codes from sigmoid(1.5 t). minmax: scaled to [0, 1] over the sequence, which reads the future."""
    if coordinates == "sigmoid":
        return raw.sigmoid(), None
    if coordinates == "sigmoid_code_only":
        return raw, raw.detach().sigmoid()
    if coordinates == "layernorm":
        points = F.layer_norm(raw, raw.shape[-1:])
        return points, (LAYERNORM_SCALE * points.detach()).sigmoid()
    low, high = raw.amin(-2, keepdim=True), raw.amax(-2, keepdim=True)
    return (raw - low) / (high - low).clamp(min=1e-6), None

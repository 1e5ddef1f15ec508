"""How a model is trained."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from torch import nn

from zeta_core.config import NOT_IDENTITY, Config, added_later


class TrainingConfig(Config):
    """AdamW with linear warm-up and a cosine to zero."""

    steps: PositiveInt = 1000
    batch_size: PositiveInt = 64
    """Examples an optimizer step, over all processes and accumulated parts."""
    accumulate: PositiveInt = 1
    """Parts that a batch is cut into, to save memory."""
    learning_rate: PositiveFloat = 1e-3
    warmup_steps: NonNegativeInt = 50
    """Steps of linear warm-up; what goes beyond `steps` is cut."""
    weight_decay: NonNegativeFloat = 0.1
    """On weights of two dimensions and more (matrices, convolutions): not on norms, biases, embeddings, gamma."""
    clip_norm: PositiveFloat = 1.0
    eval_every: PositiveInt = 100
    stop_at: float | None = None
    """Stop early once the validation score is at least this (for a loss: at most)."""
    compile: bool = Field(default=False, json_schema_extra=added_later(False))
    """Train through torch.compile: fewer and larger kernels, for up to a minute at the start."""
    checkpoint_activations: bool = Field(default=False, json_schema_extra=added_later(False))
    """Keep only each block's input for the backward pass and compute the rest again: less memory, a third slower."""
    sharding: Literal["none", "fsdp"] = Field(default="none", json_schema_extra=added_later("none"))
    """Of weights, gradients and the optimizer over several processes; none: each has all of them. fsdp: each has its
    part, and a block's weights while it computes with them."""
    process_timeout: PositiveFloat = Field(default=600.0, json_schema_extra=NOT_IDENTITY)
    """Seconds that processes wait for one of them at most; then the run fails."""
    checkpoint_seconds: PositiveFloat = Field(default=5.0, json_schema_extra=NOT_IDENTITY)

    def rate(self, step: int) -> float:
        """The learning rate of step 0, 1, ... as a share of `learning_rate`."""
        warmup = min(self.warmup_steps, self.steps)
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, self.steps - warmup)))

    def optimizer(self, model: nn.Module, *, fused: bool = False) -> torch.optim.AdamW:
        """AdamW over the model's trained parameters, weight decay on its matrices and convolutions alone.

        fused: all parameters of a group in one kernel."""
        tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
        decayed: list[nn.Parameter] = []
        others: list[nn.Parameter] = []
        for parameter in model.parameters():
            if parameter.requires_grad:
                weight = parameter.dim() >= 2 and id(parameter) not in tables
                (decayed if weight else others).append(parameter)
        groups = [{"params": decayed, "weight_decay": self.weight_decay}, {"params": others, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=self.learning_rate, betas=(0.9, 0.95), fused=fused)

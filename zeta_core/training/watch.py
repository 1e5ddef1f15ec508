"""Losses and gradient norms, kept on the device until someone looks."""

from __future__ import annotations

import torch
from accelerate import Accelerator

from zeta_core.errors import RunFailed


class Watch:
    """Keeps the losses and gradient norms on the device, and finds the first step at which one is not finite."""

    def __init__(self, accelerator: Accelerator, *, reads_every: int) -> None:
        self.accelerator, self.reads_every = accelerator, reads_every
        # A loss scaler skips steps with infinite gradients by itself.
        self.norms_must_be_finite = accelerator.scaler is None
        self.pending: list[tuple[int, torch.Tensor, torch.Tensor]] = []
        self.loss = self.norm = float("nan")

    def see(self, step: int, loss: torch.Tensor, norm: torch.Tensor) -> None:
        """Note what step number `step` gave; the loss is this process's addend of it."""
        self.pending.append((step, loss.detach(), norm.detach()))

    def due(self, step: int) -> bool:
        """Whether it is time to look."""
        return step % self.reads_every == 0

    def check(self) -> None:
        """Read what was noted, on all processes at once. Raises: RunFailed at the first step that is not finite."""
        if not self.pending:
            return
        losses = torch.stack([loss.float() for _, loss, _ in self.pending])
        if self.accelerator.num_processes > 1:
            losses = self.accelerator.reduce(losses, reduction="sum")
        values = torch.stack((losses, torch.stack([norm.float() for _, _, norm in self.pending])), dim=1).tolist()
        for (step, _, _), (loss, norm) in zip(self.pending, values, strict=True):
            self.loss, self.norm = loss, norm
            if not _finite(self.loss):
                raise RunFailed(f"the loss is {self.loss} at step {step + 1}; try a lower learning rate")
            if self.norms_must_be_finite and not _finite(self.norm):
                raise RunFailed(f"the gradient norm is {self.norm} at step {step + 1}; try a lower learning rate")
        self.pending.clear()


def _finite(value: float) -> bool:
    return abs(value) < float("inf")

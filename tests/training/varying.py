"""A task whose examples have one to six labels."""

import json
import os
from pathlib import Path

import numpy as np
import torch
from training.tiny import Watching, network, training

from zeta_core.tasks import Batch, Part, TaskData
from zeta_core.tasks.task import IGNORED
from zeta_core.training import TrainingConfig, fit
from zeta_core.training.checkpoint import Checkpoints

OPTIONS = {"steps": 3, "batch_size": 16, "eval_every": 3, "clip_norm": 1e9, "warmup_steps": 0}


class VaryingPart(Part):
    """48 examples; the first of each step's shares have few labels, the last many."""

    name, seq_len = "varying", 16

    def __init__(self) -> None:
        bits = torch.Generator().manual_seed(1)
        self.tokens = torch.randint(32, (48, self.seq_len), generator=bits)
        self.counts = 1 + torch.arange(48) % 6

    def __len__(self) -> int:
        return len(self.tokens)

    def batch(self, indices: np.ndarray) -> Batch:
        tokens, counts = self.tokens[indices], self.counts[indices]
        asked = torch.arange(self.seq_len) < counts[:, None]
        return Batch(tokens, torch.where(asked, tokens.roll(1, 1), IGNORED))


PART = VaryingPart()
DATA = TaskData(
    parts={"train": (PART,), "validation": (PART,), "test": (PART,)},
    vocab_size=32, max_len=16, num_classes=None, metric="loss", fingerprint="varying",
)  # fmt: skip


def trained(folder: Path, **options: object) -> tuple[list[float], list[list[torch.Tensor]]]:
    """The losses said at each step, and the gradients of each optimizer step."""
    config: TrainingConfig = training(**{**OPTIONS, **options})
    gradients, step = [], torch.optim.AdamW.step

    def noting(self, *given):  # type: ignore[no-untyped-def]
        gradients.append([p.grad.clone() for group in self.param_groups for p in group["params"]])
        return step(self, *given)

    from accelerate import Accelerator

    model, watching = network(dropout=0.0), Watching()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=config.accumulate)
    torch.optim.AdamW.step = noting
    try:
        fit(
            model,
            DATA,
            config,
            accelerator=accelerator,
            checkpoints=Checkpoints(folder, accelerator, watching.say),
            seed=0,
            resume=False,
            monitor=watching,
        )
    finally:
        torch.optim.AdamW.step = step
    return [loss for _, loss, _ in watching.steps], gradients


def shared(folder: Path) -> None:
    """The same in one of several processes, into files named by its rank."""
    losses, gradients = trained(folder, accumulate=2)
    rank = os.environ["RANK"]
    torch.save(gradients, folder / f"{rank}.pt")
    (folder / f"{rank}.json").write_text(json.dumps(losses))

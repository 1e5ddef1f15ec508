"""Scores of a model on a split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import Tensor, nn

from zeta_core.tasks import Batch, Part
from zeta_core.tasks.task import IGNORED, sent

EVAL_BATCH_TOKENS = 65_536
EVAL_LOGITS = 2**29
"""Scores of tokens at once, 2 GiB in fp32: with a vocabulary of 50,000, 65,536 tokens would take 13."""
CPU = torch.device("cpu")


@dataclass(frozen=True)
class PartScore:
    """Scores of one part: `accuracy` a fraction, `loss` in nats a label, over `count` labels."""

    name: str
    accuracy: float
    loss: float
    count: int


def loss_and_hits(model: nn.Module, batch: Batch, device: torch.device = CPU) -> tuple[Tensor, Tensor, int]:
    """The sum of the cross entropies in nats, how many labels were guessed right, and how many there are.

    batch: on the CPU, where labels are looked for without waiting for a GPU. device: the model's."""
    labels, asked = batch.labels.flatten(), None
    if batch.labels.dim() == 2:
        asked = (labels != IGNORED).nonzero()[:, 0]
        labels, asked = sent(labels[asked], device), sent(asked, device)
    batch = batch.to(device)
    if asked is not None and is_adaptive(model):
        scores = model(batch.tokens, asked, batch.key_padding_mask, targets=labels)
        return -scores[:, 0].sum(), scores[:, 1].sum(), labels.numel()
    other = () if batch.second is None else (batch.second, batch.second_padding_mask)
    logits = model(batch.tokens, asked, batch.key_padding_mask, *other)
    labels = labels if asked is not None else batch.labels
    loss = F.cross_entropy(logits.float(), labels, reduction="sum")
    return loss, (logits.argmax(-1) == labels).sum(), labels.numel()


def is_adaptive(model: nn.Module) -> bool:
    """Whether a network, compiled or shared by processes or not, has an adaptive softmax."""
    for wrapper in ("_orig_mod", "module"):
        model = getattr(model, wrapper, model)
    return getattr(model, "adaptive", None) is not None


@torch.no_grad()
def evaluate(model: nn.Module, parts: Sequence[Part], accelerator: Accelerator) -> list[PartScore]:
    """The scores of each part, and last those of all that are not apart together under the name `all`.

    Processes share the work."""
    was_training = model.training
    model.eval()
    sums = torch.zeros(len(parts), 3, dtype=torch.float64, device="cpu")
    for row, part in enumerate(parts):
        most = min(EVAL_BATCH_TOKENS, EVAL_LOGITS // (part.vocab_size or 1))
        size = max(1, most // (part.seq_len * part.num_documents))
        mine = np.arange(accelerator.process_index, len(part), accelerator.num_processes)
        for start in range(0, len(mine), size):
            batch = part.batch(mine[start : start + size])
            with accelerator.autocast():
                loss, hits, count = loss_and_hits(model, batch, accelerator.device)
            sums[row, :2] += torch.stack((loss.double(), hits.double())).cpu()
            sums[row, 2] += count
    model.train(was_training)
    if accelerator.num_processes > 1:
        sums = accelerator.reduce(sums.to(accelerator.device), reduction="sum").cpu()
    names = [part.name for part in parts]
    together = sums[[not part.apart for part in parts]].sum(0)
    rows = [*zip(names, sums.tolist(), strict=True), ("all", together.tolist())]
    return [PartScore(name, hits / count, loss / count, int(count)) for name, (loss, hits, count) in rows]

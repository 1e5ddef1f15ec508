"""Parts of a task whose examples lie on disk: batches padded to their longest sequence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .store import Dataset, Stored
from .task import SPLITS, Batch, Part, Split, TaskData

BUCKET = 32
"""Padded lengths are multiples of this: few shapes, and little waste."""


def pad(
    sequences: Sequence[np.ndarray], *, padding: int, multiple: int = BUCKET, longest: int
) -> tuple[Tensor, Tensor | None]:
    """Sequences side by side, as long as the longest of them, rounded up to `multiple` but not beyond `longest`.

    padding: the token that fills up. Returns: tokens [batch, seq_len] int64; key_padding_mask [batch, seq_len] bool,
    True = ignore, or None if all are equally long and nothing is padded."""
    lengths = np.array([len(sequence) for sequence in sequences])
    most = int(lengths.max(initial=1))
    width = max(most, min(longest, -(-most // multiple) * multiple))
    mask = np.arange(width) >= lengths[:, None]
    tokens = np.full((len(sequences), width), padding, dtype=np.int64)
    if len(sequences):
        tokens[~mask] = np.concatenate(sequences)
    return torch.from_numpy(tokens), torch.from_numpy(mask) if mask.any() else None


class StoredPart(Part):
    """The examples of a split of a one-document task."""

    def __init__(self, stored: Stored, *, name: str, seq_len: int, padding: int) -> None:
        self.stored, self.name, self.seq_len, self.padding = stored, name, seq_len, padding

    def __len__(self) -> int:
        return len(self.stored)

    def batch(self, indices: np.ndarray) -> Batch:
        """Tokens, classes and padding mask of these examples."""
        tokens, mask = pad(self.stored.sequences(indices), padding=self.padding, longest=self.seq_len)
        return Batch(tokens, torch.from_numpy(self.stored.labels[indices]), mask)


def classifying(data: Dataset, *, name: str, longest: int, padding: int) -> TaskData:
    """The task of telling a dataset's classes apart.

    name: of the parts. longest: tokens of the longest sequence there may be. padding: the token that fills up."""
    parts: dict[Split, tuple[Part, ...]] = {
        split: (StoredPart(data.split(split), name=name, seq_len=longest, padding=padding),) for split in SPLITS
    }
    return TaskData(
        parts=parts,
        vocab_size=data.manifest.vocab_size,
        max_len=longest,
        num_classes=data.manifest.num_classes,
        metric="accuracy",
        fingerprint=data.manifest.fingerprint,
        majority=data.majority,
    )

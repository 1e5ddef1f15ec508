"""Draws MQAR in other processes, which import what stands here."""

import hashlib

import torch

from zeta_core.tasks import MqarConfig
from zeta_core.tasks.mqar import MqarMix, MqarPart, draw

SMALL = {"seq_len": 32, "num_pairs": 3, "vocab_size": 40, "num_train": 300, "num_validation": 40, "num_test": 50}


def small(**options: object) -> MqarConfig:
    """A task whose examples are drawn at once."""
    return MqarConfig.model_validate({**SMALL, **options})


def part_of(split: str = "train", **options: object) -> MqarPart:
    """The single part of a split."""
    return small(**options).build().parts[split][0]


def examples(part: MqarPart) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and labels of a whole part."""
    batch = part.batch(torch.arange(len(part)).numpy())
    return batch.tokens, batch.labels


def digest(piece: tuple[int, int]) -> str:
    """The bytes of the training examples start..stop-1."""
    config = small()
    found = draw(config, "train", MqarMix(seq_len=32, num_pairs=3, num_examples=300), *piece)
    return hashlib.sha256(found.tokens.tobytes() + found.asked_at.tobytes()).hexdigest()

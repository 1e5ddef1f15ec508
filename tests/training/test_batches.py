"""Which examples each step trains on."""

import numpy as np
import pytest
import torch
from training.tiny import DATA

from zeta_core.tasks import Batch, MqarConfig
from zeta_core.training.batches import BatchOrder

MIXED = MqarConfig.model_validate({
    "vocab_size": 40,
    "num_validation": 2,
    "num_test": 2,
    "train_mix": [
        {"seq_len": 16, "num_pairs": 2, "num_examples": 33},
        {"seq_len": 32, "num_pairs": 2, "num_examples": 16},
    ],
}).build().parts["train"]  # fmt: skip
PLACES = [*range(12), 40, 3, 1000, 0]


def at(order: BatchOrder, step: int) -> tuple[int, list[int]]:
    part, indices = order.at(step)
    return part.seq_len, indices.tolist()


@pytest.mark.parametrize("parts", [DATA.parts["train"], MIXED], ids=["single", "mixed"])
def test_a_batch_is_a_function_of_the_seed_and_the_step(parts):
    walked = BatchOrder(parts, 8, seed=3)
    for step in PLACES:
        assert at(walked, step) == at(BatchOrder(parts, 8, seed=3), step)


@pytest.mark.parametrize("epoch", [0, 1, 5])
def test_an_epoch_has_every_full_batch_once(epoch):
    order = BatchOrder(MIXED, 8, seed=0)
    assert len(order.slots) == 33 // 8 + 16 // 8
    seen: dict[int, list[int]] = {16: [], 32: []}
    for step in range(6 * epoch, 6 * epoch + 6):
        part, indices = order.at(step)
        assert len(indices) == 8
        seen[part.seq_len] += indices.tolist()
    assert len(set(seen[16])) == len(seen[16]) == 32 and set(seen[16]) <= set(range(33))
    assert sorted(seen[32]) == list(range(16))


def test_the_example_left_over_is_another_in_each_epoch():
    order = BatchOrder(MIXED[:1], 8, seed=0)
    left = {
        next(iter(set(range(33)) - {i for s in range(4) for i in order.at(4 * e + s)[1].tolist()})) for e in range(9)
    }
    assert len(left) > 3


def test_seeds_and_epochs_have_orders_of_their_own():
    parts = DATA.parts["train"]
    epochs = [
        tuple(np.concatenate([BatchOrder(parts, 8, seed).at(5 * epoch + step)[1] for step in range(5)]).tolist())
        for seed in range(3)
        for epoch in range(3)
    ]
    assert len(set(epochs)) == 9


def test_the_parts_come_mixed():
    order = BatchOrder(MIXED, 8, seed=1)
    epochs = {tuple(order.at(6 * epoch + step)[0].seq_len for step in range(6)) for epoch in range(8)}
    assert len(epochs) > 3


def test_a_batch_is_cut_to_its_shortest_example():
    tokens = torch.arange(12).view(2, 6)
    mask = torch.tensor([[False] * 4 + [True] * 2, [False] * 5 + [True]])
    assert torch.equal(Batch(tokens, torch.zeros(2)).unpadded(), tokens)
    assert torch.equal(Batch(tokens, torch.zeros(2), mask).unpadded(), tokens[:, :4])
    assert Batch(tokens, torch.zeros(2), torch.ones_like(mask)).unpadded().shape == (2, 1)


def test_a_batch_moves_with_both_documents():
    tokens, mask = torch.zeros(2, 6, dtype=torch.int64), torch.zeros(2, 6, dtype=torch.bool)
    moved = Batch(tokens, torch.zeros(2), mask, tokens + 1, ~mask).to(torch.device("meta"))
    assert all(t.device.type == "meta" for t in (moved.tokens, moved.key_padding_mask, moved.second))
    assert moved.second_padding_mask.device.type == "meta"
    assert Batch(tokens, torch.zeros(2)).to(torch.device("cpu")).second is None

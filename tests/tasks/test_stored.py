"""Batches of stored examples: padded to the longest of the batch."""

import numpy as np
import pytest
import torch
from tasks.stores import COUNTS, produce, sequence, spec

from zeta_core.tasks.store_write import make
from zeta_core.tasks.stored import classifying, pad


@pytest.fixture
def task(tmp_path, monkeypatch):
    monkeypatch.setenv("ZETA_DATA", str(tmp_path))
    return classifying(make(spec(), produce, COUNTS), name="toy", longest=7, padding=299)


def test_a_batch_is_padded_and_masked(task):
    part = task.parts["train"][0]
    batch = part.batch(np.array([2, 6, 22, 0]))
    assert batch.tokens.shape == (4, 7) and batch.tokens.dtype == torch.int64
    assert batch.labels.tolist() == [2, 0, 1, 0]
    for row, index in enumerate([2, 6, 22, 0]):
        found = sequence("train", index)
        assert batch.tokens[row, : len(found)].tolist() == found.tolist()
        assert (batch.tokens[row, len(found) :] == 299).all()
        assert batch.key_padding_mask[row].tolist() == [False] * len(found) + [True] * (7 - len(found))


def test_equal_lengths_need_no_mask(task):
    assert task.parts["train"][0].batch(np.array([6, 13, 20])).key_padding_mask is None


@pytest.mark.parametrize(("lengths", "longest", "width"), [([3, 33], 100, 64), ([3, 33], 40, 40), ([32], 99, 32)])
def test_widths_are_few(lengths, longest, width):
    tokens, mask = pad([np.ones(n, np.uint8) for n in lengths], padding=0, longest=longest)
    assert tokens.shape == (len(lengths), width)
    assert (tokens.sum(1) == torch.tensor(lengths)).all() and (mask is None) == (lengths == [32])


def test_what_the_task_says(task):
    assert (task.num_classes, task.vocab_size, task.max_len, task.metric) == (3, 300, 7, "accuracy")
    assert task.majority == 3 / 8

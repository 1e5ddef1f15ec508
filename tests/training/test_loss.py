"""The loss of a step is the mean over all its labels, over accumulated parts and over processes."""

import json

import pytest
import torch
from processes import ranks
from training.tiny import fresh_accelerate, network  # noqa: F401 (an automatic fixture)
from training.varying import PART, shared, trained

from zeta_core.training.batches import BatchOrder
from zeta_core.training.evaluate import loss_and_hits


def close(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        for a, b in zip(one, other, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_the_shares_of_the_first_step_have_different_numbers_of_labels():
    _, indices = BatchOrder((PART,), 16, 0).at(0)
    counts = [PART.batch(indices[first : first + 4]).num_labels for first in range(0, 16, 4)]
    assert len(set(counts)) > 2 and PART.batch(indices).num_labels == sum(counts)


@pytest.mark.parametrize("accumulate", [2, 4, 16])
def test_an_accumulated_batch_has_the_gradients_of_a_whole_one(tmp_path, accumulate):
    losses, gradients = trained(tmp_path / "whole")
    shared, others = trained(tmp_path / "shared", accumulate=accumulate)
    close(gradients, others)
    assert shared == pytest.approx(losses, rel=1e-5)


def test_the_first_loss_is_that_of_the_definition(tmp_path):
    losses, _ = trained(tmp_path, accumulate=4)
    _, indices = BatchOrder((PART,), 16, 0).at(0)
    total, _, count = loss_and_hits(network(dropout=0.0), PART.batch(indices))
    assert losses[0] == pytest.approx((total / count).item(), rel=1e-5)


def test_two_processes_have_the_gradients_of_one(tmp_path):
    codes = ranks(shared, tmp_path, words=tmp_path / "words")
    assert codes == [0, 0], (tmp_path / "words").read_text()
    losses, gradients = trained(tmp_path / "one")
    for rank in ("0", "1"):
        close(gradients, torch.load(tmp_path / f"{rank}.pt"))
        assert json.loads((tmp_path / f"{rank}.json").read_text()) == pytest.approx(losses, rel=1e-5)

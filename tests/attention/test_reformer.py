"""LSH attention against rounds of buckets filled one token at a time, combined by their log-sum-exp."""

import pytest
import torch
from attention.plain import built, check, states

from zeta_core.attention.reformer import ReformerConfig, mates


def buckets(mixer, q, head):
    """[rounds][seq_len]: the bucket of each token."""
    found = []
    for number in range(mixer.config.num_rounds):
        turned = q @ mixer.rotations[number, head]
        found.append([int(torch.cat((row, -row)).argmax()) for row in turned])
    return found


def weights_of(mixer):
    def weights(q, k, i, keys, head):
        rounds, window = buckets(mixer, q, head), mixer.config.window
        lists = []
        for bucket in rounds:
            before = [j for j in keys if j < i and bucket[j] == bucket[i]][-window:]
            after = [j for j in keys if j > i and bucket[j] == bucket[i]][:window]
            lists.append(before + after)
        if not any(lists):
            return [torch.tensor(float(j == i), dtype=q.dtype) for j in keys]
        # Each round's sum of exponentials, with a key's weight shared among the rounds that have it.
        logits = {j: q[i] @ k[j] / k[j].norm() / q.shape[-1] ** 0.5 for j in keys}
        total = {j: torch.zeros((), dtype=q.dtype) for j in keys}
        for own in lists:
            for j in own:
                total[j] = total[j] + logits[j].exp() / sum(j in other for other in lists)
        return [total[j] for j in keys]

    return weights


@pytest.mark.parametrize(("num_rounds", "window"), [(1, 2), (3, 2), (2, 50)])
def test_it_is_attention_within_buckets(num_rounds, window):
    check(ReformerConfig(num_buckets=4, num_rounds=num_rounds, window=window), weights_of, seq_len=19)


def test_mates_are_the_last_of_the_bucket():
    found = mates(torch.tensor([[2, 0, 2, 2, 0, 2]]), 2, True)
    assert found.tolist() == [[[-1, -1], [-1, -1], [0, -1], [2, 0], [1, -1], [3, 2]]]
    assert mates(torch.tensor([[1]]), 2, True).shape == (1, 1, 0)


def test_keys_are_the_queries_at_unit_length():
    q, k, _ = built(ReformerConfig()).projected(states())
    torch.testing.assert_close(k.norm(dim=-1), torch.ones_like(k[..., 0]))
    torch.testing.assert_close(k * q.norm(dim=-1, keepdim=True), q)

"""What a head's windows hold, on a case made by hand and against plain loops."""

import math

import pytest
import torch
from studies.locality import slow

from zeta_core.attention import ZetaConfig
from zeta_core.studies.locality.heads import Means, measure, num_visible
from zeta_core.tasks import MqarConfig

NAMES = ("overlap", "recall", "recall_choosing", "recall_chance", "nearest", "nearest_all")


def measured(q, k, *, mask=None, asked=None, causal=True, neighbours=3, **options):
    """The means of a mixer whose coordinates are these: [batch, heads, seq_len, d_K]."""
    batch, heads, seq_len, d_k = q.shape
    mixer = ZetaConfig(d_k=d_k, **options).build(4 * heads, heads, causal=causal, impl="reference")
    mixer.coordinates = lambda hidden: (q, k, None, None)
    means = Means()
    measure(means, mixer, torch.zeros(batch, seq_len, 4 * heads), mask, asked, neighbours)
    return means


def line(*places):
    return torch.tensor(places)[None, None, :, None]


def test_recall_of_a_case_made_by_hand():
    # Chunks of four: the last four queries see four keys, of which the window takes two around the insertion point.
    k = line(0.10, 0.30, 0.31, 0.90, 0.5, 0.5, 0.5, 0.5)
    q = line(0.5, 0.5, 0.5, 0.5, 0.32, 0.05, 0.29, 0.95)
    # 0.32 stands before 0.90: window 0.31, 0.90, nearest 0.31, 0.30. 0.05 and 0.95: the ends, as it should be.
    # 0.29 stands before 0.30: window 0.10, 0.30, nearest 0.30, 0.31.
    means = measured(q, k, top_k=2, chunk_size=4)
    assert means.of_head("recall", 0) == pytest.approx((0.5 + 1 + 0.5 + 1) / 4)
    assert means.of_head("recall_choosing", 0) == means.of_head("recall", 0)
    assert means.of_head("recall_chance", 0) == 0.5
    assert means.of_head("nearest", 0) == means.of_head("nearest_all", 0) == pytest.approx(0.25)


def test_queries_with_few_keys_count_over_what_they_have_and_those_without_are_left_out():
    q, k = torch.rand(2, 3, 2, 8, 2).unbind(0)
    means = measured(q, k, top_k=4, chunk_size=2, neighbours=7)
    assert means.counts["recall"] == 3 * 6  # all but the first chunk
    assert means.counts["recall_choosing"] == 3 * 2  # the last chunk, which sees six
    few = measured(q, k, top_k=6, chunk_size=2, neighbours=7)
    assert few.of_head("recall", 1) == 1 and few.of_head("recall_choosing", 1) is None
    assert few.of_head("nearest", 0) is None
    none = measured(q, k, top_k=6, chunk_size=8, neighbours=7)
    assert none.of_head("recall", 0) is None


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("d_k", [1, 3])
def test_every_figure_agrees_with_plain_loops(causal, d_k):
    top_k, chunk, heads, seq_len, neighbours = 4, 5, 3, 23, 6
    q, k = torch.rand(2, 2, heads, seq_len, d_k, generator=torch.Generator().manual_seed(d_k)).unbind(0)
    asked = torch.tensor([[12, 20], [15, 22]]), torch.tensor([[3, 9], [12, 4]])
    means = measured(q, k, asked=asked, causal=causal, neighbours=neighbours, top_k=top_k, chunk_size=chunk)
    limit = chunk if causal else None
    found = {name: [[] for _ in range(heads)] for name in (*NAMES, "answer", "answer_all")}
    for example in range(2):
        of_heads = [[side[example, head].tolist() for side in (q, k)] for head in range(heads)]
        sets = [slow.head_sets(*sides, top_k=top_k, chunk=limit) for sides in of_heads]
        every = [slow.head_sets(*sides, top_k=neighbours, chunk=None) for sides in of_heads]
        far = [[[math.dist(a, b) ** 2 for b in sides[1]] for a in sides[0]] for sides in of_heads]
        for i in range(seq_len):
            sees = sets[0][2][i]
            keys = [j for j in range(seq_len) if limit is None or j // limit < i // limit]
            joint = sorted(keys, key=lambda j, i=i, far=far: sum(one[i][j] for one in far))[:top_k]
            for head in range(heads):
                exact, window = sets[head][0][i], sets[head][1][i]
                found["overlap"][head].append(len(every[head][0][i] & every[head][1][i]) / neighbours)
                if sees:
                    found["recall"][head].append(len(exact & window) / len(exact))
                if sees > top_k:
                    found["recall_choosing"][head].append(len(exact & window) / top_k)
                    found["recall_chance"][head].append(top_k / sees)
                    found["nearest"][head] += [key not in window for key in joint]
            windows = [sets[head][1][i] for head in range(heads)]
            if sees > top_k:
                found["nearest_all"][0] += [all(key not in window for window in windows) for key in joint]
        for i, key in zip(asked[0][example].tolist(), asked[1][example].tolist(), strict=True):
            windows = [sets[head][1][i] for head in range(heads)]
            if sets[0][2][i] > top_k and (limit is None or key // limit < i // limit):
                for head in range(heads):
                    found["answer"][head].append(key not in windows[head])
                found["answer_all"][0].append(all(key not in window for window in windows))
    for name, lists in found.items():
        for head, values in enumerate(lists):
            if values:
                assert means.of_head(name, head) == pytest.approx(sum(values) / len(values)), (name, head)


def test_padded_keys_are_no_targets_and_padded_queries_do_not_count():
    q, k = torch.rand(2, 1, 2, 16, 2, generator=torch.Generator().manual_seed(0)).unbind(0)
    mask = torch.arange(16)[None] >= 12
    padded = measured(q, k, mask=mask, top_k=3, chunk_size=4, neighbours=5)
    cut = measured(q[:, :, :12], k[:, :, :12], top_k=3, chunk_size=4, neighbours=5)
    assert padded.counts == cut.counts
    for name in NAMES:
        assert padded.of_head(name, 0) == pytest.approx(cut.of_head(name, 0)), name


def test_heads_that_agree_miss_together_and_independent_ones_do_not():
    generator = torch.Generator().manual_seed(0)
    q, k = torch.rand(2, 1, 1, 512, 3, generator=generator).unbind(0)
    same = measured(q.expand(-1, 4, -1, -1), k.expand(-1, 4, -1, -1), top_k=8, chunk_size=64)
    assert same.of_head("nearest", 0) == same.of_head("nearest_all", 0) > 0.2
    q, k = torch.rand(2, 1, 4, 512, 3, generator=generator).unbind(0)
    other = measured(q, k, top_k=8, chunk_size=64)
    miss = sum(other.of_head("nearest", head) for head in range(4)) / 4
    assert other.of_head("nearest_all", 0) == pytest.approx(miss**4, rel=0.15)


def test_how_many_keys_are_seen():
    real = torch.tensor([[True, True, False, True, True, True]])
    assert num_visible(real, 2).tolist() == [[0, 0, 2, 2, 3, 3]]
    assert num_visible(real, None).tolist() == [[5] * 6]


def test_lookups_are_those_of_the_examples():
    import numpy as np

    from zeta_core.studies.locality.heads import lookups_of

    data = MqarConfig(seq_len=16, num_pairs=3, vocab_size=32, num_train=4, num_validation=6, num_test=4).build()
    (part,) = data.parts["validation"]
    indices = np.array([4, 1])
    batch = part.batch(indices)
    query, answer = lookups_of(part, indices, batch)
    assert torch.equal(batch.labels.gather(1, query), batch.tokens.gather(1, answer))

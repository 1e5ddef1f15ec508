"""Nearest keys by projections against a search that goes through groups and projections one by one."""

import pytest
import torch
from attention.plain import built, check, states

from zeta_core.attention.iceformer import IceformerConfig


def weights_of(mixer):
    def weights(q, k, i, keys, head):
        c = mixer.config
        longest = max(k[j].norm() for j in keys)
        unit = torch.cat((q[i] / q[i].norm(), q.new_zeros(1)))
        distance = {}
        for j in keys:
            raised = torch.cat((k[j] / longest, (1 - (k[j] / longest).square().sum()).clamp(min=0).sqrt()[None]))
            apart = [[abs(float((u[head] @ (unit - raised)).detach())) for u in group] for group in mixer.directions]
            distance[j] = min(max(group) for group in apart)
        near = sorted(keys, key=distance.__getitem__)[: c.num_candidates or 2 * c.top_k]
        best = sorted(near, key=lambda j: -float(q[i] @ k[j]))[: c.top_k]
        return [(q[i] @ k[j] / q.shape[-1] ** 0.5).exp() * (j in best) for j in keys]

    return weights


@pytest.mark.parametrize(("top_k", "candidates"), [(3, 5), (4, None), (50, 60)])
def test_it_is_softmax_over_the_keys_that_are_found(top_k, candidates):
    config = IceformerConfig(top_k=top_k, num_candidates=candidates, num_projections=2)
    check(config, weights_of, seq_len=17)


def test_queries_in_parts_are_the_same(monkeypatch):
    mixer, hidden = built(IceformerConfig(top_k=3)), states()
    whole = mixer(hidden)
    monkeypatch.setattr("zeta_core.attention.iceformer.QUERIES", 5)
    assert torch.equal(mixer(hidden), whole)


def test_with_all_candidates_it_is_exact():
    mixer, hidden = built(IceformerConfig(top_k=4, num_candidates=27)), states()
    q, k, _ = mixer.projected(hidden)
    found = mixer.chosen(q, k, None)[0, 0, -1].sort().values
    assert torch.equal(found, (k[0, 0] @ q[0, 0, -1]).topk(4).indices.sort().values)


def test_fewer_candidates_than_keys_are_refused():
    with pytest.raises(ValueError, match="num_candidates=3 is less than top_k=4"):
        IceformerConfig(top_k=4, num_candidates=3)

"""A mixer's output from its definition: float64, one query and one head at a time."""

import torch
from attention.variants import build, hidden_states
from torch import Tensor

SEQ_LEN = 27
MASK = torch.zeros(2, SEQ_LEN, dtype=torch.bool)
MASK[0, 21:] = MASK[1, 4:9] = MASK[1, :2] = True


def built(config, *, causal=True, seed=0):
    """The mixer in float64."""
    return build(config, causal=causal, seed=seed).double()


def states(seq_len=SEQ_LEN, seed=1) -> Tensor:
    return hidden_states(seq_len, seed=seed).double()


def merged(mixer, heads: list[list[Tensor]]) -> Tensor:
    """The output's projection of [batch][head] tensors [seq_len, d_V]."""
    return mixer.out(torch.stack([torch.cat(row, -1) for row in heads]))


def by_weights(mixer, hidden: Tensor, weights_of, mask: Tensor | None = None) -> Tensor:
    """The output with sum_j w_ij v_j / sum_j w_ij, where weights_of(q, k, i, keys, head) lists the w_ij of the keys.

    q, k: [seq_len, dim] of one row and head; keys: those that i may see, by causality and mask."""
    q, k, v = mixer.qkv(hidden).split(mixer.widths, dim=-1)
    k = k if k.shape[-1] else q
    rows = []
    for row in range(len(hidden)):
        heads = []
        for head in range(mixer.num_heads):
            own_q, own_k, own_v = (x[row].view(x.shape[1], mixer.num_heads, -1)[:, head] for x in (q, k, v))
            found = []
            for i in range(hidden.shape[1]):
                keys = [j for j in range(hidden.shape[1]) if j <= i or not mixer.causal]
                keys = [j for j in keys if mask is None or not mask[row, j]]
                weights = weights_of(own_q, own_k, i, keys, head) if keys else []
                total = sum(weights)
                mean = torch.zeros_like(own_v[0])
                for weight, j in zip(weights, keys, strict=True):
                    mean = mean + (weight / total * own_v[j] if total else 0)
                found.append(mean)
            heads.append(torch.stack(found))
        rows.append(heads)
    return merged(mixer, rows)


def check(config, weights_of_mixer, *, forms=(True, False), seq_len=SEQ_LEN, rtol=1e-9) -> None:
    """Output, and gradients of the hidden states, with and without padding, of each form."""
    for causal in forms:
        mixer = built(config, causal=causal)
        for mask in (None, MASK[:, :seq_len]):
            found, right = (states(seq_len).requires_grad_() for _ in range(2))
            out = mixer(found, mask)
            expected = by_weights(mixer, right, weights_of_mixer(mixer), mask)
            keep = slice(None) if mask is None else ~mask
            torch.testing.assert_close(out[keep], expected[keep], rtol=rtol, atol=rtol)
            out[keep].square().sum().backward()
            expected[keep].square().sum().backward()
            torch.testing.assert_close(found.grad, right.grad, rtol=10 * rtol, atol=10 * rtol)

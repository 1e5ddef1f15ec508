"""The hierarchy against spans that are found by recursion, and sums of means over them."""

import pytest
import torch
from attention.plain import MASK, built, merged, states

from zeta_core.attention.h_transformer_1d import HTransformer1DConfig


def spans(i, size, seq_len, causal):
    """Lists of tokens that query i sees as one: from the nearest blocks outwards, each token once."""
    found = [[j] for j in range(seq_len) if abs(j // size - i // size) <= 1 and (j <= i or not causal)]
    shown = {j for j in range(seq_len) if abs(j // size - i // size) <= 1}
    width = 2
    while width * size < 2 * seq_len:
        block = i // (width * size)
        for start in range(0, seq_len, width):
            tokens = set(range(start, start + width))
            beside = abs(start // (width * size) - block) <= 1 and (start + width <= i or not causal)
            if beside and not tokens & shown:
                found.append([j for j in sorted(tokens) if j < seq_len])
                shown |= tokens
        width *= 2
    return found


def expected(mixer, hidden, mask):
    rows = []
    q, k, v = mixer.qkv(hidden).chunk(3, dim=-1)
    for row in range(len(hidden)):
        heads = []
        for head in range(mixer.num_heads):
            own_q, own_k, own_v = (x[row].view(x.shape[1], mixer.num_heads, -1)[:, head] for x in (q, k, v))
            found = []
            for i in range(hidden.shape[1]):
                total, mean = 0, torch.zeros_like(own_v[0])
                for span in spans(i, mixer.block_size, hidden.shape[1], mixer.causal):
                    span = [j for j in span if mask is None or not mask[row, j]]
                    if span:
                        weight = len(span) * (own_q[i] @ own_k[span].mean(0) / own_q.shape[-1] ** 0.5).exp()
                        total, mean = total + weight, mean + weight * own_v[span].mean(0)
                found.append(mean / total if torch.is_tensor(total) else mean)
            heads.append(torch.stack(found))
        rows.append(heads)
    return merged(mixer, rows)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("seq_len", [1, 5, 16, 27])
def test_it_is_the_sum_over_spans(causal, seq_len):
    mixer = built(HTransformer1DConfig(block_size=2), causal=causal)
    for mask in (None, MASK[:, :seq_len]):
        hidden = states(seq_len)
        found, right = mixer(hidden, mask), expected(mixer, hidden, mask)
        keep = slice(None) if mask is None else ~mask
        torch.testing.assert_close(found[keep], right[keep])


@pytest.mark.parametrize("causal", [True, False])
def test_every_token_is_in_one_span(causal):
    for i in (0, 7, 40, 63):
        tokens = sorted(j for span in spans(i, 4, 64, causal) for j in span)
        assert tokens == list(range(i + 1 if causal else 64))


def test_a_short_sequence_is_plain_attention():
    mixer = built(HTransformer1DConfig(block_size=16))
    hidden = states(27)
    q, k, v = (mixer.split_heads(x) for x in mixer.qkv(hidden).chunk(3, dim=-1))
    plain = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(mixer(hidden), mixer.out(plain.transpose(1, 2).flatten(2)))

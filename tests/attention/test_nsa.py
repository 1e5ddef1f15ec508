"""Native sparse attention against its three branches, query by query."""

import torch
from attention.plain import MASK, built, merged, states

from zeta_core.attention.nsa import NsaConfig


def softmax_mean(q, keys, values):
    if not keys:
        return torch.zeros_like(q), torch.zeros(0, dtype=q.dtype)
    weights = (torch.stack(keys) @ q / q.shape[-1] ** 0.5).softmax(0)
    return weights @ torch.stack(values), weights


def compressed(x, places, first, second):
    inner = [torch.nn.functional.gelu(first(row + place)) for row, place in zip(x, places, strict=True)]
    return second(sum(inner) / len(inner))


def expected(mixer, hidden, mask):
    c, size = mixer.config, mixer.config.block_size
    parts, gates = mixer.qkv(hidden).chunk(7, dim=-1), mixer.gates(hidden).sigmoid()
    rows = []
    for row in range(len(hidden)):
        heads = []
        for head in range(mixer.num_heads):
            q, k1, v1, k2, v2, k3, v3 = (x[row].view(x.shape[1], mixer.num_heads, -1)[:, head] for x in parts)
            real = [j for j in range(hidden.shape[1]) if mask is None or not mask[row, j]]
            found = []
            for i in range(hidden.shape[1]):
                blocks = [b for b in range((i + 1) // size) if any(j // size == b for j in real)]
                ck, cv = [], []
                for b in blocks:
                    own = [j for j in real if j // size == b]
                    at = [j % size for j in own]
                    ck.append(compressed(k1[own], mixer.k_places[at], mixer.k_first, mixer.k_second))
                    cv.append(compressed(v1[own], mixer.v_places[at], mixer.v_first, mixer.v_second))
                coarse, weights = softmax_mean(q[i], ck, cv)
                weight = dict(zip(blocks, weights.tolist(), strict=True))
                forced = [b for b in (i // size, i // size - 1, 0) if b >= 0]
                others = sorted((b for b in range(i // size) if b in weight), key=lambda b: -weight[b])
                chosen = list(dict.fromkeys([*forced, *others]))[: c.num_selected]
                tokens = [j for j in real if j <= i and j // size in chosen]
                fine, _ = softmax_mean(q[i], [k2[j] for j in tokens], [v2[j] for j in tokens])
                tokens = [j for j in real if 0 <= i - j < c.window]
                near, _ = softmax_mean(q[i], [k3[j] for j in tokens], [v3[j] for j in tokens])
                g = gates[row, i].view(3, mixer.num_heads)[:, head]
                found.append(g[0] * coarse + g[1] * fine + g[2] * near)
            heads.append(torch.stack(found))
        rows.append(heads)
    return merged(mixer, rows)


def test_it_is_the_gated_sum_of_its_branches():
    mixer = built(NsaConfig(block_size=3, num_selected=4, window=5))
    for mask in (None, MASK):
        found, right = (states().requires_grad_() for _ in range(2))
        out, plain = mixer(found, mask), expected(mixer, right, mask)
        keep = slice(None) if mask is None else ~mask
        torch.testing.assert_close(out[keep], plain[keep])
        out[keep].square().sum().backward()
        plain[keep].square().sum().backward()
        torch.testing.assert_close(found.grad, right.grad)

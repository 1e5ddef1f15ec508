"""The entropies that are logged, against explicit weights summed one by one in float64."""

import math

import pytest
import torch
from attention.variants import HEADS, build, hidden_states, zeta

from zeta_core.attention import SoftmaxConfig

SEQ_LEN = 21
CONFIGS = {
    "zorder": zeta(),
    "zorder, window": zeta(local_window=4),
    "zorder, no history": zeta(history_mean=False),
    "zorder, curves": zeta(curves=3),
    "zorder, layernorm": zeta(coordinates="layernorm", gamma=0.8),
    "exact": zeta(selection="exact"),
    "exact, token": zeta(selection="exact", visibility="token", history_mean=False),
    "all": zeta(selection="all"),
    "all, window": zeta(selection="all", local_window=4),
    "all, token": zeta(selection="all", visibility="token", history_mean=False),
    **{name: zeta(score=name) for name in ("negative_euclidean", "inverse_euclidean", "normalized_dot")},
}


def entropy_of(weights: list[float]) -> float:
    total = sum(weights)
    return -sum(w / total * math.log(w / total) for w in weights if w > 0)


def weight(q: torch.Tensor, x: torch.Tensor, gamma: float, score: str) -> float:
    d = float((q - x).norm())
    if score == "cauchy":
        return 1 / (d * d + gamma * gamma)
    if score == "negative_euclidean":
        return math.exp(-d * d / gamma**2)
    if score == "inverse_euclidean":
        return 1 / (d + gamma)
    a, b = 2 * q - 1, 2 * x - 1
    return math.exp(float(a @ b / (a.norm() * b.norm())) / gamma)


def candidates(config, q, k, selected, query: int, causal: bool) -> list[torch.Tensor]:
    """The points that a query weighs, by the definitions."""
    keys = torch.arange(SEQ_LEN)
    seen = config.sees(torch.tensor(query), keys, SEQ_LEN) if causal else keys >= 0
    chosen = set(keys[seen].tolist() if config.selection == "all" else selected[selected >= 0].tolist())
    near = [i for i in range(SEQ_LEN) if abs(query - i) < config.local_window and (i <= query or not causal)]
    points = [k[i] for i in sorted(chosen | set(near))]
    return points + ([k[: query + 1 if causal else SEQ_LEN].mean(0)] if config.history_mean else [])


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_entropy_is_that_of_the_explicit_weights(config, causal):
    mixer, hidden = build(config, causal=causal), hidden_states(SEQ_LEN)
    with torch.no_grad():
        if mixer.gamma_logit is not None:
            mixer.gamma_logit.fill_(-1)
        q, k, _, _ = mixer.coordinates(hidden)
        selected, gamma = mixer.selected(hidden), mixer.gamma().tolist()
    q, k, means = q.double(), k.double(), []
    for row in range(2):
        for head in range(HEADS):
            found = []
            for query in range(SEQ_LEN):
                points = candidates(config, q, k[row, head], selected[row, head, query], query, causal)
                weights = [weight(q[row, head, query], x, gamma[head], config.score) for x in points]
                found += [entropy_of(weights)] if weights else []
            means.append(sum(found) / len(found))
    logged = mixer.statistics(hidden)
    assert logged["entropy"] == pytest.approx(sum(means) / len(means), rel=1e-4)
    assert logged["gamma"] == pytest.approx(sum(gamma) / HEADS)


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
def test_the_entropy_of_softmax(causal):
    mixer, hidden = build(SoftmaxConfig(), causal=causal), hidden_states(SEQ_LEN)
    q, k, _ = (t.double().view(2, SEQ_LEN, HEADS, -1) for t in mixer.qkv(hidden).chunk(3, dim=-1))
    found = []
    for row in range(2):
        for head in range(HEADS):
            for query in range(SEQ_LEN):
                last = query + 1 if causal else SEQ_LEN
                logits = k[row, :last, head] @ q[row, query, head] / q.shape[-1] ** 0.5
                found.append(entropy_of((logits - logits.max()).exp().tolist()))
    assert mixer.statistics(hidden) == {"entropy": pytest.approx(sum(found) / len(found), rel=1e-4)}

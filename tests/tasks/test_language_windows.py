"""Windows: every token is scored exactly once, with the context that is promised."""

import math
import sys

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from hypothesis import given
from hypothesis import strategies as st
from tasks.corpora import streamed
from torch import nn

from zeta_core.attention import ZetaConfig
from zeta_core.model import ModelConfig
from zeta_core.studies.text_scores import DERIVED, derived_scores
from zeta_core.tasks.language_parts import Stream, WindowPart
from zeta_core.tasks.store import Examples, Ragged
from zeta_core.tasks.task import IGNORED, TextSize
from zeta_core.training.evaluate import PartScore, evaluate, loss_and_hits

SEPARATOR = 50


class Shards:
    """Of a stored split, what a stream reads."""

    def __init__(self, arrays):
        self.shards = [
            Examples(np.zeros(1), (Ragged(np.array(one, dtype=np.uint8), np.array([0, len(one)])),)) for one in arrays
        ]


def stream_of(lengths):
    """Shards of these lengths, whose tokens are 0, 1, 2, ... (mod 50), and those tokens."""
    tokens = (np.arange(sum(lengths)) % 50).tolist()
    edges = np.cumsum([0, *lengths])
    return Stream(Shards([tokens[low:high] for low, high in zip(edges, edges[1:])]), SEPARATOR), tokens  # noqa: B905, RUF007


def part_of(stream, **options):
    values = {"name": "x", "seq_len": 8, "vocab_size": 51, "stride": None, "length": len(stream), "text": None}
    return WindowPart(stream, **{**values, **options})


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.data())
def test_a_stream_is_its_shards_end_to_end(lengths, data):
    stream, tokens = stream_of(lengths)
    everything = [SEPARATOR, *tokens]
    start = data.draw(st.integers(0, len(everything)))
    stop = data.draw(st.integers(start, len(everything) + 3))
    assert stream.read(start, stop).tolist() == everything[start:stop] and len(stream) == len(tokens)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=4).filter(any), st.integers(1, 20), st.data())
def test_every_token_is_scored_once_in_its_context(lengths, seq_len, data):
    stream, tokens = stream_of(lengths)
    stride = data.draw(st.none() | st.integers(1, seq_len))
    length = data.draw(st.integers(1, len(stream)))
    part = part_of(stream, seq_len=seq_len, stride=stride, length=length)
    assert streamed(part) == (tokens[:length], list(range(1, length + 1)))
    everything = [SEPARATOR, *tokens]
    batch = part.batch(np.arange(len(part)))
    assert batch.tokens.dtype == batch.labels.dtype == torch.int64
    for row, (inputs, labels) in enumerate(zip(batch.tokens.tolist(), batch.labels.tolist(), strict=True)):
        start = row * part.step
        there = everything[start : min(start + seq_len, length)]
        assert inputs == there + [SEPARATOR] * (seq_len - len(there))
        for column, label in enumerate(labels):
            if label != IGNORED:
                assert column < len(there)
                assert stride is None or row == 0 or column >= seq_len - stride


def test_any_batch_is_made_of_the_same_windows():
    part = part_of(stream_of([30, 7, 20])[0], stride=3)
    everything = part.batch(np.arange(len(part)))
    some = part.batch(np.array([4, 0, 9]))
    assert torch.equal(some.tokens, everything.tokens[[4, 0, 9]])
    assert torch.equal(some.labels, everything.labels[[4, 0, 9]])


def context_start(place, seq_len, stride):
    """Where the window begins that scores the token at a place of the stream, by the rule in words."""
    if stride is None:
        return (place - 1) // seq_len * seq_len
    if place <= seq_len:
        return 0
    return math.ceil((place - seq_len) / stride) * stride


@pytest.mark.parametrize("stride", [None, 1, 3, 8])
def test_perplexities_are_those_of_one_forward_a_token(stride):
    torch.manual_seed(0)
    network = ModelConfig(d_model=16, num_layers=1).build(
        ZetaConfig(top_k=2, chunk_size=4, local_window=2), vocab_size=51, max_len=8
    ).eval()  # fmt: skip
    stream, tokens = stream_of([13, 9, 5])
    part = part_of(stream, stride=stride, text=TextSize(7, 31))
    everything = [SEPARATOR, *tokens]
    with torch.no_grad():
        loss, _, count = loss_and_hits(network, part.batch(np.arange(len(part))))
        nats = 0.0
        for place in range(1, len(everything)):
            start = context_start(place, 8, stride)
            context = torch.tensor([everything[start:place]])
            nats -= float(network(context).log_softmax(-1)[-1, everything[place]])
    assert count == len(tokens) and float(loss) == pytest.approx(nats, rel=1e-5)
    score = PartScore("x", 0.0, float(loss) / count, count)
    found = derived_scores(score, [part])
    assert tuple(found) == DERIVED
    assert found["perplexity"] == pytest.approx(math.exp(nats / 27), rel=1e-4)
    assert found["word_perplexity"] == pytest.approx(math.exp(nats / 7), rel=1e-4)
    assert found["bits_per_byte"] == pytest.approx(nats / math.log(2) / 31, rel=1e-4)


def test_scores_of_several_parts_and_of_what_is_no_text():
    stream, _ = stream_of([20])
    parts = [part_of(stream, text=TextSize(2, 10)), part_of(stream, text=TextSize(3, 20))]
    score = PartScore("all", 0.0, 2.0, 40)
    assert derived_scores(score, parts)["word_perplexity"] == pytest.approx(math.exp(80 / 5))
    assert derived_scores(score, [*parts, part_of(stream)]) == {}
    lossy = part_of(stream, text=TextSize(2, None))
    assert tuple(derived_scores(score, [*parts, lossy])) == DERIVED[:2]
    assert derived_scores(PartScore("x", 0.0, 800.0, 40), parts)["perplexity"] == math.inf


def test_a_large_vocabulary_is_evaluated_in_small_batches(monkeypatch):
    monkeypatch.setattr(sys.modules[evaluate.__module__], "EVAL_LOGITS", 3 * 8 * 51)
    part = part_of(stream_of([100])[0])
    sizes = []
    monkeypatch.setattr(part, "batch", lambda indices: sizes.append(len(indices)) or WindowPart.batch(part, indices))
    model = nn.Sequential(nn.Embedding(51, 51))
    model.forward = lambda tokens, asked, mask: model[0](tokens).flatten(0, 1)[asked]
    found = evaluate(model, [part], Accelerator(cpu=True))
    assert sizes == [3, 3, 3, 3, 1] and found[0].count == 100

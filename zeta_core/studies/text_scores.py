"""What follows from the loss of running text: perplexities, and bits a byte."""

from __future__ import annotations

import math
from collections.abc import Sequence

from zeta_core.tasks import Part
from zeta_core.training.evaluate import PartScore

DERIVED = ("perplexity", "word_perplexity", "bits_per_byte")
"""Metrics of a slice that follow from its loss; their rows stand behind its own."""


def derived_scores(score: PartScore, parts: Sequence[Part]) -> dict[str, float]:
    """The metrics of DERIVED for the score of these parts together; none unless all of them are running text.

    perplexity: exp of the nats a token. word_perplexity: exp of all nats over the words. bits_per_byte: all nats in
    bits over the bytes, unless the tokens do not give the text back. Too large for a float64: infinity."""
    texts = [part.text for part in parts if part.text is not None]
    if len(texts) < len(parts) or not parts:
        return {}
    nats = score.loss * score.count
    words, sizes = sum(text.words for text in texts), [text.bytes for text in texts if text.bytes is not None]
    found = {"perplexity": _exp(score.loss), "word_perplexity": _exp(nats / words)}
    return found | ({"bits_per_byte": nats / math.log(2) / sum(sizes)} if len(sizes) == len(texts) else {})


def _exp(nats: float) -> float:
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf

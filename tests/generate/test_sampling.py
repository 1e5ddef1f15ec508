"""What is drawn: the likeliest, or from what is left after the cuts; the same again with the same seed."""

import pytest
import torch
from pydantic import ValidationError

from zeta_core.errors import NonFiniteError
from zeta_core.generate import Sampling

LOGITS = torch.tensor([[0.5, 0.1, 0.25, 0.05, 0.1]]).log()


def left(**options: object) -> list[float]:
    """The probabilities that are drawn from, rounded."""
    return [round(p, 4) for p in Sampling.model_validate(options).probabilities(LOGITS)[0].tolist()]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.5, 0.1, 0.25, 0.05, 0.1]),
        ({"top_k": 2}, [0.6667, 0, 0.3333, 0, 0]),
        ({"top_k": 1}, [1, 0, 0, 0, 0]),
        ({"top_k": 50}, [0.5, 0.1, 0.25, 0.05, 0.1]),
        ({"top_p": 0.01}, [1, 0, 0, 0, 0]),
        ({"top_p": 0.7}, [0.6667, 0, 0.3333, 0, 0]),
        ({"top_p": 0.8}, [0.5882, 0.1176, 0.2941, 0, 0]),
        ({"top_p": 1.0}, [0.5, 0.1, 0.25, 0.05, 0.1]),
        ({"top_k": 2, "top_p": 0.6}, [1, 0, 0, 0, 0]),
        ({"temperature": 0.5, "top_k": 2}, [0.8, 0, 0.2, 0, 0]),
    ],
    ids=str,
)
def test_cuts(options, expected):
    assert left(**options) == expected


def test_draws_follow_the_probabilities_and_the_seed():
    sampling = Sampling(top_k=3, seed=4)
    many = LOGITS.expand(4000, -1)
    drawn = sampling.draw(many, sampling.generator())
    assert torch.equal(drawn, sampling.draw(many, sampling.generator()))
    other = Sampling(top_k=3, seed=5)
    assert not torch.equal(drawn, other.draw(many, other.generator()))
    shares = drawn.bincount(minlength=5) / 4000
    torch.testing.assert_close(shares, sampling.probabilities(LOGITS)[0], atol=0.03, rtol=0)


def test_temperature_0_is_greedy():
    sampling = Sampling(temperature=0, top_k=4)
    assert sampling.draw(LOGITS.expand(3, -1), sampling.generator()).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "options", [{"top_p": 0}, {"top_p": 1.1}, {"top_k": 0}, {"temperature": -1}, {"seed": -1}], ids=str
)
def test_bad_options_are_refused(options):
    with pytest.raises(ValidationError, match=next(iter(options))):
        Sampling.model_validate(options)


def test_nothing_is_drawn_from_nan():
    with pytest.raises(NonFiniteError, match="the model's logits"):
        Sampling().draw(LOGITS * torch.nan, Sampling().generator())

"""MQAR's rules, checked on drawn examples without the code that drew them, and its distributions."""

from collections import Counter

import numpy as np
import pytest
from pydantic import ValidationError
from tasks.draws import examples, part_of, small

SHAPES = {
    "small": {},
    "as many as fit": {"seq_len": 32, "num_pairs": 8},
    "one pair": {"seq_len": 4, "num_pairs": 1, "vocab_size": 4},
    "odd length": {"seq_len": 37, "num_pairs": 5},
    "all keys used": {"seq_len": 64, "num_pairs": 15, "vocab_size": 32},
    "flat": {"power": 1.0},
    "large vocabulary": {"vocab_size": 100_000},
}


@pytest.mark.parametrize("filler", ["random", "zero"])
@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_every_example_keeps_the_rules(shape, split, filler):
    config = small(**shape, filler=filler)
    pairs, half = config.num_pairs, config.vocab_size // 2
    tokens, labels = examples(part_of(split, **shape, filler=filler))
    assert tokens.shape == labels.shape == (len(tokens), config.seq_len)
    for row, wanted in zip(tokens.tolist(), labels.tolist(), strict=True):
        keys, values = row[0 : 2 * pairs : 2], row[1 : 2 * pairs : 2]
        assert len(set(keys)) == pairs and all(1 <= key < half for key in keys)
        assert len(set(values)) == pairs and all(half <= value < config.vocab_size for value in values)
        asked = [place for place, label in enumerate(wanted) if label != -100]
        assert sorted(row[place] for place in asked) == sorted(keys)
        assert all(place % 2 == 0 and place >= 2 * pairs for place in asked)
        answers = dict(zip(keys, values, strict=True))
        assert all(wanted[place] == answers[row[place]] for place in asked)
        filled = [token for place, token in enumerate(row[2 * pairs :], 2 * pairs) if place not in asked]
        assert not set(filled) & set(keys)
        if filler == "zero":
            assert set(filled) <= {0}
        else:
            assert all(0 <= token < config.vocab_size for token in filled)


def chi_square(found: np.ndarray, expected: np.ndarray) -> float:
    """How many standard deviations chi-square lies above its mean."""
    dof = np.count_nonzero(expected) - 1
    chi = ((found - expected) ** 2 / expected).sum()
    return float((chi - dof) / np.sqrt(2 * dof))


@pytest.mark.parametrize("power", [0.01, 0.5, 1.0])
def test_the_slots_are_drawn_as_numpy_draws_them(power):
    number, pairs, gaps = 10_000, 3, 13
    tokens, labels = examples(part_of(num_train=number, power=power))
    keys = tokens[:, 0 : 2 * pairs : 2].numpy()
    asked = (labels.numpy() != -100).nonzero()[1].reshape(number, pairs)
    slot_of_key = np.empty((number, pairs), dtype=int)
    for row in range(number):
        by_key = {int(tokens[row, place]): (place - 2 * pairs) // 2 for place in asked[row].tolist()}
        slot_of_key[row] = [by_key[int(key)] for key in keys[row]]
    p = np.arange(1, gaps + 1) ** (power - 1)
    p /= p.sum()
    rng = np.random.default_rng(7)
    simulated = np.array([rng.choice(gaps, pairs, replace=False, p=p) for _ in range(number)])
    assert chi_square(np.bincount(slot_of_key[:, 0], minlength=gaps), number * p) < 4
    for nth in range(pairs):
        found, other = (np.bincount(slots[:, nth], minlength=gaps) for slots in (slot_of_key, simulated))
        # Both are random: the difference of two counts has the variance of their sum.
        away = (found - other) / np.sqrt(found + other)
        assert np.abs(away).max() < 4
        assert (away**2).mean() < 2.5


def test_keys_values_and_filler_are_uniform():
    config = small(num_train=8000)
    tokens, labels = (t.numpy() for t in examples(part_of(num_train=8000)))
    half = config.vocab_size // 2
    for nth in range(3):
        keys, values = tokens[:, 2 * nth], tokens[:, 2 * nth + 1]
        assert chi_square(np.bincount(keys, minlength=half)[1:], np.full(half - 1, 8000 / (half - 1))) < 4
        assert chi_square(np.bincount(values - half, minlength=half), np.full(half, 8000 / half)) < 4
    filler = np.where(labels[:, 6:] == -100, tokens[:, 6:], -1)
    counts = np.bincount(filler[filler >= 0], minlength=config.vocab_size)
    # A key is filler only in the examples that do not have it.
    weights = np.ones(config.vocab_size)
    weights[1:half] -= 3 / (half - 1)
    assert chi_square(counts, counts.sum() * weights / weights.sum()) < 4


def test_keys_and_values_are_drawn_apart():
    """A key tells nothing of its value, nor of the next key's."""
    tokens, _ = (t.numpy() for t in examples(part_of(num_train=8000)))
    for a, b in ((0, 1), (0, 2), (1, 3), (0, 3)):
        assert abs(np.corrcoef(tokens[:, a], tokens[:, b])[0, 1]) < (0.03 if (a + b) % 2 else 0.1)


def test_examples_are_many():
    tokens, _ = examples(part_of(num_train=2000))
    assert Counter(map(tuple, tokens.tolist())).most_common(1)[0][1] == 1


REFUSED = [
    ({"seq_len": 16, "num_pairs": 5}, "num_pairs=5 with seq_len=16: 4 \\* num_pairs must be at most seq_len"),
    ({"seq_len": 16, "num_pairs": 5}, "use num_pairs=4 or seq_len=20"),
    ({"num_pairs": 8, "vocab_size": 16}, "vocab_size=16 has 7; use vocab_size=18 or more"),
    ({"vocab_size": 41}, "multiple of 2"),
    ({"power": 0.0}, "greater than 0"),
    ({"num_train": 0}, "greater than 0"),
    ({"filler": "none"}, "'random' or 'zero'"),
    ({"data_seed": -1}, "greater than or equal to 0"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_parameters_that_do_not_fit_are_refused(options, words):
    with pytest.raises(ValidationError, match=words):
        small(**options)


def test_what_is_refused_says_what_works():
    small(seq_len=16, num_pairs=4)
    small(seq_len=20, num_pairs=5)
    small(num_pairs=8, vocab_size=18).build()

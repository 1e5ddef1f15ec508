"""Random ListOps trees, level by level: shapes first, then values and tokens of many trees at once.

A node takes one 64-bit word: its upper 30 bits decide whether it is an operator, two bits which one, and its lower 32
bits the digit, or the number of arguments. A tree's length follows from its shape alone, so that the many trees that
are refused cost no more than that."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zeta_core.errors import OptionError

from .generated import words_of
from .store import Examples, Ragged

MIN, MAX, MED, SUM = range(4)
OPENING, CLOSE, PADDING = 10, 14, 15
"""Tokens: the digits themselves, 10..13 for `[MIN [MAX [MED [SM`, 14 for `]`; 15 fills up."""
FEWEST_ARGUMENTS = 2
MOST_ATTEMPTS = 200_000
"""At the lengths of Long Range Arena one tree in twelve is kept."""


class Shape(NamedTuple):
    """What decides a tree.

    operator_share: the probability that a node above max_depth is an operator; the root has depth 1.
    A tree is kept if min_length < its tokens < max_length."""

    min_length: int
    max_length: int
    max_depth: int
    max_arguments: int
    operator_share: float

    @property
    def threshold(self) -> np.uint64:
        """Words whose upper 30 bits are below this are operators."""
        return np.uint64(round(self.operator_share * 2**30))


def draw_levels(shape: Shape, key: int, index: int) -> list[np.ndarray]:
    """The words of the tree of an index, one array a level: the first tree of its stream that is kept.

    Raises: OptionError if hardly any tree has such a length."""
    stream = words_of(key, index)
    for _ in range(MOST_ATTEMPTS):
        if (levels := attempt(shape, stream)) is not None:
            return levels
    raise OptionError(
        f"of {MOST_ATTEMPTS:,} trees none is longer than min_length={shape.min_length} and shorter than "
        f"max_length={shape.max_length}; choose lengths further apart, or other max_depth={shape.max_depth}, "
        f"max_arguments={shape.max_arguments}, operator_share={shape.operator_share}"
    )


def attempt(shape: Shape, stream: np.random.Philox) -> list[np.ndarray] | None:
    """One tree's words by level; None if its length is refused."""
    width, length = 1, 0
    levels: list[np.ndarray] = []
    for depth in range(1, shape.max_depth + 1):
        words = stream.random_raw(width)
        levels.append(words)
        length += width
        if depth == shape.max_depth:
            break
        operators = words[(words >> np.uint64(34)) < shape.threshold]
        if not len(operators):
            break
        length += len(operators)
        width = int(arguments(operators, shape.max_arguments).sum())
        if length + width >= shape.max_length:
            return None
    return levels if shape.min_length < length < shape.max_length else None


def arguments(words: np.ndarray, most: int) -> np.ndarray:
    """How many arguments operators have: uniform 2..most."""
    return FEWEST_ARGUMENTS + _below(words, most - FEWEST_ARGUMENTS + 1)


def _below(words: np.ndarray, bound: int) -> np.ndarray:
    """Uniform integers 0..bound-1 from the lower 32 bits; the bias is under bound / 2^32."""
    return (((words & np.uint64(0xFFFFFFFF)) * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)


class Level(NamedTuple):
    """One level of many trees side by side; a node's arguments stand together on the next level.

    which: 0..3 the operator, -1 for a digit. digit: a digit's value. counts: arguments, 0 for a digit."""

    which: np.ndarray
    digit: np.ndarray
    counts: np.ndarray


def trees(shape: Shape, key: int, start: int, stop: int) -> Examples:
    """The trees of the indices start..stop-1: their values, and their tokens in prefix order."""
    drawn = [draw_levels(shape, key, index) for index in range(start, stop)]
    deepest = max((len(levels) for levels in drawn), default=0)
    levels = []
    for depth in range(deepest):
        words = np.concatenate([one[depth] for one in drawn if len(one) > depth])
        operator = (words >> np.uint64(34)) < shape.threshold
        if depth + 1 == shape.max_depth:
            operator[:] = False
        which = np.where(operator, ((words >> np.uint64(32)) & np.uint64(3)).astype(np.int64), -1)
        counts = np.where(operator, arguments(words, shape.max_arguments), 0)
        levels.append(Level(which, _below(words, 10), counts))
    values, sizes = bottom_up(levels)
    offsets = np.concatenate([[0], np.cumsum(sizes[0])]).astype(np.int64)
    return Examples(values, (Ragged(top_down(levels, sizes, offsets), offsets),))


def bottom_up(levels: list[Level]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The values of the roots, and on each level the tokens that a node and all below it take."""
    values = below = np.zeros(0, np.int64)
    sizes: list[np.ndarray] = []
    for level in reversed(levels):
        parents = level.which >= 0
        found, size = level.digit.copy(), np.ones(len(level.which), np.int64)
        if parents.any():
            counts, which = level.counts[parents], level.which[parents]
            first = np.cumsum(counts) - counts
            total = np.add.reduceat(values, first)
            ordered = values[np.argsort(np.repeat(np.arange(len(counts)), counts) * 10 + values, kind="stable")]
            middle = (ordered[first + (counts - 1) // 2] + ordered[first + counts // 2]) // 2
            choices = (ordered[first], ordered[first + counts - 1], middle, total % 10)
            found[parents] = np.choose(which, choices)
            size[parents] = 2 + np.add.reduceat(below, first)
        values, below = found, size
        sizes.insert(0, size)
    return values, sizes


def top_down(levels: list[Level], sizes: list[np.ndarray], offsets: np.ndarray) -> np.ndarray:
    """All tokens, uint8: each root at its offset, each argument behind its operator and earlier arguments."""
    tokens = np.empty(offsets[-1], dtype=np.uint8)
    places = offsets[:-1]
    for depth, level in enumerate(levels):
        parents = level.which >= 0
        tokens[places] = np.where(parents, OPENING + level.which, level.digit)
        if not parents.any():
            break
        here, size, counts = places[parents], sizes[depth][parents], level.counts[parents]
        tokens[here + size - 1] = CLOSE
        before = np.cumsum(sizes[depth + 1]) - sizes[depth + 1]
        first = np.cumsum(counts) - counts
        places = np.repeat(here + 1 - before[first], counts) + before
    return tokens

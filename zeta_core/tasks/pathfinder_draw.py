"""Pictures of dashed snakes: two long ones, short distractors, and two discs on ends of the long ones.

A snake grows dash by dash. From a pivot (a pixel) a dash lies `margin` to `margin + length` away in one of a round
of directions; the next pivot is `margin` behind its far tip, rounded to a pixel. A turn weighs cos^2 of
`continuity` times itself, 0 from 90 degrees on. Every dash keeps a zone of `margin` around it, and zones of two
dashes never share a cell, those of neighbours in a snake excepted: so snakes neither cross nor touch. A direction
without room is not taken; if none is left, the picture (for a distractor: the distractor) is begun anew.

Source: Linsley et al. 2018, "Learning long-range spatial dependencies with horizontal gated recurrent units", whose
parameters these are. Ours: zones in cells of half a pixel where the margin is below 2 pixels, the number of
directions, and that directions without room are left out of the choice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from zeta_core.errors import OptionError

from .pathfinder_stamps import Pen, Stamp, Style, pen_of

DISTRACTOR_TRIALS = 1000
"""Places tried for a distractor; one that finds none is left out. Of the hard 32 x 32 pictures a quarter has one too
few by that, and one in a hundred two."""
PICTURE_TRIALS = 20_000
BLOCK = 1024
"""Words drawn at a time."""


class Dash(NamedTuple):
    """A drawn dash: a stamp, and the pixel (y, x) that it is relative to."""

    stamp: Stamp
    y: int
    x: int

    @property
    def tips(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Where it begins and ends, (y, x) in pixels; a pixel's centre has whole numbers."""
        (a, b), (c, d) = self.stamp.tips
        return (self.y + a, self.x + b), (self.y + c, self.x + d)


class Picture(NamedTuple):
    """image: [size, size] uint8. label: 1 if the discs are on one snake. snakes: the two long ones, dash by dash;
    distractors: likewise. discs: their centres (y, x)."""

    image: np.ndarray
    label: int
    snakes: tuple[list[Dash], list[Dash]]
    distractors: list[list[Dash]]
    discs: tuple[tuple[float, float], tuple[float, float]]


def uniforms(stream: np.random.Philox) -> Iterator[float]:
    """Uniform numbers in [0, 1) from a stream's words."""
    while True:
        yield from ((stream.random_raw(BLOCK) >> np.uint64(11)) * 2.0**-53).tolist()


def picture(style: Style, stream: np.random.Philox) -> Picture:
    """The picture of a stream. Raises: OptionError if hardly any picture has room for two long snakes."""
    pen, chance = pen_of(style), uniforms(stream)
    label, marked = next(chance) < 0.5, next(chance) < 0.5
    for _ in range(PICTURE_TRIALS):
        if (found := _two_snakes(pen, chance)) is not None:
            break
    else:
        raise OptionError(
            f"of {PICTURE_TRIALS:,} pictures of size={style.size} none had room for two snakes of "
            f"contour_length={style.contour_length}; use fewer dashes or a larger size"
        )
    snakes, occupied = found
    distractors = []
    for _ in range(style.num_distractors):
        for _ in range(DISTRACTOR_TRIALS):
            if (one := _distractor(pen, occupied, chance)) is not None:
                dashes, occupied = one
                distractors.append(dashes)
                break
    start, end = snakes[marked][0], snakes[marked if label else not marked][-1]
    image = _drawn(pen, [dash for snake in (*snakes, *distractors) for dash in snake], start, end)
    return Picture(image, int(label), snakes, distractors, (start.tips[0], end.tips[1]))


def _drawn(pen: Pen, dashes: list[Dash], start: Dash, end: Dash) -> np.ndarray:
    """The picture of dashes, with discs on the first tip of one and on the second tip of another: the brightest of
    all layers."""
    canvas = np.zeros(pen.width * pen.width, dtype=np.uint8)
    way = next(way for way, stamp in enumerate((*pen.first, *pen.later)) if stamp is end.stamp)
    layers = [(dash.stamp.pixels + pen.place(dash.y, dash.x), dash.stamp.brightness) for dash in dashes]
    layers.append((pen.disc[0] + pen.place(start.y, start.x), pen.disc[1]))
    layers.append((pen.end_discs[way][0] + pen.place(end.y, end.x), pen.end_discs[way][1]))
    np.maximum.at(canvas, np.concatenate([pixels for pixels, _ in layers]), np.concatenate([b for _, b in layers]))
    inner = slice(pen.pad, pen.pad + pen.style.size)
    return canvas.reshape(pen.width, pen.width)[inner, inner]


class Head:
    """The growing end of a snake. last: the zone of its last dash, which its next one may touch."""

    def __init__(self, pen: Pen, way: int, y: int, x: int, zone: int) -> None:
        self.pen, self.way, self.last = pen, way, zone
        self.dashes = [Dash(pen.first[way], y, x)]
        self.y, self.x = y + pen.first[way].step[0], x + pen.first[way].step[1]

    def grow(self, occupied: int, chance: Iterator[float]) -> bool:
        """Add a dash whose zone meets nothing in `occupied`; False if no direction has room."""
        pen, choices = self.pen, list(self.pen.turns)
        total = sum(weight for _, weight in choices)
        while choices:
            left, picked = next(chance) * total, 0
            while left >= choices[picked][1] and picked + 1 < len(choices):
                left -= choices[picked][1]
                picked += 1
            turn, weight = choices.pop(picked)
            total -= weight
            way = (self.way + turn) % pen.num_directions
            stamp = pen.later[way]
            zone = pen.moved(stamp, self.y, self.x)
            if not zone & occupied:
                self.dashes.append(Dash(stamp, self.y, self.x))
                self.way, self.last = way, zone
                self.y, self.x = self.y + stamp.step[0], self.x + stamp.step[1]
                return True
        return False


def _two_snakes(pen: Pen, chance: Iterator[float]) -> tuple[tuple[list[Dash], list[Dash]], int] | None:
    """Two long snakes and all their zones; None if one finds no room."""
    style = pen.style
    border, span = 2 * style.seed_distance, style.size - 4 * style.seed_distance
    y, x = border + int(next(chance) * span), border + int(next(chance) * span)
    dy, dx = pen.ring[int(next(chance) * len(pen.ring))]
    heads: list[Head] = []
    for row, column in ((y, x), (y + dy, x + dx)):
        way = int(next(chance) * pen.num_directions)
        zone = pen.moved(pen.first[way], row, column)
        if zone & (pen.border | (heads[0].last if heads else 0)):
            return None
        heads.append(Head(pen, way, row, column, zone))
    behind = pen.border
    for _ in range(style.contour_length - 1):
        for head, other in (heads, heads[::-1]):
            before = head.last
            if not head.grow(behind | other.last, chance):
                return None
            behind |= before
    return (heads[0].dashes, heads[1].dashes), behind | heads[0].last | heads[1].last


def _distractor(pen: Pen, occupied: int, chance: Iterator[float]) -> tuple[list[Dash], int] | None:
    """A short snake where there is room, and all zones with its own; None if there is none at the place tried."""
    y, x = int(next(chance) * pen.style.size), int(next(chance) * pen.style.size)
    way = int(next(chance) * pen.num_directions)
    zone = pen.moved(pen.first[way], y, x)
    if zone & occupied:
        return None
    head = Head(pen, way, y, x, zone)
    for _ in range(pen.style.distractor_length - 1):
        before = head.last
        if not head.grow(occupied, chance):
            return None
        occupied |= before
    return head.dashes, occupied | head.last

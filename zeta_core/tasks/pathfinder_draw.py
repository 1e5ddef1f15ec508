"""Pictures of dashed snakes: two long ones, short distractors, and two discs on ends of the long ones.

A snake grows dash by dash. From a pivot (a pixel) a dash lies `margin` to `margin + length` away in one of a round
of directions; the next pivot is `margin` behind its far tip, rounded to a pixel. A turn weighs cos^2 of
`continuity` times itself, 0 from 90 degrees on. Every dash keeps a zone of `margin` around it, and zones of two
dashes never share a cell, those of neighbours in a snake excepted: so snakes neither cross nor touch. A direction
without room is not taken; if none is left, the picture (for a distractor: the distractor) is begun anew.

Zones are whole numbers whose bits are the cells of a grid: moving one is a shift, and two meet if `a & b`.

Source: Linsley et al. 2018, "Learning long-range spatial dependencies with horizontal gated recurrent units", whose
parameters these are. Ours: zones in cells of half a pixel where the margin is below 2 pixels, the number of
directions, and that directions without room are left out of the choice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from zeta_core.errors import OptionError

DISTRACTOR_TRIALS = 1000
"""Places tried for a distractor; one that finds none is left out. Of the hard 32 x 32 pictures a quarter has one too
few by that, and one in a hundred two."""
PICTURE_TRIALS = 20_000
BLOCK = 1024
"""Words drawn at a time."""


class Style(NamedTuple):
    """Lengths in pixels; contour_length and distractor_length in dashes."""

    size: int
    padding: int
    contour_length: int
    distractor_length: int
    num_distractors: int
    dash_length: int
    thickness: float
    margin: int
    marker_radius: float
    seed_distance: int
    continuity: float
    antialias: int
    contrast: float


class Stamp(NamedTuple):
    """A dash in one direction, relative to a pixel: its zone's bits, its pixels in the padded picture and their
    brightness 0..255, its two tips (y, x), and the step from the pixel to the next pivot in rows and columns."""

    zone: int
    pixels: np.ndarray
    brightness: np.ndarray
    tips: tuple[tuple[float, float], tuple[float, float]]
    step: tuple[int, int]


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


class Pen:
    """What a style draws with: stamps of all directions, from a pivot and from a snake's first tip."""

    def __init__(self, style: Style) -> None:
        self.style = style
        reach = style.dash_length + 2 * style.margin
        self.pad = reach + style.margin + math.ceil(max(style.thickness, style.marker_radius)) + 2
        self.width = style.size + 2 * self.pad
        self.cells = 2 if style.margin < 2 else 1
        self.num_directions = 8 * math.ceil(2 * math.pi * (style.dash_length + style.margin) / 8)
        self.first = [self._stamp(way, 0) for way in range(self.num_directions)]
        self.later = [self._stamp(way, style.margin) for way in range(self.num_directions)]
        self.disc = self._disc((0.0, 0.0))
        self.end_discs = [self._disc(stamp.tips[1]) for stamp in (*self.first, *self.later)]
        outside = np.ones((self.width * self.cells,) * 2, dtype=bool)
        inner = slice((self.pad + style.padding) * self.cells, (self.width - self.pad - style.padding) * self.cells)
        outside[inner, inner] = False
        self.border = _bits(np.flatnonzero(outside))
        self.ring = [
            (y, x)
            for y in range(-style.seed_distance - 1, style.seed_distance + 2)
            for x in range(-style.seed_distance - 1, style.seed_distance + 2)
            if abs(math.hypot(y, x) - style.seed_distance) <= 0.5
        ]

    @cached_property
    def turns(self) -> list[tuple[int, float]]:
        """Turns in steps of direction, each with its weight."""
        angle = 2 * math.pi / self.num_directions
        found = []
        for turn in range(-(self.num_directions // 2), self.num_directions // 2):
            bent = min(abs(turn) * angle * self.style.continuity, math.pi / 2)
            if bent < math.pi / 2 - 1e-9:
                found.append((turn, math.cos(bent) ** 2))
        return found

    def shift(self, y: int, x: int) -> int:
        """How far a zone is shifted for a pixel (y, x) of the picture."""
        return ((y + self.pad) * self.width * self.cells + x + self.pad) * self.cells

    def place(self, y: int, x: int) -> int:
        """The pixel's index in the padded picture."""
        return (y + self.pad) * self.width + x + self.pad

    def _stamp(self, way: int, start: int) -> Stamp:
        style, angle = self.style, 2 * math.pi * way / self.num_directions
        uy, ux = math.sin(angle), math.cos(angle)
        stop = start + style.dash_length
        tips = (start * uy, start * ux), (stop * uy, stop * ux)
        cells = (np.arange(-self.pad * self.cells, self.pad * self.cells) + 0.5) / self.cells - 0.5
        zone = _distance(cells, tips) <= style.margin + style.thickness / 2
        rows, columns = np.nonzero(zone)
        middle = self.pad * self.cells
        offsets = (rows - middle) * self.width * self.cells + columns - middle
        pixels, brightness = self._antialiased(tips, style.thickness / 2, style.contrast)
        step = round((stop + style.margin) * uy), round((stop + style.margin) * ux)
        return Stamp(_bits(offsets + self._lowest), pixels, brightness, tips, step)

    @property
    def _lowest(self) -> int:
        """Stamps begin above their pixel: their bits are kept shifted by so many cells, so that none is negative."""
        return self.pad * self.cells * (self.width * self.cells + 1)

    def moved(self, stamp: Stamp, y: int, x: int) -> int:
        """A stamp's zone at a pixel of the picture."""
        return stamp.zone << (self.shift(y, x) - self._lowest)

    def _disc(self, at: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
        return self._antialiased((at, at), self.style.marker_radius, 1.0)

    def _antialiased(
        self, tips: tuple[tuple[float, float], tuple[float, float]], radius: float, contrast: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Pixels within `radius` of a line, on a grid `antialias` times as fine, then averaged by a tent one pixel
        wide to each side."""
        scale = self.style.antialias
        fine = np.arange(-self.pad * scale, self.pad * scale + 1) / scale
        lit = (_distance(fine, tips) <= radius + 1e-9).astype(float)
        tent = 1 - np.abs(np.arange(-scale + 1, scale)) / scale
        tent /= tent.sum()
        for axis in (0, 1):
            lit = np.apply_along_axis(np.convolve, axis, lit, tent, "same")
        coarse = lit[::scale, ::scale]
        rows, columns = np.nonzero(coarse > 1e-6)
        brightness = np.rint(255 * contrast * coarse[rows, columns]).astype(np.uint8)
        return (rows - self.pad) * self.width + columns - self.pad, brightness


@lru_cache(maxsize=8)
def pen_of(style: Style) -> Pen:
    """The pen of a style."""
    return Pen(style)


def _bits(places: np.ndarray) -> int:
    return sum(1 << int(place) for place in places)


def _distance(grid: np.ndarray, tips: tuple[tuple[float, float], tuple[float, float]]) -> np.ndarray:
    """The distance of each point (y, x) of a square grid to a line between tips: [grid, grid]."""
    (ay, ax), (by, bx) = tips
    y, x = grid[:, None] - ay, grid[None, :] - ax
    dy, dx = by - ay, bx - ax
    along = np.clip((y * dy + x * dx) / max(dy * dy + dx * dx, 1e-12), 0, 1)
    return np.hypot(y - along * dy, x - along * dx)


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

"""What dashed snakes are drawn with: dashes of every direction, as pixels and as zones.

A zone is a whole number whose bits are cells of a grid over the padded picture, two to a pixel's side where the
margin is below 2 pixels: moving a zone is a shift, and two zones meet if `a & b`."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np


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

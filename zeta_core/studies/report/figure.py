"""Means with intervals over the values of an axis, as a PNG."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .spread import Spread

COLORS = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:pink", "tab:olive", "tab:cyan")
FAILED = "tab:red"
WIDE = 12
"""Characters beyond which labels are written at an angle."""


@dataclass(frozen=True)
class Place:
    """One value of an axis. paper: the figure that the paper prints for it, if any."""

    label: str
    found: Spread
    paper: float | None = None


def draw_values(
    path: Path, lines: Mapping[str, Sequence[Place]], *, title: str, x: str, y: str, caption: Sequence[str]
) -> None:
    """Draw a line for each series: means, their 95 % intervals, and at the bottom a cross where runs have no score.

    Values are places, not numbers: an axis may be words, and those are not joined. Written whole or not at all."""
    labels = list(dict.fromkeys(place.label for places in lines.values() for place in places))
    numbers = all(label.replace(",", "").replace(".", "", 1).isdigit() for label in labels)
    words = [label.replace(", ", "\n") for label in labels]
    angle = 30 if max(len(line) for label in words for line in label.split("\n")) > WIDE + 4 else 0
    figure = Figure(
        figsize=(max(6.4, (0.75 if numbers else 1.1) * len(labels) + 1.8), 4.8 + angle / 30), layout="constrained"
    )
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    named: set[str] = set()

    def once(label: str) -> str | None:
        if label in named:
            return None
        named.add(label)
        return label

    for number, (name, places) in enumerate(lines.items()):
        color = COLORS[number % len(COLORS)]
        shift = 0.06 * (number - (len(lines) - 1) / 2)
        placed = [(labels.index(place.label) + shift, place) for place in places]
        scored = [(where, place.found) for where, place in placed if place.found.mean is not None]
        middle = [found.mean or 0.0 for _, found in scored]
        ends = [(found.low, found.high) for _, found in scored]
        around = zip(middle, ends, strict=True)
        bars = [(0.0, 0.0) if low is None or high is None else (at - low, high - at) for at, (low, high) in around]
        axis.errorbar(
            [where for where, _ in scored],
            middle,
            yerr=[[max(0.0, bar[side]) for bar in bars] for side in (0, 1)],
            marker="o",
            markersize=5,
            capsize=3,
            linestyle="-" if numbers else "",
            color=color,
            label=name or None,
        )
        for where, place in placed:
            if place.found.missing:
                axis.plot([where], [0.03], "x", color=FAILED, transform=axis.get_xaxis_transform(), clip_on=False,
                          label=once("without a score"))  # fmt: skip
                axis.annotate(place.found.missing, (where, 0.05), xycoords=axis.get_xaxis_transform(), color=FAILED,
                              fontsize=7, ha="center", va="bottom")  # fmt: skip
            if place.paper is not None:
                axis.plot([where], [place.paper], "_", color="0.5", markersize=16, label=once("paper"))
    axis.set_xticks(range(len(labels)), words, fontsize=8, rotation=angle, ha="right" if angle else "center")
    axis.set_xlim(-0.5, len(labels) - 0.5)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.grid(alpha=0.3)
    if y.startswith("accuracy"):
        axis.set_ylim(-0.03, 1.03)
    if any(lines) or named:
        axis.legend(fontsize=8)
    figure.suptitle(title, fontsize=11)
    width = int(figure.get_figwidth() * 17)
    text = "\n".join(line for part in caption for line in textwrap.wrap(part, width))
    figure.supxlabel(text, fontsize=7, x=0.02, ha="left")
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, whole or not at all; without the library's version, which is no result."""
    partial = path.with_name(f".{path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(partial, dpi=120, format="png", metadata={"Software": None})
    partial.replace(path)

"""Time and memory over the length of the sequence, as a PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from zeta_core.records import BenchRow

from .. import paper
from .presets import PROVIDERS
from .summary import timed

GREY = "0.55"
COLORS = [color for number, color in enumerate(colormaps["tab20"].colors) if number not in (14, 15)]  # type: ignore[attr-defined]
"""One a provider, dashed from where they begin again; the two greys are left to the paper."""
TITLES = {"forward": "forward", "forward_backward": "forward + backward"}


def plot(rows: Sequence[BenchRow], path: Path) -> None:
    """Draw a row of panels for times and one for memory, a column for each mode; written whole or not at all."""
    frame = timed(rows)
    modes = [mode for mode in TITLES if mode in set(frame["mode"])]
    figure = Figure(figsize=(6.2 * len(modes) + 2.2, 9), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, len(modes), squeeze=False, sharex=True)
    for column, mode in enumerate(modes):
        _lines(axes[0, column], frame[frame["mode"] == mode], "time_ms")
        _lines(axes[1, column], frame[(frame["mode"] == mode)], "peak_mib")
        _paper(axes[0, column], axes[1, column], mode)
        axes[0, column].set_title(TITLES[mode])
        axes[0, column].set_ylabel("ms, median")
        axes[1, column].set_ylabel("MiB above the inputs")
        axes[1, column].set_xlabel("tokens")
    handles = {
        label: line for axis in axes.flat for line, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize=9)
    first = rows[0]
    figure.suptitle(
        f"{first.device}, {first.dtype}, batch {first.batch}, {first.heads} heads of {first.d_v}, torch {first.torch}"
    )
    partial = path.with_name(f".{path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(partial, dpi=120, format="png")
    partial.replace(path)


def _lines(axis: Axes, frame: pd.DataFrame, column: str) -> None:
    """One line a provider: replayed from a graph at the lengths where it was, else called eagerly.

    The label says so of a provider that never was."""
    for number, provider in enumerate(PROVIDERS):
        of_it = frame[(frame["provider"] == provider) & frame[column].notna()]
        # "graph" sorts behind "eager", and so is the one that is kept.
        of_it = of_it.sort_values(["seq_len", "timing"]).drop_duplicates("seq_len", keep="last")
        if len(of_it):
            both = "graph" in set(frame["timing"]) and "graph" not in set(of_it["timing"])
            axis.plot(
                of_it["seq_len"],
                of_it[column],
                marker="o",
                markersize=4,
                color=COLORS[number % len(COLORS)],
                linestyle="-" if number < len(COLORS) else "--",
                linewidth=2.5 if provider.startswith("zeta") else 1.3,
                label=f"{provider} (eager)" if both else provider,
            )
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axis.set_yscale("log")
    axis.grid(alpha=0.3)


def _paper(axis: Axes, memory: Axes, mode: str) -> None:
    """The paper's times and memory in grey."""
    styles = {"Flash": "s:", "ZETA": "^:", "naive torch": "x"}
    if mode == "forward":
        for name, times in paper.BENCH_FORWARD_MS.items():
            lengths = paper.BENCH_LENGTHS[: len(times)]
            axis.plot(lengths, times, styles[name], color=GREY, label=f"paper's {name} ({paper.BENCH_DEVICE})")
        for name, megabytes in paper.BENCH_FORWARD_MB.items():
            memory.plot([65_536], [megabytes], styles[name][0], color=GREY)
    else:
        for name, ms in paper.BENCH_FORWARD_BACKWARD_MS.items():
            axis.plot([65_536], [ms], styles[name][0], color=GREY, label=f"paper's {name} ({paper.BENCH_DEVICE})")

"""What the rows say together: ratios to the fastest opponent, where ZETA begins to win, how time grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from zeta_core.config import kinds
from zeta_core.records import BenchRow

from .providers import AnyProvider, Provider

OURS = ("zeta_triton", "zeta_reference")
"""The first of these that has times is what the others are compared with."""


def dense_providers() -> list[str]:
    """The providers that compute softmax attention over all pairs."""
    return [kind for kind, found in kinds(AnyProvider).items() if issubclass(found, Provider) and found.dense]


def timed(rows: Sequence[BenchRow]) -> pd.DataFrame:
    """The rows that have a time, with the first row's points; of several settings at one length, the fastest."""
    frame = pd.DataFrame([asdict(row) for row in rows])
    if frame.empty:
        return frame
    frame = frame[(frame["status"] == "ok") & (frame["points"] == frame["points"].iloc[0])]
    setting = ["provider", "mode", "timing", "seq_len", "batch", "heads"]
    fastest: pd.DataFrame = frame.sort_values("time_ms").drop_duplicates(subset=setting)
    return fastest


@dataclass(frozen=True)
class Comparison:
    """ZETA beside the fastest other at each length, in one mode and timing. ratios: by length, that provider and how
    many times ZETA's time it takes. crossover: the shortest length from which on ZETA is faster."""

    ours: str
    ratios: dict[int, tuple[str, float]]
    growth: float | None

    @property
    def crossover(self) -> int | None:
        """The shortest measured length from which on ZETA is faster at every length; None if there is none."""
        found = None
        for seq_len, (_, ratio) in sorted(self.ratios.items(), reverse=True):
            if ratio <= 1:
                break
            found = seq_len
        return found


def compare_with(frame: pd.DataFrame, opponents: Sequence[str]) -> Comparison | None:
    """ZETA beside the fastest of some opponents; frame: rows of one mode, timing, batch and heads."""
    there = set(frame["provider"])
    ours = next((name for name in OURS if name in there), None)
    if ours is None:
        return None
    zeta = frame[frame["provider"] == ours].set_index("seq_len")["time_ms"]
    others = frame[frame["provider"].isin(opponents)]
    ratios = {}
    for seq_len, ms in zeta.items():
        at_length = others[others["seq_len"] == seq_len].sort_values("time_ms")
        if len(at_length):
            fastest = at_length.iloc[0]
            ratios[int(str(seq_len))] = (str(fastest["provider"]), float(fastest["time_ms"]) / float(ms))
    return Comparison(ours, ratios, growth(zeta))


def growth(times: pd.Series[float]) -> float | None:
    """The exponent b of time = a N^b, fitted to the logarithms; times: indexed by N. None for fewer than two."""
    if len(times) < 2:
        return None
    lengths, ms = np.log(times.index.to_numpy(float)), np.log(times.to_numpy(float))
    return float(np.polyfit(lengths, ms, 1)[0])

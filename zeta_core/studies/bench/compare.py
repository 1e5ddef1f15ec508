"""Two bench tables side by side: what became slower or larger."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd

from zeta_core.errors import ConfigError

SETTINGS = [
    "provider", "mode", "seq_len", "batch", "heads", "d_k", "d_v", "top_k", "num_chunks", "score", "history_mean",
    "causal", "points", "timing", "dtype", "device",
]  # fmt: skip
MEASURED = ["status", "time_ms", "time_ms_p20", "time_ms_p80", "peak_mib"]
SLOWER, LARGER = 1.05, 1.02
"""The least ratios that count."""

Verdict = Literal["same", "slower", "faster", "larger", "smaller", "slower, larger", "no longer ok"]


@dataclass(frozen=True)
class Match:
    """One row that both tables have; ratios are new over old, None where a side has none."""

    settings: dict[str, str]
    time_ratio: float | None
    peak_ratio: float | None
    verdict: str

    @property
    def worse(self) -> bool:
        """Whether the command should fail for it."""
        return any(word in self.verdict for word in ("slower", "larger", "no longer"))


@dataclass(frozen=True)
class Matches:
    """The rows in common that were measured, and how many only one side has."""

    rows: list[Match]
    only_old: int
    only_new: int


def compare(old: Path, new: Path) -> Matches:
    """Match the rows of two tables on every setting and the device.

    slower: the new 20th percentile is above the old 80th, and the medians' ratio above 1.05; faster: the other
    way round. larger: more than 2 % more memory. Raises: ConfigError if a file is no such table or none match."""
    tables = [_read(path) for path in (old, new)]
    both = tables[0].merge(tables[1], on=SETTINGS, how="outer", suffixes=("_old", "_new"), indicator=True)
    common = both[both["_merge"] == "both"]
    if common.empty:
        differing = [
            f"{name} ({', '.join(sorted(set(tables[0][name])))} and {', '.join(sorted(set(tables[1][name])))})"
            for name in SETTINGS
            if not set(tables[0][name]) & set(tables[1][name])
        ]
        why = f": they differ in {'; '.join(differing)}" if differing else ""
        raise ConfigError(f"{old} and {new} have no row in common{why}; time the same settings on one machine")
    found = [_match(row) for _, row in common.iterrows() if row["status_old"] == "ok"]
    counts = both["_merge"].value_counts()
    return Matches(found, int(counts["left_only"]), int(counts["right_only"]))


def _match(row: pd.Series[str]) -> Match:
    settings = {name: str(row[name]) for name in SETTINGS}
    if row["status_new"] != "ok":
        return Match(settings, None, None, f"no longer ok ({row['status_new']})")
    numbers = {name: float(row[name]) if row[name] else None for name in row.index if name[:-4] in MEASURED[1:]}
    time_ratio = _ratio(numbers["time_ms_new"], numbers["time_ms_old"])
    peak_ratio = _ratio(numbers["peak_mib_new"], numbers["peak_mib_old"])
    verdicts = []
    if time_ratio is not None:
        if time_ratio > SLOWER and _above(numbers["time_ms_p20_new"], numbers["time_ms_p80_old"]):
            verdicts.append("slower")
        if time_ratio < 1 / SLOWER and _above(numbers["time_ms_p20_old"], numbers["time_ms_p80_new"]):
            verdicts.append("faster")
    if peak_ratio is not None and not 1 / LARGER <= peak_ratio <= LARGER:
        verdicts.append("larger" if peak_ratio > 1 else "smaller")
    return Match(settings, time_ratio, peak_ratio, ", ".join(verdicts) or "same")


def _ratio(new: float | None, old: float | None) -> float | None:
    return None if new is None or not old else new / old


def _above(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and one > other


def _read(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise ConfigError(f"{path}: is no CSV that can be read: {reason}") from None
    lacking = [name for name in [*SETTINGS, *MEASURED] if name not in frame.columns]
    if lacking:
        raise ConfigError(f"{path}: lacks the columns {', '.join(lacking)}; give a table that zeta bench wrote")
    return frame[[*SETTINGS, *MEASURED]].drop_duplicates(SETTINGS, keep="last")

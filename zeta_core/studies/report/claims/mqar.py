"""ZETA beside attention on MQAR: runs of train.csv and of the sweeps over mixers."""

from __future__ import annotations

from collections.abc import Sequence

from zeta_core.records import AblateRow, TrainRow

from ... import paper
from ..ablate import ABLATE
from ..claim import Claim, Finding, Verdict
from ..rows import by
from ..sections import Results
from ..settings import base_columns, groups, main_scores
from ..spread import POINT, Spread, spread
from ..train import TRAIN
from .sweeps import PERFECT, seeds, setting_of

LEARNED = 0.9
"""Attention itself is to be above this, or the runs were too short to tell."""


def candidates(results: Results) -> list[TrainRow]:
    """Main scores at the paper's width, of trained models and of sweeps over mixers, each run once."""
    swept: Sequence[AblateRow] = [row for row in results.of(ABLATE) if "attention" in row.axis.split(",")]
    rows = [row for row in main_scores([*results.of(TRAIN), *swept]) if row.task == "mqar"]
    once = {getattr(row, "trained", row.run_id): row for row in rows if row.metric == "accuracy"}
    return [row for row in once.values() if row.d_model == paper.MQAR_WIDTH]


def score(rows: Sequence[TrainRow]) -> Spread:
    """Over seeds."""
    return spread((row.status, row.value) for row in rows)


def parity_verdict(zeta: Spread, softmax: Spread) -> Verdict:
    """reproduced: ZETA is at 99.9 % or above, and attention is no more than a point above; partly: one of the two."""
    if zeta.mean is None or softmax.mean is None or min(zeta.n, softmax.n) < 2 or softmax.mean < LEARNED:
        return "not shown"
    met = [zeta.mean >= PERFECT, zeta.mean >= softmax.mean - POINT]
    return "reproduced" if all(met) else "partly" if any(met) else "not reproduced"


def parity(results: Results) -> list[Finding]:
    """Every ZETA configuration (with Z-order selection) beside softmax under the same task, model and training."""
    found = []
    rows = candidates(results)
    if not rows:
        return []
    # Rows of sweeps have a column more, `system`, which is no setting here: all are mixers as they come.
    for here in by(rows, *[name for name in base_columns(rows[0]) if name != "system"]).values():
        softmax = score([row for row in here if row.attention == "softmax"])
        zeta = [row for row in here if row.attention == "zeta" and row.selection == "zorder"]
        for runs in groups(zeta, ("system",)):
            ours = score(runs)
            words = [
                f"{name} {'not run' if of.mean is None else f'{of.mean:.4f}'}"
                for name, of in (("ZETA", ours), ("softmax", softmax))
            ]
            first = runs[0]
            setting = f"{setting_of(first)}, d_K {first.d_k}, k {first.top_k}, convolution {first.short_conv}"
            n = seeds([ours, softmax])
            found.append(Finding(parity_verdict(ours, softmax), ", ".join(words), setting, first.device, n))
    return found


MQAR = (
    Claim(
        f"ZETA matches attention on MQAR at width {paper.MQAR_WIDTH}",
        "in words",
        f"{100 * paper.MQAR_ACCURACY:.0f} %, both",
        f"ZETA at {100 * PERFECT:.1f} % or above and at most one point below softmax (two seeds or more of both); "
        "partly: one of the two",
        "`zeta ablate --config experiments/ablate/mqar_width.yaml`",
        parity,
    ),
)

"""The figure that the paper prints for what a row measured."""

from __future__ import annotations

from zeta_core.records import TrainRow

from .. import paper

NAMES = {"zeta": "ZETA", "softmax": "Transformer"}
"""Our mixers as the paper's tables name them."""


def printed(row: TrainRow) -> float | None:
    """The paper's accuracy, 0..1, of this mixer on this task and width; None where it prints none."""
    if row.metric != "accuracy" or row.attention not in NAMES:
        return None
    if row.task in paper.LRA_TASKS:
        return paper.LRA_ACCURACY[NAMES[row.attention]][paper.LRA_TASKS.index(row.task)] / 100
    at_width = row.task == "mqar" and row.d_model == paper.MQAR_WIDTH and row.selection in ("zorder", None)
    return paper.MQAR_ACCURACY if at_width else None

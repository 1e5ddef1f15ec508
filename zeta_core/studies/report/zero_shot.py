"""results/zero_shot.csv: a trained language model's scores beside what guessing comes to."""

from __future__ import annotations

from collections.abc import Sequence

from zeta_core.records import ZeroShotRow

from .rows import by
from .table import Section, Table, made_on


def percent(value: float | None) -> str:
    """A fraction in percent, without the sign."""
    return "-" if value is None else f"{100 * value:.1f}"


def guessed(row: ZeroShotRow) -> bool:
    """Whether a score is within two standard errors of chance, so that it cannot be told from guessing.

    The larger of its own error and of guessing's: a few questions all answered wrong have none of their own."""
    guessing = (row.chance * (1 - row.chance) / row.num_questions) ** 0.5
    return row.value is None or abs(row.value - row.chance) <= 2 * max(row.stderr or 0, guessing)


def tables(rows: Sequence[ZeroShotRow]) -> list[Table]:
    """A table for each trained model."""
    found = []
    for (checkpoint,), group in by(rows, "checkpoint").items():
        first = group[0]
        lines: list[tuple[str, ...]] = [
            (
                row.questions, row.gamma, f"{row.num_questions:,}", row.metric, percent(row.value),
                percent(row.stderr), percent(row.chance), "yes" if guessed(row) else "no",
            )
            for row in group
        ]  # fmt: skip
        title = f"{first.attention}, width {first.d_model}, {first.num_layers} layers: {checkpoint}"
        head = ("questions", "gamma", "asked", "metric", "score, %", "standard error", "chance", "like guessing")
        cut = max(row.num_cut for row in group)
        lost = f"Up to {cut:,} answers of a set were longer than the context and lost their beginning."
        notes = [
            f"lm-evaluation-harness {first.harness}, no examples in the prompt. Like guessing: within two standard "
            "errors of chance."
        ]
        notes += [lost] if cut else []
        found.append(Table(title, head, lines, (*notes, made_on(group))))
    return found


ZERO_SHOT = Section("zero_shot.csv", "Zero-shot questions", ZeroShotRow, "zeta eval RUN", tables)

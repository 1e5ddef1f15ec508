"""How `zeta eval` shows itself: what is being asked, then a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from .console import console
from .progress import CountBar

if TYPE_CHECKING:
    from zeta_core.records import ZeroShotRow


class EvalProgress(CountBar):
    """A line a set on standard error, and on a terminal a bar over its answers."""

    def __init__(self) -> None:
        super().__init__()
        self.done = 0

    def begin(self, number: int) -> None:
        """So many sets will be asked."""
        self.bar.add_task("", total=None)

    def next(self, name: str, gamma: str, answers: int) -> None:
        """A set is being asked: so many answers to score."""
        self.done = 0
        what = name if gamma == "trained" else f"{name} (gamma {gamma})"
        self.bar.update(self.bar.task_ids[0], description=what, total=answers, completed=0)

    def scored(self, number: int) -> None:
        """So many more answers are scored."""
        self.done += number
        self.bar.update(self.bar.task_ids[0], completed=self.done)

    def rows(self, rows: Sequence[ZeroShotRow]) -> None:
        """A set's scores."""
        first = rows[0]
        scores = ", ".join(f"{row.metric} {percent(row.value)}" for row in rows)
        cut = f", {first.num_cut:,} texts cut to the context" if first.num_cut else ""
        self.say(
            f"{first.questions} (gamma {first.gamma}): {scores} of {first.num_questions:,} questions, chance "
            f"{percent(first.chance)}{cut}, {first.wall_s:.0f} s"
        )


def percent(value: float | None) -> str:
    """A fraction in percent."""
    return "-" if value is None else f"{100 * value:.1f} %"


def show(rows: Sequence[ZeroShotRow]) -> None:
    """The scores beside chance, and which of them are no better than guessing."""
    table = Table(
        title=f"zero-shot, {rows[0].checkpoint}, lm-evaluation-harness {rows[0].harness}", title_justify="left"
    )
    for name in ("questions", "gamma", "asked", "metric", "score", "standard error", "chance"):
        table.add_column(name, justify="left" if name in ("questions", "gamma", "metric") else "right")
    for row in rows:
        table.add_row(
            row.questions, row.gamma, f"{row.num_questions:,}", row.metric, percent(row.value), percent(row.stderr),
            percent(row.chance),
        )  # fmt: skip
    out = console()
    out.print(table)
    from zeta_core.studies.report.zero_shot import guessed

    alike = [row for row in rows if row.metric == "acc" and guessed(row)]
    if alike:
        names = ", ".join(dict.fromkeys(row.questions for row in alike))
        out.print(f"within two standard errors of guessing (acc): {names}", soft_wrap=True)

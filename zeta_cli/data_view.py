"""How `zeta data` shows itself: progress while examples are made, tables of what was found."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .console import console, error_console, note_line
from .progress import PLAIN_SECONDS, duration

if TYPE_CHECKING:
    from zeta_core.studies.data import DataCheck, Folder
    from zeta_core.tasks.task import Split


class MakeProgress:
    """Examples that are made, on standard error: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, total: int | None, what: str) -> None:
        self.total, self.what, self.console = total, what, error_console()
        self.done: dict[str, int] = {}
        self.kept = 0
        self.began = self.shown = time.perf_counter()
        self.bar: Progress | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            text = TextColumn("{task.description} {task.completed:,.0f}")
            self.bar = Progress(text, BarColumn(), TimeElapsedColumn(), TimeRemainingColumn(), console=self.console)
            self.bar.add_task(self.what, total=self.total)
            self.bar.start()
        return self

    def __exit__(self, *given: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def report(self, split: Split, done: int, total: int | None, made: bool) -> None:
        """So many examples of a split are there; `made` says whether the last of them were made just now."""
        if not made:
            self.kept += done - self.done.get(split, 0)
        self.done[split] = done
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], description=self.what, completed=self.number)
        elif time.perf_counter() - self.shown >= PLAIN_SECONDS:
            self.shown = time.perf_counter()
            self.console.print(f"{self.what} {self.number:,}{self._left()}", soft_wrap=True)

    def reading(self, number: int) -> None:
        """So many documents of a source were read, of which examples will be made."""
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], description=f"documents read: {number:,};")
        elif time.perf_counter() - self.shown >= PLAIN_SECONDS:
            self.shown = time.perf_counter()
            self.console.print(f"documents read: {number:,}", soft_wrap=True)

    @property
    def number(self) -> int:
        """Examples that are there."""
        return sum(self.done.values())

    @property
    def made(self) -> int:
        """Examples that were not there before."""
        return self.number - self.kept

    def _left(self) -> str:
        if self.total is None or not self.made:
            return ""
        seconds = (self.total - self.number) * (time.perf_counter() - self.began) / self.made
        return f"/{self.total:,}, about {duration(seconds)} left"


def show_check(found: DataCheck) -> None:
    """Print what a folder holds, and what is odd about it."""
    from rich.table import Table

    table = Table(title=f"{found.data.folder.name}: fingerprint {found.data.manifest.fingerprint}")
    classes = ("majority", "classes") if found.data.manifest.num_classes > 1 else ()
    for name in ("split", "examples", *classes, "tokens: least, median, most", "duplicates"):
        table.add_column(name, justify="left" if name == "split" else "right", overflow="fold")
    for one in found.splits:
        tokens = sorted(one.lengths.tolist()) or [0]
        shares = (f"{one.majority:.3f}", " ".join(str(number) for number in one.classes)) if classes else ()
        table.add_row(
            one.split,
            f"{len(one.lengths):,}",
            *shares,
            f"{tokens[0]:,}, {tokens[len(tokens) // 2]:,}, {tokens[-1]:,}",
            f"{one.duplicates:,}",
        )
    out = console()
    out.print(table)
    totals = found.data.manifest.notes.get("totals")
    for split, counts in totals.items() if isinstance(totals, dict) else ():
        out.print(f"{split}: {', '.join(f'{number:,} {name}' for name, number in counts.items())}", soft_wrap=True)
    for one in found.splits:
        if len(one.counts) > 1:
            out.print(f"tokens in {one.split}:")
            for low, high, number in zip(one.edges[:-1], one.edges[1:], one.counts, strict=True):
                bar = "#" * round(40 * number / max(one.counts))
                out.print(f"  {f'{low:,}..{high - 1:,}':>15} {number:>9,} {bar}")
    for (first, second), number in found.shared.items():
        out.print(f"in {first} and in {second}: {number:,}", soft_wrap=True)
    for line in found.warnings:
        note_line(line, "warning")


def show_list(root: object, folders: list[Folder]) -> None:
    """Print what there is."""
    from rich.table import Table

    out = console()
    if not folders:
        out.print(f"no data in {root}; `zeta data make` and `zeta data import` put some there", soft_wrap=True)
        return
    table = Table(title=f"data in {root}", title_justify="left")
    for name in ("folder", "task", "train", "validation", "test", "MiB", "fingerprint"):
        number = name in ("train", "validation", "test", "MiB")
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for folder in folders:
        manifest = folder.manifest
        if manifest is None:
            table.add_row(folder.path.name, "unfinished", *[""] * 5)
            continue
        counts = {split: f"{record.examples:,}" for split, record in manifest.splits.items()}
        numbers = [counts.get(split, "") for split in ("train", "validation", "test")]
        size = f"{manifest.size / 2**20:.1f}"
        table.add_row(folder.path.name, manifest.task, *numbers, size, manifest.fingerprint)
    out.print(table)

"""Imports without the command line."""

from pathlib import Path

from zeta_core.tasks.imported import ImportedTask
from zeta_core.tasks.store import Dataset
from zeta_core.tasks.store_write import import_rows


def bring_in(task: type[ImportedTask], path: Path, *, drop_empty: bool = False, **files: str) -> Dataset:
    """A task's files, in the store."""
    reading = task.reading(path, files, drop_empty=drop_empty)
    reading.notes["source"] = reading.source
    return import_rows(reading.spec, reading.splits, notes=reading.notes)


def texts(data: Dataset, split: str, document: int = 0) -> list[bytes]:
    """Every document of a split."""
    stored = data.split(split)
    return [stored.sequence(index, document).tobytes() for index in range(len(stored))]

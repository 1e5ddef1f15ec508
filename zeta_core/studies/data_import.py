"""`zeta data import`: other people's files read, checked and written to the store, or refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from zeta_core.config import kinds
from zeta_core.errors import ConfigError, DataError
from zeta_core.layers import did_you_mean
from zeta_core.tasks import TaskConfig
from zeta_core.tasks.imported import ImportedTask
from zeta_core.tasks.store import Dataset
from zeta_core.tasks.store_write import Report, Row, import_rows
from zeta_core.tasks.task import SPLITS, Split


@dataclass(frozen=True)
class Imported:
    """What an import came to: the examples, what kind of files they came from, and what their reader noted."""

    data: Dataset
    source: str

    @property
    def notes(self) -> list[str]:
        """Each note as a line, such as what was left out."""
        found = self.data.manifest.notes.items()
        return [f"{name.replace('_', ' ')}: {_words(value)}" for name, value in found if name != "source"]


def imported_kinds() -> dict[str, type[ImportedTask]]:
    """The tasks whose examples come from the user's files; last, the names of those whose files they stand for."""
    found = {kind: member for kind, member in kinds(TaskConfig).items() if issubclass(member, ImportedTask)}
    return found | {member.stands_for: member for member in found.values() if member.stands_for}


def import_task(
    task: str,
    path: Path,
    files: Sequence[str] = (),
    *,
    drop_empty: bool = False,
    report: Report = lambda split, done, total, made: None,
) -> Imported:
    """Read a task's files and write them to the store; what was imported before is replaced once all is well.

    path: a file or folder. files: `SPLIT=NAME` texts, for files there that have other names than the usual.
    drop_empty: leave out, and count, examples with an empty document instead of refusing them.
    Raises: ConfigError for an unknown task or split; DataError naming file and line; StorageError."""
    known = imported_kinds()
    if task not in known:
        raise ConfigError(
            f"TASK {task!r} is not one of those that are imported, {', '.join(known)}{did_you_mean(task, known)}"
        )
    reading = known[task].reading(path, names_of_files(files), drop_empty=drop_empty)
    reading.notes["source"] = reading.source
    rows = {split: _some(split, reading.splits[split], path) for split in SPLITS}
    return Imported(import_rows(reading.spec, rows, notes=reading.notes, report=report), reading.source)


def names_of_files(files: Sequence[str]) -> dict[Split, str]:
    """`SPLIT=NAME` texts. Raises: ConfigError."""
    found: dict[Split, str] = {}
    for text in files:
        name, equals, file = text.partition("=")
        split = next((split for split in SPLITS if split == name), None)
        if split is None or not equals or not file:
            raise ConfigError(f"--split {text}: must be SPLIT=FILE, with SPLIT one of {', '.join(SPLITS)}")
        if split in found:
            raise ConfigError(f"--split {split}: given twice; keep one")
        found[split] = file
    return found


def _some(split: Split, rows: Iterable[Row], path: Path) -> Iterator[Row]:
    """The rows. Raises: DataError at their end if there were none."""
    number = 0
    for number, row in enumerate(rows, 1):  # noqa: B007 (how many there were)
        yield row
    if not number:
        raise DataError(f"{path}: has no examples for the {split} split, which needs one at least")


def _words(value: object) -> str:
    return ", ".join(f"{name} {one}" for name, one in value.items()) if isinstance(value, dict) else str(value)

"""Long Range Arena's pairs of papers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from zeta_core.errors import DataError

from .imported import is_empty, tokens_of
from .lines import table_rows
from .store_write import Row
from .task import Split

FILES: dict[Split, str] = {
    "train": "new_aan_pairs.train.tsv",
    "validation": "new_aan_pairs.eval.tsv",
    "test": "new_aan_pairs.test.tsv",
}
COLUMNS = ("label", "id1", "id2", "text1", "text2")
LABELS = {"0": 0, "0.0": 0, "1": 1, "1.0": 1}


def read_aan(
    path: Path,
    files: Mapping[Split, str],
    wants: str,
    notes: dict[str, object],
    *,
    max_bytes: int,
    drop_empty: bool,
) -> dict[Split, Iterator[Row]]:
    """The three files, a pair a line: label, id1, id2, text1, text2 between tabs, without a header. A text is taken
    as it stands there, as the original code does, and cut to max_bytes.

    files: other names. notes: gets the number of empty documents left out. Raises: DataError naming the file that is
    missing; while rows are read, naming the line with other columns, another label or an empty text, or the byte that
    is not UTF-8."""
    names = {**FILES, **files}
    there = {split: path / name for split, name in names.items()}
    if not any(file.is_file() for file in there.values()):
        raise DataError(f"{path}: does not have {wants}")
    for split, file in there.items():
        if not file.is_file():
            raise DataError(f"{file}: there is no such file, so no {split} split; --split {split}=NAME names another")
    return {split: _rows(file, notes, max_bytes=max_bytes, drop_empty=drop_empty) for split, file in there.items()}


def _rows(file: Path, notes: dict[str, object], *, max_bytes: int, drop_empty: bool) -> Iterator[Row]:
    for number, (label, _, _, *texts) in table_rows(file, COLUMNS):
        place = f"{file}:{number}"
        if label not in LABELS:
            raise DataError(f"{place}: label={label!r} is none of the classes 0, 1")
        contents = [text.encode() for text in texts]
        if not is_empty(contents, place, notes, drop_empty=drop_empty):
            yield tuple(tokens_of(content[:max_bytes]) for content in contents), LABELS[label]

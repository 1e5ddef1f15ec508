"""ListOps from Long Range Arena's own files, in the tokens of the generated task.

    Source                                    Target
    ( ( ( [MAX 4 ) ( ( [MIN 2 ) 7 ) ] ) ]     4

Parentheses mean nothing and are left out, as in the original code. The files are the user's own: `zeta data import
listops PATH`, where PATH holds basic_train.tsv, basic_val.tsv and basic_test.tsv."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import PositiveInt

from zeta_core.errors import DataError

from .imported import ImportedTask, Reading
from .lines import table_rows
from .listops import ListOpsConfig
from .listops_trees import CLOSE, MAX, MED, MIN, OPENING, PADDING, SUM
from .store import Spec
from .store_write import Row
from .task import Split

FILES: dict[Split, str] = {"train": "basic_train.tsv", "validation": "basic_val.tsv", "test": "basic_test.tsv"}
COLUMNS = ("Source", "Target")
TOKENS = {str(digit): digit for digit in range(10)} | {
    "[MIN": OPENING + MIN,
    "[MAX": OPENING + MAX,
    "[MED": OPENING + MED,
    "[SM": OPENING + SUM,
    "]": CLOSE,
}
OPERATORS = range(OPENING, CLOSE)
PAPER = ListOpsConfig.presets["paper"]


class ListOpsFilesConfig(ImportedTask):
    """ListOps from Long Range Arena's own files: the value, 0 to 9, of a nested expression."""

    kind: Literal["listops_lra"] = "listops_lra"
    seq_len: PositiveInt = 2000
    """Tokens of an expression that are read."""
    wants: ClassVar[str] = f"Long Range Arena's ListOps (a folder with {', '.join(FILES.values())})"
    padding: ClassVar[int] = PADDING
    vocab_size: ClassVar[int] = 16
    stands_for: ClassVar[str] = "listops"
    about: ClassVar[Mapping[str, str]] = {"small": "a small model for 400 steps on 2,000 of the expressions"}
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "small": {
            "task": {"num_train": 2000, "num_validation": 200, "num_test": 500},
            "attention": {"kind": "zeta", "top_k": 16},
            "model": {"d_model": 64, "num_layers": 2, "num_heads": 4, "form": "encoder", "pooling": "mean"},
            "training": {
                "steps": 400,
                "batch_size": 8,
                "learning_rate": 1e-3,
                "warmup_steps": 50,
                "eval_every": 100,
            },
        },
        "paper": {part: PAPER[part] for part in ("attention", "model", "training")},
    }

    @property
    def longest(self) -> int:
        """Tokens of the longest expression that is read."""
        return self.seq_len

    def specs(self) -> Sequence[Spec]:
        """The one folder of imported expressions."""
        return (SPEC,)

    @classmethod
    def reading(cls, path: Path, files: Mapping[Split, str], *, drop_empty: bool = False) -> Reading:
        """The three files; see ImportedTask. An expression is never empty."""
        there = {split: path / name for split, name in {**FILES, **files}.items()}
        if not any(file.is_file() for file in there.values()):
            raise DataError(f"{path}: does not have {cls.wants}")
        for split, file in there.items():
            if not file.is_file():
                raise DataError(
                    f"{file}: there is no such file, so no {split} split; --split {split}=NAME names another"
                )
        return Reading(SPEC, {split: _rows(file) for split, file in there.items()}, "Long Range Arena's ListOps")


SPEC = Spec(
    task="listops_lra",
    label="imported",
    parameters={"tokens": "as of the generated task"},
    vocab_size=15,
    num_classes=10,
    again="zeta data import listops PATH",
)


def _rows(file: Path) -> Iterator[Row]:
    for number, (source, target) in table_rows(file, COLUMNS, has_header=True):
        if target not in TOKENS or not target.isdigit():
            raise DataError(f"{file}:{number}: Target={target!r} is none of the classes 0..9")
        yield (_tokens(source, f"{file}:{number}"),), int(target)


def _tokens(source: str, place: str) -> np.ndarray:
    """An expression's tokens: uint8. Raises: DataError if it is none."""
    found: list[int] = []
    depth = 0
    for word in source.replace("(", " ").replace(")", " ").split():
        if word not in TOKENS:
            raise DataError(f"{place}: {word!r} is no part of an expression, which has {' '.join(TOKENS)}")
        if found and depth == 0:
            raise DataError(f"{place}: goes on with {word!r} behind the end of the expression")
        token = TOKENS[word]
        if token == CLOSE and (not found or found[-1] in OPERATORS):
            raise DataError(f"{place}: closes an operator without arguments; each has one at least")
        depth += (token in OPERATORS) - (token == CLOSE)
        found.append(token)
    if not found or depth:
        what = f"has {depth} operators that are not closed" if depth else "holds no expression"
        raise DataError(f"{place}: {what}; a whole one looks like [MAX 4 [MIN 2 7 ] ]")
    return np.array(found, dtype=np.uint8)

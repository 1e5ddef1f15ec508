"""Text: is a film review positive? IMDB by the byte (Maas et al. 2011; Long Range Arena).

    tokens   T h i s   f i l m ...      bytes 0..255, cut to seq_len; 256 pads
    label    1 (positive) or 0

The reviews are the user's own: `zeta data import text PATH`, where PATH is the official folder tree, a folder of JSON
lines, or datasets:NAME. A tenth of train is held out for validation by its contents' sha256 (the original code
validates on the test set)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import PositiveInt

from .imported import Document, ImportedTask, Reading, rows_of, with_validation
from .store import Spec
from .task import Split
from .text_files import read_datasets, read_folder, read_lines

PACKAGE = "datasets:"
"""Before the name of a data set that the `datasets` package is asked for."""


class TextConfig(ImportedTask):
    """Text (Long Range Arena): whether a film review is positive, from its bytes; IMDB's files are imported."""

    kind: Literal["text"] = "text"
    seq_len: PositiveInt = 4096
    """Bytes of a review that are read; 1,000 in the original code, 4,096 in later suites."""
    wants: ClassVar[str] = (
        "IMDB's reviews (a folder with train/pos/*.txt, train/neg/, test/pos/, test/neg/, or with train.jsonl and "
        "test.jsonl)"
    )
    about: ClassVar[Mapping[str, str]] = {"small": "256 bytes of 4,000 reviews, where the suite reads 4,096 of all"}
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "small": {
            "task": {"seq_len": 256, "num_train": 4000, "num_validation": 500, "num_test": 1000},
            "attention": {"kind": "zeta", "top_k": 16},
            "model": {"d_model": 64, "num_layers": 2, "num_heads": 2, "form": "encoder", "pooling": "mean"},
            "training": {
                "steps": 800,
                "batch_size": 32,
                "learning_rate": 1e-3,
                "warmup_steps": 50,
                "eval_every": 100,
            },
        },
        "original": {
            "task": {"seq_len": 1000},
            "attention": {"kind": "zeta", "top_k": 32},
            "model": {
                "d_model": 256,
                "num_layers": 4,
                "num_heads": 4,
                "d_mlp": 1024,
                "form": "encoder",
                "pooling": "cls",
            },
            "training": {
                "steps": 20_000,
                "batch_size": 32,
                "learning_rate": 5e-4,
                "warmup_steps": 1000,
                "eval_every": 500,
            },
        },
        "paper": {
            "task": {"seq_len": 4096},
            "attention": {"kind": "zeta", "top_k": 32},
            "model": {
                "d_model": 256,
                "num_layers": 4,
                "num_heads": 8,
                "d_mlp": 1024,
                "form": "encoder",
                "pooling": "cls",
            },
            "training": {
                "steps": 20_000,
                "batch_size": 32,
                "learning_rate": 5e-4,
                "warmup_steps": 1000,
                "eval_every": 500,
            },
        },
    }

    @property
    def longest(self) -> int:
        """Bytes of the longest review that is read."""
        return self.seq_len

    def specs(self) -> Sequence[Spec]:
        """The one folder of imported reviews."""
        return (SPEC,)

    @classmethod
    def reading(cls, path: Path, files: Mapping[Split, str], *, drop_empty: bool = False) -> Reading:
        """Reviews in one of three forms; see ImportedTask."""
        given = str(path)
        notes: dict[str, object] = {}
        found: Mapping[Split, list[Document]]
        if given.startswith(PACKAGE):
            source, found = given, read_datasets(given.removeprefix(PACKAGE))
        elif (path / "train").is_dir() and not files:
            source, found = "imdb", read_folder(path, notes)
        else:
            source, found = "JSON lines", read_lines(path, files, cls.wants)
        whole = with_validation(found)
        splits = {split: rows_of(rows, notes, drop_empty=drop_empty) for split, rows in whole.items()}
        return Reading(SPEC, splits, source, notes)


SPEC = Spec(
    task="text",
    label="imported",
    parameters={"validation": "as given, or a tenth of train by sha256"},
    vocab_size=256,
    num_classes=2,
    again="zeta data import text PATH",
)

"""Pathfinder from Long Range Arena's own folder: its pictures, and its split into 80, 10 and 10 %.

    metadata/0.npy      a text in spite of its name; a line a picture: imgs/0 sample_0.png 0 1 ...
    imgs/0/sample_0.png

The fourth word of a line is the class. The files are the user's own: `zeta data import pathfinder PATH`, where PATH
is the folder curv_contour_length_14, or the one above it (pathfinder32). There is no official list of splits:
pictures are put in the order of the sha256 of their names."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from zeta_core.errors import DataError, OptionError

from .imported import DROPPED, ImportedTask, Reading
from .lines import read_bytes, text_lines
from .pathfinder import PathfinderConfig
from .store import Spec
from .store_write import Row
from .task import SPLITS, Split

WIDTH = 32
"""Pixels of a side."""
HARD = "curv_contour_length_14"
SHARES = (0.8, 0.1, 0.1)
PAPER = PathfinderConfig.presets["paper"]


class PathfinderFilesConfig(ImportedTask):
    """Pathfinder from Long Range Arena's own pictures: whether two discs end one dashed snake."""

    kind: Literal["pathfinder_lra"] = "pathfinder_lra"
    wants: ClassVar[str] = f"Long Range Arena's Pathfinder (the folder {HARD} with metadata/*.npy and imgs/)"
    vocab_size: ClassVar[int] = 256
    stands_for: ClassVar[str] = "pathfinder"
    about: ClassVar[Mapping[str, str]] = {
        "small": "a small model for 300 steps on 5,000 of the pictures, to show that all parts run"
    }
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "small": {
            "task": {"num_train": 5000, "num_validation": 500, "num_test": 1000},
            "attention": {"kind": "zeta", "top_k": 16},
            "model": {"d_model": 32, "num_layers": 2, "num_heads": 4, "form": "encoder", "pooling": "mean"},
            "training": {
                "steps": 300,
                "batch_size": 16,
                "learning_rate": 1e-3,
                "warmup_steps": 50,
                "eval_every": 100,
            },
        },
        "paper": {part: PAPER[part] for part in ("attention", "model", "training")},
    }

    @property
    def longest(self) -> int:
        """Pixels of a picture."""
        return WIDTH * WIDTH

    def specs(self) -> Sequence[Spec]:
        """The one folder of imported pictures."""
        return (SPEC,)

    @classmethod
    def reading(cls, path: Path, files: Mapping[Split, str], *, drop_empty: bool = False) -> Reading:
        """The folder; see ImportedTask. drop_empty: leave out pictures whose file is empty."""
        if files:
            raise OptionError("pathfinder: --split names files of other tasks; its pictures are split here")
        folder = path / HARD if (path / HARD).is_dir() else path
        pictures = _listed(folder, cls.wants)
        pictures.sort(key=lambda picture: hashlib.sha256(picture[0].encode()).digest())
        ends = [0, *(round(end * len(pictures)) for end in np.cumsum(SHARES))]
        notes: dict[str, object] = {}
        splits = {
            split: _rows(folder, pictures[start:stop], notes, drop_empty=drop_empty)
            for split, start, stop in zip(SPLITS, ends[:-1], ends[1:], strict=True)
        }
        return Reading(SPEC, splits, f"Long Range Arena's {folder.name}", notes)


SPEC = Spec(
    task="pathfinder_lra",
    label="imported",
    parameters={"size": WIDTH, "split": "80, 10 and 10 % by the sha256 of their names"},
    vocab_size=256,
    num_classes=2,
    again="zeta data import pathfinder PATH",
)


def _listed(folder: Path, wants: str) -> list[tuple[str, int]]:
    """The names (imgs/0/sample_0.png) and classes of all pictures. Raises: DataError."""
    found = []
    files = sorted((folder / "metadata").glob("*.npy"))
    if not files:
        raise DataError(f"{folder}: does not have {wants}")
    for file in files:
        for number, line in text_lines(file):
            words = line.split()
            if len(words) < 4:
                raise DataError(
                    f"{file}:{number}: has {len(words)} words instead of folder, file, number, class, ..."
                )
            if words[3] not in ("0", "1"):
                raise DataError(f"{file}:{number}: class {words[3]!r} is none of the classes 0, 1")
            found.append((f"{words[0]}/{words[1]}", int(words[3])))
    return found


def _rows(
    folder: Path, pictures: Sequence[tuple[str, int]], notes: dict[str, object], *, drop_empty: bool
) -> Iterator[Row]:
    for name, label in pictures:
        content = read_bytes(folder / name)
        if content:
            yield (_pixels(content, folder / name),), label
        elif drop_empty:
            dropped = notes.get(DROPPED, 0)
            assert isinstance(dropped, int)
            notes[DROPPED] = dropped + 1
        else:
            raise DataError(f"{folder / name}: is an empty file; --drop-empty leaves such pictures out")


def _pixels(content: bytes, path: Path) -> np.ndarray:
    """[1024] uint8. Raises: DataError if it is no gray picture of that size."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise DataError("pictures need the pillow package, which matplotlib installs; pip install pillow") from None
    try:
        with Image.open(io.BytesIO(content)) as picture:
            size, mode, pixels = picture.size, picture.mode, np.asarray(picture)
    except UnidentifiedImageError:
        raise DataError(f"{path}: is not a picture in a form that is known") from None
    except (OSError, ValueError, SyntaxError) as error:
        raise DataError(f"{path}: cannot be read as a picture ({error}); unpack the archive again") from None
    if size != (WIDTH, WIDTH) or mode != "L":
        raise DataError(f"{path}: is {size[0]} x {size[1]} in mode {mode}; it must be {WIDTH} x {WIDTH} in gray (L)")
    return pixels.reshape(-1)

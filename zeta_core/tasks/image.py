"""Image: what is on a small picture? CIFAR-10 in gray, pixel by pixel (Krizhevsky 2009; Long Range Arena).

    tokens   59 43 50 68 ...     1,024 gray values 0..255, row by row
    label    0..9

The pictures are the user's own: `zeta data import image PATH`, where PATH is the folder of the official python
batches, or an npz file. A tenth of train is held out for validation by the pictures' sha256, which leaves 45,000,
5,000 and 10,000. Long Range Arena's pooling is not in our notes: CLS here, as its other tasks have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from zeta_core.errors import OptionError

from .image_files import WIDTH, gray_rows, read_batches, read_npz
from .imported import ImportedTask, Reading
from .store import Spec
from .task import Split

PIXELS = WIDTH * WIDTH


class ImageConfig(ImportedTask):
    """Image (Long Range Arena): what a gray 32 x 32 picture shows, pixel by pixel; CIFAR-10's files are imported."""

    kind: Literal["image"] = "image"
    wants: ClassVar[str] = (
        "CIFAR-10 (the folder with data_batch_1 to data_batch_5 and test_batch, or an npz file with train_x, "
        "train_y, test_x and test_y)"
    )
    vocab_size: ClassVar[int] = 256
    """Gray values; no picture is padded."""
    about: ClassVar[Mapping[str, str]] = {"small": "a small model for 500 steps on 5,000 of the pictures"}
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "small": {
            "task": {"num_train": 5000, "num_validation": 500, "num_test": 1000},
            "attention": {"kind": "zeta", "top_k": 16},
            "model": {"d_model": 64, "num_layers": 1, "num_heads": 4, "form": "encoder", "pooling": "mean"},
            "training": {
                "steps": 500,
                "batch_size": 16,
                "learning_rate": 2e-3,
                "warmup_steps": 50,
                "eval_every": 100,
            },
        },
        "original": {
            "attention": {"kind": "zeta", "top_k": 32},
            "model": {
                "d_model": 128,
                "num_layers": 1,
                "num_heads": 8,
                "d_mlp": 128,
                "form": "encoder",
                "pooling": "cls",
                "dropout": 0.3,
            },
            "training": {
                "steps": 35_000,
                "batch_size": 256,
                "learning_rate": 5e-4,
                "warmup_steps": 175,
                "eval_every": 350,
            },
        },
        "paper": {
            "attention": {"kind": "zeta", "top_k": 32},
            "model": {
                "d_model": 256,
                "num_layers": 1,
                "num_heads": 8,
                "d_mlp": 256,
                "form": "encoder",
                "pooling": "cls",
                "dropout": 0.3,
            },
            "training": {
                "steps": 35_000,
                "batch_size": 256,
                "learning_rate": 5e-4,
                "warmup_steps": 175,
                "eval_every": 350,
            },
        },
    }

    @property
    def longest(self) -> int:
        """Pixels of a picture."""
        return PIXELS

    def specs(self) -> Sequence[Spec]:
        """The one folder of imported pictures."""
        return (SPEC,)

    @classmethod
    def reading(cls, path: Path, files: Mapping[Split, str], *, drop_empty: bool = False) -> Reading:
        """Pictures in one of two forms; see ImportedTask."""
        if files:
            raise OptionError("image: --split names files of other tasks; CIFAR-10's have names of their own")
        found = read_npz(path) if path.is_file() else read_batches(path, cls.wants)
        return Reading(SPEC, gray_rows(found), "cifar10 in gray")


SPEC = Spec(
    task="image",
    label="imported",
    parameters={"gray": "0.2989 R + 0.5870 G + 0.1140 B", "validation": "a tenth of train by sha256"},
    vocab_size=256,
    num_classes=10,
    again="zeta data import image PATH",
)

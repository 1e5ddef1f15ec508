"""Tiny `zeta train` runs: in this process, in one that can be killed, or shared by several."""

import csv
import resource
import time
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
from processes import begin, ranks
from safetensors.torch import load_file
from torch import Tensor

TINY = [
    "train", "mqar", "--seq", "16", "--steps", "8", "--batch-size", "8", "--k", "4", "--chunks", "4",
    "--wandb", "off", "--device", "cpu", "--set", "task.num_pairs=2", "--set", "task.vocab_size=32", 
    "--set", "task.num_train=40",
    "--set", "task.num_validation=16", "--set", "task.num_test=24", "--set", "model.d_model=16",
    "--set", "model.num_layers=1", "--set", "model.dropout=0.1", "--set", "training.eval_every=2",
]  # fmt: skip
VARYING = {"wall_s", "peak_mib", "commit", "tokens_per_s"}
"""Columns of time and memory, and of the checkout, in which someone may be at work."""


def tiny(out: Path, *more: str) -> list[str]:
    """The command line of a run of a fraction of a second; a later flag wins over an earlier one."""
    return [*TINY, "--out", str(out), *more]


def zeta(argv: Sequence[str]) -> int:
    """One command line in this process."""
    from zeta_cli.app import main

    torch.set_num_threads(1)
    return main(list(argv))


def _sitting(argv: list[str], delay: float, largest_file: int | None) -> int:
    if delay:
        slow_down(delay)
    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    return zeta(argv)


def together(argv: Sequence[str], words: Path) -> list[int | None]:
    """The exit codes of two processes that share a command line."""
    return ranks(zeta, list(argv), words=words)


def slow_down(delay: float) -> None:
    """Every step takes so many seconds more."""
    from zeta_core.training import loop

    at = loop.BatchOrder.at

    def slowly(self, step):  # type: ignore[no-untyped-def]
        time.sleep(delay)
        return at(self, step)

    loop.BatchOrder.at = slowly  # type: ignore[method-assign]


def sit(argv: Sequence[str], words: Path, *, delay: float = 0.0, largest_file: int | None = None) -> BaseProcess:
    """Start a command line in a process of its own, which writes what it says to the file `words`.

    delay: seconds more a step. largest_file: bytes after which a write fails, as on a full disk."""
    return begin(_sitting, list(argv), delay, largest_file, words=words, environment={})


def folder_of(out: Path) -> Path:
    """The folder of the only run there."""
    (folder,) = (out / "runs").iterdir()
    return folder


def rows_of(out: Path) -> list[dict[str, str]]:
    """The rows of results/train.csv without what may differ between two equal runs."""
    with (out / "results" / "train.csv").open() as file:
        return [{k: v for k, v in row.items() if k not in VARYING} for row in csv.DictReader(file)]


def metrics_of(out: Path) -> list[dict[str, str]]:
    """The rows of metrics.csv without the times."""
    with (folder_of(out) / "metrics.csv").open() as file:
        return [
            {k: v for k, v in row.items() if k not in ("seconds", "tokens_per_second")}
            for row in csv.DictReader(file)
        ]


def weights_of(out: Path) -> list[dict[str, Tensor]]:
    """The best weights and those of the last checkpoint."""
    last = sorted((folder_of(out) / "checkpoints").iterdir())[-1]
    return [load_file(path / "model.safetensors") for path in (folder_of(out) / "best", last)]


def agree(out: Path, other: Path) -> None:
    """Two runs left the same: weights in every bit, the best as a file too, rows, metrics, each step of them once."""
    for ours, theirs in zip(weights_of(out), weights_of(other), strict=True):
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    files = [folder_of(place) / "best" / "model.safetensors" for place in (out, other)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert rows_of(out) == rows_of(other)
    steps = [row["step"] for row in metrics_of(out)]
    assert len(set(steps)) == len(steps)
    assert metrics_of(out) == metrics_of(other)

"""Tiny sweeps: in this process, or in one that can be killed."""

import csv
from pathlib import Path

LONG = 100_000
"""Steps of a run that nobody waits for."""


def sweep(out: Path, axis: str, values: str, *more: str) -> list[str]:
    """The command line of a sweep whose runs take a fraction of a second each."""
    settings = [
        "--set", "task.seq_len=16", "--set", "attention.top_k=4", "--set", "attention.num_chunks=4",
        "--set", "training.batch_size=8", "--set", "task.num_pairs=2", "--set", "task.vocab_size=32",
        "--set", "task.num_train=40", "--set", "task.num_validation=16", "--set", "task.num_test=24",
        "--set", "model.d_model=16", "--set", "model.num_layers=1", "--set", "training.eval_every=2",
    ]  # fmt: skip
    steps = [] if axis == "training.steps" else ["--steps", "4"]
    command = ["ablate", axis, "--task", "mqar", "--values", values, "--device", "cpu", "--wandb", "off"]
    return [*command, *steps, *settings, "--seeds", "0", "--out", str(out), *more]


def rows_of(out: Path) -> list[dict[str, str]]:
    """The rows of ablate.csv."""
    with (out / "results" / "ablate.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def statuses(out: Path) -> dict[str, str]:
    """The status of each value's run, from the rows over all examples."""
    found = [(row["axis_value"], row["status"]) for row in rows_of(out) if row["slice"] == "all"]
    assert len(dict(found)) == len(found), "a run has two rows"
    return dict(found)

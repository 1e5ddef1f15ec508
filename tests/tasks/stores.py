"""A tiny producer of examples, importable by worker processes."""

import os
import signal
import time

import numpy as np

from zeta_core.tasks.store import Examples, Spec, pack
from zeta_core.tasks.store_write import make

COUNTS = {"train": 23, "validation": 5, "test": 8}


def sequence(split: str, index: int, document: int = 0) -> np.ndarray:
    """An example's tokens: as many as the index says, which name the split and the document."""
    return np.arange(index % 7 + 1, dtype=np.int64) + 10 * len(split) + 100 * document


def produce(split: str, start: int, stop: int) -> Examples:
    """Examples start..stop-1."""
    indices = range(start, stop)
    return Examples(np.array([index % 3 for index in indices]), (pack([sequence(split, i) for i in indices]),))


def produce_two(split: str, start: int, stop: int) -> Examples:
    """The same with two documents."""
    labels, (first,) = produce(split, start, stop)
    return Examples(labels, (first, pack([sequence(split, i, 1) for i in range(start, stop)])))


def interrupted(split: str, start: int, stop: int) -> Examples:
    """Ctrl-C at the third shard of train."""
    if start >= 8:
        raise KeyboardInterrupt
    return produce(split, start, stop)


def spec(**options: object) -> Spec:
    """Of 4 examples a shard."""
    values = {
        "task": "toy", "label": "small", "parameters": {"a": 1, "train": 23}, "vocab_size": 300, "num_classes": 3,
        "again": "zeta data make toy", "shard_size": 4,
    }  # fmt: skip
    return Spec(**{**values, **options})


def content(folder: os.PathLike[str]) -> dict[str, bytes]:
    """Every file in a folder."""
    return {
        os.path.relpath(os.path.join(place, name), folder): open(os.path.join(place, name), "rb").read()
        for place, _, names in os.walk(folder)
        for name in names
    }


def killed(split: str, start: int, stop: int) -> Examples:
    """The process dies at the third shard of train."""
    if start >= 8:
        os.kill(os.getpid(), signal.SIGKILL)
    return produce(split, start, stop)


def slowly(split: str, start: int, stop: int) -> Examples:
    """Says which process it is in, and takes its time."""
    print(os.getpid(), flush=True)
    time.sleep(0.3)
    return produce(split, start, stop)


if __name__ == "__main__":
    make(spec(), slowly, {"train": 8, "validation": 1, "test": 1}, workers=2)

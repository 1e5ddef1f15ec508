"""`zeta data`: examples made before they are trained on, and what they are checked for."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from zeta_core.config import kinds
from zeta_core.errors import ConfigError, DataError, DataMissing
from zeta_core.layers import build, defaults_layer, did_you_mean, flags_layer, merge, settings_layer
from zeta_core.tasks import TaskConfig, TaskConfigBase
from zeta_core.tasks.corpus import read_beside
from zeta_core.tasks.made import COUNTS, MadeConfig
from zeta_core.tasks.store import MANIFEST, Dataset, Manifest, data_root, open_folder, shard_folder
from zeta_core.tasks.task import SPLITS, Split

BARS = 10
"""Bars of a histogram of lengths."""


def generated_kinds() -> list[str]:
    """The tasks whose examples are made here and kept on disk."""
    return [kind for kind, config in kinds(TaskConfig).items() if issubclass(config, MadeConfig)]


def task_config(
    kind: str, *, preset: str | None = None, settings: Sequence[str] = (), examples: Sequence[str] = ()
) -> TaskConfigBase:
    """A task's parameters: `--examples SPLIT=N` over `--set FIELD=VALUE` over the preset.

    Raises: ConfigError with a line for everything that is wrong."""
    known = kinds(TaskConfig)
    if kind not in known:
        raise ConfigError(f"TASK {kind!r} is not one of {', '.join(known)}{did_you_mean(kind, known)}")
    config_type = known[kind]
    assert issubclass(config_type, TaskConfigBase)
    values = config_type.preset(kind, preset)["task"]
    below = defaults_layer(values) if preset is None else defaults_layer(values, f"--preset {preset}")
    return build(config_type, merge([below, settings_layer(settings), flags_layer(_counts(examples))]))


def _counts(examples: Sequence[str]) -> dict[str, tuple[str, object]]:
    """`SPLIT=N` texts as flags with the field each sets."""
    found: dict[str, tuple[str, object]] = {}
    for text in examples:
        split, _, number = text.partition("=")
        if split not in COUNTS or not number.isascii() or not number.isdigit() or not int(number):
            raise ConfigError(
                f"--examples {text}: must be SPLIT=N with a split of {', '.join(COUNTS)} and a whole number N above "
                "0, such as train=1000"
            )
        if f"--examples {split}" in found:
            raise ConfigError(f"--examples {split}: given twice; keep one")
        found[f"--examples {split}"] = (COUNTS[split], int(number))
    return found


def generated_config(
    kind: str, *, preset: str | None = None, settings: Sequence[str] = (), examples: Sequence[str] = ()
) -> MadeConfig:
    """The same for a task whose examples are made here. Raises: ConfigError for any other, too."""
    made = generated_kinds()
    known = kinds(TaskConfig)
    if kind in known and kind not in made:
        wants = getattr(known[kind], "wants", None)
        instead = f"import {wants} with: zeta data import {kind} PATH" if wants else "its own are drawn in training"
        raise ConfigError(
            f"TASK {kind!r}: its examples are not made by this command, as those of {', '.join(made)} are; {instead}"
        )
    config = task_config(kind, preset=preset, settings=settings, examples=examples)
    assert isinstance(config, MadeConfig)
    return config


def say_on_stderr(text: str) -> None:
    """A line for whoever is there to read it."""
    print(text, file=sys.stderr, flush=True)


def make_if_small(task: TaskConfigBase, say: Callable[[str], None] = say_on_stderr) -> None:
    """Make a task's examples if they are not there and that takes no long time.

    say: gets a line before that. Raises: DataMissing with the command that makes them, if it takes long."""
    if not isinstance(task, MadeConfig):
        return
    try:
        task.dataset()
    except DataMissing:
        seconds = task.seconds
        if not task.is_small:
            how_long = "a while" if seconds is None else f"about {max(1, round(seconds / 60))} minutes on one core"
            raise DataMissing(
                f"{task.kind}: the {task.amount} are not made yet, which takes {how_long}; make them with: "
                f"{task.command}"
            ) from None
        assert seconds is not None
        say(f"{task.kind}: making {task.amount} in {task.folder}, about {max(1, round(seconds))} s")
        task.make()


@dataclass(frozen=True)
class SplitCheck:
    """What a split holds.

    classes: examples of each. lengths: [n] tokens, of both documents together. edges, counts: a histogram of them.
    duplicates: examples that another one of the split is the same as, beyond the first."""

    split: Split
    classes: list[int]
    lengths: np.ndarray
    edges: np.ndarray
    counts: np.ndarray
    duplicates: int

    @property
    def majority(self) -> float:
        """The share of the commonest class."""
        return max(self.classes) / max(1, sum(self.classes))


@dataclass(frozen=True)
class DataCheck:
    """What a folder of examples holds. shared: for pairs of splits, how many of the second's are in the first."""

    data: Dataset
    splits: list[SplitCheck]
    shared: dict[tuple[Split, Split], int]

    @property
    def warnings(self) -> list[str]:
        """What is odd, a line each."""
        found = [
            f"{first} and {second} share {number:,} examples (of {len(self._of(second).lengths):,} in {second})"
            for (first, second), number in self.shared.items()
            if number
        ]
        return found + [f"{one.split} has no examples" for one in self.splits if not len(one.lengths)]

    def _of(self, split: Split) -> SplitCheck:
        return next(one for one in self.splits if one.split == split)


def find_data(kind: str, path: Path | None, config: TaskConfigBase) -> Dataset:
    """The examples at a path, of any parameters; without one, those of `config`. Raises: ConfigError, DataError."""
    if path is not None:
        if not path.is_dir():
            raise ConfigError(f"PATH {path}: there is no such folder")
        return open_folder(path, getattr(config, "command", f"zeta data import {kind} PATH"), task=kind)
    found = getattr(config, "dataset", None)
    if found is None:
        raise ConfigError(f"TASK {kind!r}: draws its examples when it trains; there are no files to check")
    data: Dataset = found()
    return data


def check_data(data: Dataset, progress: Callable[[int, int], None] = lambda done, total: None) -> DataCheck:
    """Read everything once. progress: is told how many examples of how many were read.

    Raises: DataError if a file is not what its manifest says."""
    manifest = data.manifest
    _check_sums(data)
    total, done = sum(record.examples for record in manifest.splits.values()), 0
    seen: dict[Split, Counter[bytes]] = {}
    checks = []
    for split in (split for split in SPLITS if split in manifest.splits):
        stored = data.split(split)
        digests: Counter[bytes] = Counter()
        for index in range(len(stored)):
            digest = hashlib.blake2b(digest_size=16)
            for document in range(manifest.num_documents):
                tokens = stored.sequence(index, document)
                digest.update(len(tokens).to_bytes(8, "little") + tokens.tobytes())
            digests[digest.digest()] += 1
            done += 1
            if done % 1000 == 0 or done == total:
                progress(done, total)
        lengths = sum((stored.lengths(document) for document in range(manifest.num_documents)), np.zeros(1, np.int64))
        counts, edges = _histogram(lengths if len(stored) else lengths[:0])
        seen[split] = digests
        checks.append(
            SplitCheck(split, stored.classes, lengths[: len(stored)], edges, counts, len(stored) - len(digests))
        )
    shared = {
        (first, second): sum(number for digest, number in seen[second].items() if digest in seen[first])
        for first, second in combinations(seen, 2)
    }
    return DataCheck(data, checks, shared)


def _histogram(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counts, and the edges of the bars: whole numbers, the last one beyond the longest."""
    if not len(lengths):
        return np.zeros(0, np.int64), np.zeros(1, np.int64)
    low, high = int(lengths.min()), int(lengths.max()) + 1
    step = max(1, -(-(high - low) // BARS))
    edges = np.arange(low, high + step, step)
    return np.histogram(lengths, edges)[0], edges


def _check_sums(data: Dataset) -> None:
    beside = data.manifest.notes.get("files")
    for name in beside if isinstance(beside, dict) else ():
        read_beside(data, name)
    for split, record in data.manifest.splits.items():
        for number, shard in enumerate(record.shards):
            for name, (_, wanted) in shard.files.items():
                path = shard_folder(data.folder, split, number) / name
                if hashlib.sha256(path.read_bytes()).hexdigest() != wanted:
                    raise DataError(
                        f"{path}: is not what {MANIFEST} says of it (sha256); delete the folder {data.folder} and "
                        "make or import it again"
                    )


@dataclass(frozen=True)
class Folder:
    """A folder of data. manifest: None if it is not finished, or of another version."""

    path: Path
    manifest: Manifest | None


def list_data() -> list[Folder]:
    """What lies where data live."""
    root, found = data_root(), []
    for path in sorted(root.glob("*")) if root.is_dir() else []:
        if path.is_dir() and not path.name.startswith("."):
            try:
                found.append(Folder(path, Manifest.read(path, "")))
            except DataError:
                found.append(Folder(path, None))
    return found

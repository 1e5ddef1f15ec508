"""Tasks whose examples are made once and kept on disk: what the commands ask of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from .store import Dataset
from .store_write import Report
from .task import TaskConfigBase

COUNTS = {"train": "num_train", "validation": "num_validation", "test": "num_test"}
"""Each split's field, where a task has such fields."""
SMALL_SECONDS = 60.0
"""What takes at most about so long on one core is made without being asked for."""


class MadeConfig(TaskConfigBase):
    """A task whose examples `zeta data make` makes."""

    kind: str

    @property
    def total(self) -> int | None:
        """How many examples there will be, over all splits; None if that is not known before."""
        raise NotImplementedError

    @property
    def amount(self) -> str:
        """What is made, in words."""
        raise NotImplementedError

    @property
    def folder(self) -> Path:
        """Where the examples lie, made or not."""
        raise NotImplementedError

    @property
    def seconds(self) -> float | None:
        """About how long all examples take on one core; None if nobody knows."""
        raise NotImplementedError

    @property
    def is_small(self) -> bool:
        """Whether training may make the examples without being asked for."""
        return self.seconds is not None and self.seconds <= SMALL_SECONDS

    @property
    def command(self) -> str:
        """The command that makes these examples."""
        words, rest = min((self._from_preset(name) for name in self.presets), key=lambda found: len(found[1]))
        return " ".join(["zeta data make", self.kind, *words, *rest])

    def _from_preset(self, name: str) -> tuple[list[str], list[str]]:
        """The words that choose a preset, and those that set what differs from it."""
        base = type(self).model_validate(self.preset(self.kind, name)["task"])
        options = []
        for field in type(self).model_fields:
            value = getattr(self, field)
            if value != getattr(base, field):
                split = next((split for split, count in COUNTS.items() if count == field), None)
                text = str(value) if isinstance(value, Path | str) else json.dumps(value)
                options.append(f"--examples {split}={value}" if split else f"--set {field}={text}")
        return ([] if name == self.default_preset else [f"--preset {name}"]), options

    def make(
        self,
        *,
        workers: int = 1,
        report: Report = lambda split, done, total, made: None,
        reading: Callable[[int], None] = lambda number: None,
    ) -> Dataset:
        """Make the examples, or the rest of them. reading: is told how many documents were read before that."""
        raise NotImplementedError

    def dataset(self) -> Dataset:
        """The examples on disk. Raises: DataMissing if they are not made; DataError if they are broken."""
        raise NotImplementedError

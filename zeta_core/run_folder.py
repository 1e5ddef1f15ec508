"""OUT/runs/<id>/: a run's configuration, state, log and metrics, each written so that a kill leaves it readable."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .errors import RequestError, RunBusy, StorageError


class RunFolder:
    """The folder of one run; `path.name` is the run's id. Nothing is made before it is first written to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and hold it against other processes; the lock ends with this process, however it ends.

        Raises: RunBusy if another process holds it; StorageError if it cannot be written."""
        with self._storing("lock"):
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / "lock").open("w")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RunBusy(f"{self.path}: another process is at this run; wait for it or stop it") from None
            yield

    def exists(self) -> bool:
        """Whether the run was ever begun."""
        return (self.path / "config.yaml").exists()

    def state(self) -> dict[str, str]:
        """`status` and `reason` as they were last written; empty if the run was never begun."""
        try:
            found = json.loads((self.path / "state.json").read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) and "status" in found else {}

    def status(self) -> str:
        """`ok`, `failed`, `oom`, `interrupted`, `running` (or killed then), or empty if it was never begun."""
        return str(self.state().get("status", ""))

    def set_status(self, status: str, reason: str = "") -> None:
        """Write the state of the run."""
        self.write("state.json", json.dumps({"status": status, "reason": reason}) + "\n")

    def write(self, name: str, text: str) -> None:
        """Write a file under another name and rename it. Raises: StorageError, with the old file as it was."""
        with self._storing(name):
            partial = self.path / f".{name}.{os.getpid()}"
            partial.write_text(text)
            os.replace(partial, self.path / name)

    def log(self, text: str) -> None:
        """Add a line to log.txt."""
        with self._storing("log.txt"), (self.path / "log.txt").open("a") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def add_metrics(self, metrics: Mapping[str, float]) -> None:
        """Add a row to metrics.csv, whose columns are those of the first row."""
        path = self.path / "metrics.csv"
        with self._storing("metrics.csv"), path.open("a+", newline="") as file:
            file.seek(0)
            header = next(csv.reader(file), None)  # of an older version, if that began the run
            writer = csv.DictWriter(file, header or list(metrics), extrasaction="ignore", lineterminator="\n")
            if header is None:
                writer.writeheader()
            writer.writerow({name: repr(value) for name, value in metrics.items()})

    def cut_metrics(self, step: int) -> None:
        """Drop the rows of metrics.csv after a step: they are made again by a run that resumes there."""
        path = self.path / "metrics.csv"
        if not path.exists():
            return
        lines = path.read_text().splitlines(keepends=True)
        kept = lines[:1] + [line for line in lines[1:] if line.endswith("\n") and int(line.partition(",")[0]) <= step]
        self.write("metrics.csv", "".join(kept if step else []))

    @contextmanager
    def _storing(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"{self.path / name}: cannot be written: {error.strerror or error}") from error


def check_writable(out: Path) -> None:
    """Raises RequestError unless files can be made in `out`; leaves nothing there that was not."""
    for nearest in (out / "results", out / "runs"):
        while not nearest.exists() and nearest != nearest.parent:
            nearest = nearest.parent
        if not nearest.is_dir():
            raise RequestError(f"--out {out}: {nearest} is no folder; choose another")
        probe = nearest / f".zeta-{os.getpid()}"
        try:
            probe.touch()
            probe.unlink()
        except OSError as error:
            reason = f"{nearest} cannot be written ({error.strerror})"
            raise RequestError(f"--out {out}: {reason}; choose another") from None

"""Checkpoints of a run: written under another name and renamed, checked before they are used, the last two kept."""

from __future__ import annotations

import errno
import json
import shutil
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from accelerate import Accelerator
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from zeta_core.errors import StorageError

KEPT = 2
FULL = 2**20
"""With fewer bytes free a disk passes for full: what could not be written is more than that."""
MANIFEST = "manifest.json"


@dataclass
class Progress:
    """How far a run has come. Registered with accelerate, so that it is saved and loaded with the rest."""

    step: int = 0
    """Optimizer steps done; the next batch is the one of this number."""
    best_step: int = -1
    best_score: float = float("nan")
    seconds: float = 0.0
    """Wall-clock time spent on training and validation, over all sittings."""
    finished: bool = False

    def state_dict(self) -> dict[str, float]:
        """Plain numbers."""
        return asdict(self)

    def load_state_dict(self, state: dict[str, float]) -> None:
        """The numbers of state_dict."""
        for name, value in state.items():
            setattr(self, name, value)


class Checkpoints:
    """The folder `checkpoints` of a run, and `best`, the weights with the best validation score."""

    def __init__(self, folder: Path, accelerator: Accelerator, say: Callable[[str], None]) -> None:
        self.folder, self.accelerator, self.say = folder / "checkpoints", accelerator, say
        self.best = folder / "best"

    def save(self, step: int) -> None:
        """Write the state of everything prepared or registered. Raises: StorageError, with nothing lost."""
        target = self.folder / f"step_{step:08d}"
        partial = target.with_name(target.name + ".partial")
        main = self.accelerator.is_main_process
        try:
            if main:
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True)
            self.accelerator.wait_for_everyone()
            self.accelerator.save_state(str(partial))
            self.accelerator.wait_for_everyone()
            if main:
                (partial / MANIFEST).write_text(json.dumps(_sums(partial)))
                shutil.rmtree(target, ignore_errors=True)
                partial.rename(target)
                for old in self.complete()[:-KEPT]:
                    shutil.rmtree(old, ignore_errors=True)
        except (OSError, RuntimeError, SafetensorError) as error:
            reason = _why_not_written(error, partial)
            shutil.rmtree(partial, ignore_errors=True)
            raise StorageError(f"{target}: the checkpoint could not be written: {reason}") from error
        self.accelerator.wait_for_everyone()

    def save_best(self, model: nn.Module, step: int, score: float) -> None:
        """Keep these weights as the best so far. Raises: StorageError, with the earlier ones as they were."""
        state = model.state_dict()  # by all processes, which may have a part of it each
        if not self.accelerator.is_main_process:
            return
        partial = self.best.with_name("best.partial")
        try:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            weights = {name: tensor.detach().contiguous() for name, tensor in state.items()}
            # One entry, since safetensors writes several in an order that differs between processes.
            about = json.dumps({"score": score, "step": step}, sort_keys=True)
            save_file(weights, partial / "model.safetensors", metadata={"validation": about})
            if self.best.exists():
                shutil.rmtree(self.best)
            partial.rename(self.best)
        except (OSError, SafetensorError) as error:
            reason = _why_not_written(error, partial)
            shutil.rmtree(partial, ignore_errors=True)
            raise StorageError(f"{self.best}: the best weights could not be written: {reason}") from error

    def load_best(self, model: nn.Module) -> None:
        """Give the model the weights with the best validation score. Raises: StorageError."""
        try:
            weights = load_file(self.best / "model.safetensors")
        except (OSError, SafetensorError) as error:
            raise StorageError(f"{self.best}: the best weights cannot be read ({error}); start over") from error
        model.load_state_dict(weights)

    def complete(self) -> list[Path]:
        """Folders of the checkpoints whose writing ended, oldest first."""
        return sorted(path for path in self.folder.glob("step_*") if path.suffix == "" and path.is_dir())

    def load_last(self) -> bool:
        """Restore the newest checkpoint that is whole; False if there is none. A broken one is named and skipped."""
        for path in reversed(self.complete()):
            if broken := _broken(path):
                self.say(f"checkpoint {path} is damaged ({broken}): using the one before")
                continue
            self.accelerator.load_state(str(path))
            return True
        return False

    def clear(self) -> None:
        """Delete all checkpoints and the best weights."""
        for path in (self.folder, self.best):
            shutil.rmtree(path, ignore_errors=True)


def _why_not_written(error: Exception, partial: Path) -> str:
    """The reason in words. torch's file writer reports a full disk as a RuntimeError that does not name it.

    partial: what was being written, not yet deleted: deleting it makes room again."""
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    with suppress(OSError):
        there = next(path for path in (partial, *partial.parents) if path.exists())
        full = full or shutil.disk_usage(there).free < FULL
    if full or "No space left" in str(error):
        return "the disk is full; make room and go on with --resume"
    return getattr(error, "strerror", None) or next(iter(str(error).splitlines()), type(error).__name__)


def _sums(folder: Path) -> dict[str, list[int]]:
    """Size and checksum of every file, by its name."""
    files = sorted(path for path in folder.iterdir() if path.name != MANIFEST)
    return {path.name: [path.stat().st_size, zlib.crc32(path.read_bytes())] for path in files}


def _broken(folder: Path) -> str | None:
    """What is wrong with a checkpoint's files; None if they are as they were written."""
    try:
        expected = json.loads((folder / MANIFEST).read_text())
        found = _sums(folder)
    except (OSError, ValueError):
        return f"no readable {MANIFEST}"
    changed = [name for name in expected if found.get(name) != expected[name]]
    return f"{changed[0]} is not as it was written" if changed else None

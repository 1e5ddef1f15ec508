"""How a training run ends that does not end well: its state, its row, and what is said."""

from __future__ import annotations

import traceback
from contextlib import suppress

import torch

from zeta_core.errors import RunFailed, StorageError, ZetaError
from zeta_core.records import Status
from zeta_core.run_folder import RunFolder

SMALLER = "try a smaller --batch-size, model or --k, or training.accumulate"


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C after the run was begun: its folder can be gone on with."""


def out_of_memory(error: BaseException) -> bool:
    """Whether a device or the machine had no memory left. torch has no class of its own for the CPU's."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


def status_of(error: Exception) -> Status:
    """The status of a run that this error ended."""
    return "oom" if out_of_memory(error) else "failed"


def reason_of(error: Exception) -> str:
    """One line on why a run ended; an error that nobody expected is named by its class."""
    first = next(iter(str(error).splitlines()), "")
    if out_of_memory(error):
        return f"out of memory ({first or type(error).__name__}); {SMALLER}"
    return first if isinstance(error, ZetaError) else f"{type(error).__name__}: {first}"


def log_failure(folder: RunFolder, error: Exception, *, rank: int) -> None:
    """Add why the run ended to its log, with the traceback unless a step of the training is to blame."""
    told = isinstance(error, RunFailed)
    text = str(error) if told else "".join(traceback.format_exception(error)).rstrip()
    # Where the log cannot be written, what ended the run is still more worth saying than that.
    with suppress(StorageError):
        folder.log(f"{status_of(error)}{f' in process {rank}' if rank else ''}: {text}")

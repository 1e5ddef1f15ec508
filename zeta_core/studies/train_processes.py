"""The processes that train one run together: what they agree on, and what is left to say when one of them ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

import psutil
import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object

from zeta_core.errors import RunBusy, RunFailed, StorageError
from zeta_core.records import Status
from zeta_core.run_folder import RunFolder

from .train_failures import reason_of, status_of

GRACE = 10.0
"""Seconds from SIGTERM to the last words of a process that cannot be interrupted: torchrun kills after 30."""
SHOWS = 2.0
"""Seconds in which a process that ended shows as such, after its connections have."""
WORD = "process_{}.json"
"""Of the rank: how a process ended whose end the main one has to tell."""


class ProcessLost(RunFailed):
    """Other processes of the run, `ranks`, ended or do not answer; this one did nothing wrong."""

    def __init__(self, text: str, ranks: Sequence[int] = ()) -> None:
        super().__init__(text)
        self.ranks = ranks


class Terminated(BaseException):
    """SIGTERM, which a launcher sends to those that are left; no Exception, which a library might swallow."""


@dataclass(frozen=True)
class Verdict:
    """How a run ended, and what this process has to do about it.

    speaks: write it to the run's state and to the table. logged: add what happened here to the log. quiet: leave it
    to another process to say."""

    status: Status
    reason: str
    speaks: bool
    logged: bool
    quiet: bool


def agreed(accelerator: Accelerator, refusal: Exception | None) -> None:
    """Raise the main process's refusal on every process, or nothing on any: none must wait for one that has left."""
    if accelerator.num_processes > 1:
        (refusal,) = broadcast_object_list([refusal])
    if refusal is not None:
        raise refusal


class Processes:
    """All processes of a run; made by all at once.

    timeout: seconds that they wait for each other, as accelerate was told."""

    def __init__(self, accelerator: Accelerator, timeout: float) -> None:
        self.rank, self.number, self.timeout = accelerator.process_index, accelerator.num_processes, timeout
        self.seen: list[int] | None = None
        """Who was gone when SIGTERM came; it goes to all that are left, which end one after another."""
        self.armed = False
        mine = (socket.gethostname(), os.getpid())
        self.places: list[tuple[str, int]] = gather_object([mine]) if self.number > 1 else [mine]

    def gone(self) -> list[int]:
        """The processes of this host that have ended, whether or not their parent has noticed."""
        here = socket.gethostname()
        return [rank for rank, (host, pid) in enumerate(self.places) if host == here and _ended(pid)]

    def speaks(self, folder: RunFolder) -> bool:
        """Whether this process writes how the run ended: the main one, or the first that is left of a killed one.

        Not if the main process has written it before it ended, or a new one is at the run already."""
        if self.rank == 0:
            return True
        if not set(range(self.rank)) <= set(self.gone()) or folder.status() != "running":
            return False
        try:
            with folder.locked():
                return True
        except (RunBusy, StorageError):
            return False

    def verdict(self, error: Exception, folder: RunFolder) -> Verdict:
        """How the run ended that this error ended here. A process beside the main one leaves it word of its own."""
        status, reason, speaks = status_of(error), reason_of(error), self.speaks(folder)
        if isinstance(error, ProcessLost):
            status, reason = next(filter(None, (_word(folder, rank) for rank in error.ranks)), (status, reason))
            return Verdict(status, reason, speaks, logged=speaks, quiet=not speaks)
        if self.rank == 0 or speaks:
            return Verdict(status, reason, speaks, logged=True, quiet=False)
        if self.repeats(folder):
            return Verdict(status, reason, speaks, logged=False, quiet=True)
        with suppress(StorageError):
            folder.write(WORD.format(self.rank), json.dumps([status, f"{reason} (process {self.rank})"]))
        return Verdict(status, reason, speaks, logged=True, quiet=0 not in self.gone())

    def repeats(self, folder: RunFolder) -> bool:
        """Whether the main process says the same: an error of the run's, such as a loss of NaN, comes to all."""
        until = time.monotonic() + SHOWS
        while self.rank and folder.status() == "running" and time.monotonic() < until:
            time.sleep(0.05)
        return self.rank > 0 and folder.status() not in ("running", "")

    @contextmanager
    def watched(self, last_words: Callable[[str], None]) -> Iterator[None]:
        """Inside, the end of another process raises ProcessLost here, and SIGTERM without one KeyboardInterrupt.

        last_words: gets the reason where SIGTERM finds the process waiting in a library; it then ends with code 1.
        Afterwards, until `release`, SIGTERM is ignored: what follows is short, and must be whole."""
        if self.number == 1:
            yield
            return
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        done = threading.Event()

        def watch() -> None:
            while signal.SIGTERM not in (received := os.read(reader, 64)):
                if not received:
                    return
            self.seen = self.gone()
            if not done.wait(GRACE):
                last_words(self._reason(self.seen) if self.seen else "SIGTERM")
                os._exit(1)

        # The signal's number is written while the main thread waits in a library, where no handler of Python's runs.
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_sigterm)
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        self.armed = True
        try:
            yield
        except (Terminated, Exception) as error:
            self.armed = False
            lost = self._lost(error)
            if lost is not None:
                raise lost from error
            if isinstance(error, Terminated):
                raise KeyboardInterrupt from None
            raise
        finally:
            self.armed = False
            done.set()
            signal.set_wakeup_fd(-1)
            os.close(writer)
            watcher.join(timeout=1)
            os.close(reader)

    def release(self) -> None:
        """SIGTERM ends this process again."""
        if self.number > 1:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        if self.armed:
            self.armed = False
            raise Terminated

    def _lost(self, error: BaseException) -> ProcessLost | None:
        """The error as another process's doing; None if it is this one's own, or SIGTERM came from outside."""
        text = str(error)
        if not isinstance(error, Terminated) and not (
            isinstance(error, torch.distributed.DistError) or "gloo" in text or "NCCL" in text
        ):
            return None
        until = time.monotonic() + SHOWS
        while not (gone := self.gone() if self.seen is None else self.seen) and time.monotonic() < until:
            if isinstance(error, Terminated) and self.seen is not None:
                return None
            time.sleep(0.02)
        if gone:
            return ProcessLost(self._reason(gone), gone)
        if "imed out" in text or "imeout" in text:
            return ProcessLost(
                f"another process of {self.number} has not answered for training.process_timeout={self.timeout:g} s; "
                "--resume goes on from the last checkpoint"
            )
        return None

    def _reason(self, gone: list[int]) -> str:
        which = " and ".join(map(str, gone))
        return f"process {which} of {self.number} was killed or failed; --resume goes on from the last checkpoint"


def forget_words(folder: RunFolder) -> None:
    """Delete what the processes of an earlier sitting left word of."""
    for path in folder.path.glob(WORD.format("*")):
        path.unlink(missing_ok=True)


def _word(folder: RunFolder, rank: int) -> tuple[Status, str] | None:
    """The status and the reason that a process left word of before it ended."""
    try:
        status, reason = json.loads((folder.path / WORD.format(rank)).read_text())
    except (OSError, ValueError):
        return None
    return status, reason


def _ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return True

"""Where the runs of a sweep are trained: here, in local processes, or on Slurm; the latter two by submitit."""

from __future__ import annotations

import importlib.util
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import psutil
import torch

from zeta_core.errors import OptionError, RunBusy, RunFailed
from zeta_core.run_folder import RunFolder
from zeta_core.tracking import WandbMode

from .train import TrainMonitor, run_train
from .train_run import TrainRun

BUSY_S = 1.0
"""How long to wait before looking again at a run that another process is at."""


@dataclass(frozen=True)
class Work:
    """One run to train. folder: the run's own under out/runs. resume: from its last checkpoint. group: W&B's."""

    run: TrainRun
    folder: Path
    out: Path
    resume: bool
    wandb: WandbMode = "off"
    group: str = ""


class Running(Protocol):
    """A run that was started."""

    timed_out: bool
    log: Path

    def ended(self) -> bool:
        """Whether it is over, well or not."""

    def error(self) -> str:
        """Why it ended without a word in its folder; empty if nobody knows."""

    def stop(self) -> None:
        """End it now."""


class Launcher(Protocol):
    """Starts runs; at most `width` at a time."""

    width: int

    def start(self, work: Work) -> Running:
        """Begin to train."""


def train_one(work: Work, monitor: TrainMonitor) -> None:
    """Train one run of a sweep; what comes of it is in its folder. Waits while another process is at it.

    Raises: what the run cannot begin with (RequestError); a run that fails is no error here."""
    folder = RunFolder(work.folder)
    while True:
        keep = work.resume and folder.exists()
        done = folder.status() == "ok"
        try:
            run_train(
                work.run,
                out=work.out,
                monitor=monitor,
                resume=keep and not done,
                force=not keep and not done,
                wandb=work.wandb,
                group=work.group,
                table=False,
            )
        except RunFailed:
            return
        except RunBusy:
            time.sleep(BUSY_S)
        else:
            return


class RunTimeout(KeyboardInterrupt):
    """A run in this process has had its time."""


class Timed(Protocol):
    """What is told that its time is over."""

    timed_out: bool


@contextmanager
def alarm(timeout_s: float | None, found: Timed) -> Iterator[None]:
    """Inside, RunTimeout is raised after so many seconds, and `found` is marked; None: never. For the main thread."""
    if timeout_s is None:
        yield
        return

    def ring(*_: object) -> None:
        found.timed_out = True
        raise RunTimeout

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass
class Ended:
    """A run that was trained in this process."""

    log: Path
    timed_out: bool = False
    why: str = ""

    def ended(self) -> bool:
        """It is."""
        return True

    def error(self) -> str:
        """The message of what it raised."""
        return self.why

    def stop(self) -> None:
        """Nothing is left to stop."""


class InProcess:
    """One run after another in this process; a run's time is kept by an alarm."""

    width = 1

    def __init__(self, monitor: TrainMonitor, timeout_s: float | None) -> None:
        self.monitor, self.timeout_s = monitor, timeout_s

    def start(self, work: Work) -> Running:
        """Train it, and return when that is over."""
        found = Ended(work.folder / "log.txt")
        try:
            with alarm(self.timeout_s, found):
                train_one(work, self.monitor)
        except KeyboardInterrupt:
            if not found.timed_out:
                raise
        except Exception as error:  # one run must not end the sweep
            found.why = f"{type(error).__name__}: {error}".splitlines()[0]
        return found


class Lines:
    """A monitor for a process of its own: lines into its log."""

    def say(self, text: str) -> None:
        """Print it."""
        print(text, flush=True)

    def start(self, run: TrainRun, run_id: str, parameters: int, embeddings: int) -> None:
        """Nothing that the run's own log does not say."""

    def resumed(self, step: int) -> None:
        """The same."""

    def step(self, step: int, loss: float, score: float | None) -> None:
        """The same."""

    def validated(self, metrics: Mapping[str, float]) -> None:
        """The same."""

    def stop(self) -> None:
        """The same."""


def work_alone(work: Work, threads: int | None) -> None:
    """What a submitted process does."""
    if threads is not None:
        torch.set_num_threads(threads)
    train_one(work, Lines())


class Submitted:
    """A run in a process of its own."""

    timed_out = False

    def __init__(self, job: Any, *, local: bool) -> None:
        self.job, self.local = job, local
        self.log = Path(job.paths.stderr)

    def ended(self) -> bool:
        """Whether it left a result, its process is gone, or Slurm says so."""
        return self.job.paths.result_pickle.exists() or bool(self.job.done())

    def error(self) -> str:
        """The last line of the exception that it ended with."""
        if not self.job.paths.result_pickle.exists():
            return ""  # submitit would wait long for it
        found = self.job.exception()
        return str(found).strip().splitlines()[-1] if found is not None else ""

    def stop(self) -> None:
        """Kill the process and its children, or cancel the job."""
        if not self.local:
            self.job.cancel(check=False)
            return
        with suppress(psutil.Error, ValueError):
            controller = psutil.Process(int(self.job.job_id))
            for process in [controller, *controller.children(recursive=True)]:
                with suppress(psutil.Error):
                    process.kill()
            controller.wait(10)


class Submitit:
    """Processes by submitit: `width` at a time, spread over the GPUs there are; the cluster is local or Slurm."""

    def __init__(
        self,
        folder: Path,
        *,
        width: int,
        cluster: str = "local",
        timeout_s: float | None,
        slurm: Mapping[str, object],
    ) -> None:
        if importlib.util.find_spec("submitit") is None:
            raise OptionError("runs in processes of their own need submitit: pip install 'zeta-attention[sweep]'")
        import submitit

        self.width, self.cluster, self.started = width, cluster, 0
        made = [path for path in (folder, *folder.parents) if not path.exists()]
        try:
            if cluster == "local":
                # A limit of submitit's own that never ends a run: the sweep keeps the time.
                self.executor = submitit.LocalExecutor(folder=folder)
                self.executor.update_parameters(timeout_min=60 * 24 * 365)
            else:
                self.executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
                limit = {} if timeout_s is None else {"timeout_min": int(timeout_s // 60) + 2}
                self.executor.update_parameters(name="zeta", **limit, **slurm)
        except Exception as error:
            raise OptionError(f"{cluster} cannot be used: {error}".splitlines()[0]) from error
        finally:
            # submitit makes the folder at once, and again when it is used; a sweep may yet be refused.
            for path in made:
                with suppress(OSError):
                    path.rmdir()
        self.gpus = torch.cuda.device_count()
        self.threads = max(1, min(torch.get_num_threads(), (os.cpu_count() or 1) // width))

    def start(self, work: Work) -> Running:
        """Submit it."""
        local = self.cluster == "local"
        if local:
            gpus = (self.started % self.gpus,) if self.gpus and work.run.device != "cpu" else ()
            self.executor.update_parameters(gpus_per_node=len(gpus), visible_gpus=gpus)
        self.started += 1
        there = replace(work, folder=work.folder.absolute(), out=work.out.absolute())
        job = self.executor.submit(work_alone, there, self.threads if local else None)
        return Submitted(job, local=local)

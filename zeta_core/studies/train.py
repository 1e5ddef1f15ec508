"""`zeta train`: one model trained and tested, with everything it leaves in OUT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs, set_seed

from zeta_core.config import identity, to_yaml
from zeta_core.errors import ConfigError, OptionError, RunBusy, RunFailed, StorageError, ZetaError
from zeta_core.model import Network
from zeta_core.records import Status, TrainRow, append_rows, read_rows, run_id
from zeta_core.run_folder import RunFolder, check_writable
from zeta_core.table_check import check_table
from zeta_core.tasks import TaskData
from zeta_core.tracking import Tracker, WandbMode, resolve_wandb
from zeta_core.training import Monitor, check_batch, fit
from zeta_core.training.checkpoint import Checkpoints

from .data import make_if_small, say_on_stderr
from .nearest import no_such_run
from .train_failures import RunInterrupted, log_failure, out_of_memory
from .train_processes import Processes, agreed, forget_words
from .train_recorder import Recorder
from .train_rows import make_rows, matched_line, save_rows, saved_rows, unbound_warning, unreachable_warning
from .train_run import TrainRun

CSV = "train.csv"
NEEDED = ("run_id", "slice", "metric", "value")
"""Columns without which a table's rows are not scores of runs."""


class TrainMonitor(Monitor, Protocol):
    """What watches `run_train`."""

    def start(self, run: TrainRun, run_id: str, parameters: int, embeddings: int) -> None:
        """Training is about to begin; the parameters are those beside the embeddings."""

    def stop(self) -> None:
        """Training has ended, well or not."""


@dataclass(frozen=True)
class TrainResult:
    """What a run came to. fresh: whether it was trained just now; rows: its scores."""

    run_id: str
    folder: Path
    rows: list[TrainRow]
    fresh: bool


@dataclass(frozen=True)
class Job:
    """A resolved run with its data, and where its results go; no table: to its folder alone."""

    run: TrainRun
    data: TaskData
    folder: RunFolder
    table: Path | None

    @property
    def run_id(self) -> str:
        """Names the run's folder and its rows."""
        return self.folder.path.name

    def record(self, rows: Sequence[TrainRow]) -> None:
        """Write the run's rows to its folder, and to the table."""
        save_rows(self.folder, rows)
        if self.table is not None:
            append_rows(self.table, rows)

    def recorded(self) -> list[TrainRow]:
        """The rows of a run that was finished earlier, put into the table if they are not there."""
        rows = saved_rows(self.folder)
        if rows and self.table is not None and not any(row["run_id"] == self.run_id for row in read_rows(self.table)):
            append_rows(self.table, rows)
        return rows


def run_train(
    run: TrainRun,
    *,
    out: Path,
    monitor: TrainMonitor,
    resume: bool = False,
    force: bool = False,
    wandb: WandbMode = "auto",
    group: str = "",
    table: bool = True,
) -> TrainResult:
    """Train and test one model; its rows go to out/results/train.csv (if `table`), all else to out/runs/<id>/.

    A finished run is not repeated unless force. resume: go on with an unfinished one. group: W&B's, for a sweep.
    Raises: ConfigError, DeviceError and other RequestErrors before anything is written; RunFailed once the run
    has its row with the status `failed` or `oom`; RunInterrupted once it can be gone on with; StorageError."""
    run = run.resolved()
    wandb_mode, wandb_reason = resolve_wandb(wandb)
    data = build_task(run, monitor.say)
    # Refused, if it is, before anything is written; without memory or random numbers. What fails for another reason
    # fails again below, as the run's own end.
    with suppress(MemoryError, RuntimeError), torch.device("meta"):
        build_network(run, data)
    path = out / "results" / CSV if table else None
    job = Job(run, data, RunFolder(out / "runs" / identify(run, data)), path)
    if path is not None:
        check_table(path, TrainRow, NEEDED)
    if resume and not job.folder.exists():
        raise ConfigError(no_such_run(run, job.run_id, out / "runs"))
    finished = job.folder.status() == "ok"
    if finished and not force and (rows := job.recorded()):
        return TrainResult(job.run_id, job.folder.path, rows, fresh=False)
    check_writable(out)
    accelerator = start_accelerator(run)
    try:
        check_batch(run.training, data, accelerator.num_processes)
        checkpoints = Checkpoints(job.folder.path, accelerator, monitor.say)
        undecided = not (resume or force or finished) and bool(checkpoints.complete())
        keep = resume or (finished and not force)
        main = accelerator.is_main_process
        accelerator.wait_for_everyone()
        refusal: ZetaError | None = None
        with ExitStack() as held:
            if main:
                try:
                    held.enter_context(job.folder.locked())
                    if undecided:
                        refusal = ConfigError(
                            f"{job.folder.path} holds an unfinished run of this configuration; --resume goes on with "
                            "it, --force starts over"
                        )
                except (RunBusy, StorageError) as error:
                    refusal = error
            agreed(accelerator, refusal)
            tracker = Tracker(wandb_mode if main else "off", monitor.say, group)
            if not group:  # the sweep has said it
                monitor.say(f"W&B is {wandb_mode}: {wandb_reason}")
            return train_job(job, accelerator, checkpoints, monitor, tracker, keep=keep)
    finally:
        monitor.stop()
        accelerator.end_training()
        # accelerate holds the precision for the whole process; the next run may want another.
        AcceleratorState._reset_state(reset_partial_state=True)


def identify(run: TrainRun, data: TaskData) -> str:
    """The id of a resolved run: a hash of its configuration, of the kind of device alone, and of its data."""
    parts = {**identity(run), "device": torch.device(run.device).type}
    return run_id(f"{run.task.kind}-{run.attention.kind}", parts, data.fingerprint)


def build_task(run: TrainRun, say: Callable[[str], None] = say_on_stderr) -> TaskData:
    """The run's examples; those that are made quickly are made now, which `say` is told.

    Raises: OptionError if they do not fit in memory; DataError if their files are missing or broken."""
    try:
        make_if_small(run.task, say)
        return run.task.build()
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        raise OptionError(
            f"task {run.task.kind}: its examples do not fit in memory ({error}); use fewer or shorter ones"
        ) from error


def build_network(run: TrainRun, data: TaskData) -> Network:
    """The run's network for its examples. Raises: OptionError, above all where match_parameters cannot be met."""
    return run.model.build(
        run.attention,
        vocab_size=data.vocab_size,
        max_len=data.max_len,
        num_classes=data.num_classes,
        num_documents=data.num_documents,
        impl=run.impl,
    )


def start_accelerator(run: TrainRun) -> Accelerator:
    """accelerate for a resolved run: its device, precision and accumulation."""
    if run.device != "cpu":
        torch.set_num_threads(1)  # what is left for the host is small, and waking threads for it takes longer
    if run.device.startswith("cuda:"):
        torch.cuda.set_device(run.device)
    return Accelerator(
        cpu=run.device == "cpu",
        mixed_precision="no" if run.dtype == "fp32" else run.dtype,
        gradient_accumulation_steps=run.training.accumulate,
        kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(seconds=run.training.process_timeout))],
    )


def train_job(
    job: Job,
    accelerator: Accelerator,
    checkpoints: Checkpoints,
    monitor: TrainMonitor,
    tracker: Tracker,
    *,
    keep: bool,
) -> TrainResult:
    """Train inside the run's lock. keep: go on from its checkpoints; else they are deleted first."""
    run, folder, main = job.run, job.folder, accelerator.is_main_process
    if main:
        if not keep:
            checkpoints.clear()
            folder.cut_metrics(0)
        if folder.status() == "running":
            monitor.say(f"{job.run_id}: the last sitting was cut off: it was killed, or the machine stopped")
        folder.write("config.yaml", to_yaml(run.model_dump(mode="json")))
        folder.set_status("running")
        forget_words(folder)
    processes = Processes(accelerator, run.training.process_timeout)
    set_seed(run.seed)
    status: Status = "failed"
    recorder = Recorder(monitor, folder if main else None, tracker)
    checkpoints.say = recorder.say
    parameters: int | None = None

    def last_words(reason: str) -> None:
        if processes.speaks(folder):
            folder.set_status("failed", reason)
            recorder.say(f"{job.run_id} failed: {reason}")

    try:
        with processes.watched(last_words):
            network = build_network(run, job.data)
            parameters = network.num_parameters()
            matched = matched_line(run, network.config.d_mlp, parameters)
            for line in (matched, unreachable_warning(run, job.data), unbound_warning(run)):
                if line is not None:
                    monitor.say(line)
            monitor.start(run, job.run_id, parameters, network.num_parameters(embeddings=True) - parameters)
            tracker.start(job.run_id, run.model_dump(mode="json"), folder.path)
            done = fit(
                network,
                job.data,
                run.training,
                accelerator=accelerator,
                checkpoints=checkpoints,
                seed=run.seed,
                resume=keep,
                monitor=recorder,
            )
        status = "ok"
        if main:
            rows = make_rows(run, job.data, job.run_id, status, parameters, done)
            job.record(rows)
            tracker.table("train", rows)
            folder.set_status(status)
    except (KeyboardInterrupt, BrokenPipeError) as error:
        # A pipe breaks when the reader of what is said leaves: as little the run's own failure as Ctrl-C.
        if main:
            with suppress(StorageError):
                folder.set_status("interrupted", "--resume goes on with it")
        if isinstance(error, KeyboardInterrupt):
            raise RunInterrupted from None
        raise
    except StorageError as error:
        if main:
            with suppress(StorageError):
                folder.set_status("failed", str(error))
        raise
    except Exception as error:
        end = processes.verdict(error, folder)
        status = end.status
        if end.logged:
            log_failure(folder, error, rank=accelerator.process_index)
        if end.speaks:
            folder.set_status(status, end.reason)
            job.record(make_rows(run, job.data, job.run_id, status, parameters, None))
        text = f"{job.run_id} {status}: {end.reason} (log: {folder.path / 'log.txt'})"
        raise RunFailed(text, quiet=end.quiet) from error
    finally:
        tracker.finish(failed=status != "ok")
        processes.release()
    return TrainResult(job.run_id, folder.path, saved_rows(folder) if main else [], fresh=True)

"""The training loop."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from accelerate import Accelerator

from zeta_core.errors import NonFiniteError, OptionError, RunFailed
from zeta_core.model import Network
from zeta_core.tasks import Batch, TaskData
from zeta_core.tasks.task import sent

from .batches import BatchOrder
from .checkpoint import Checkpoints, Progress
from .config import TrainingConfig
from .evaluate import PartScore, evaluate, loss_and_hits
from .sharding import gathered, is_cut, prepare, shard, whole
from .speed import Speed
from .watch import Watch

READ_EVERY = 10
"""On a GPU the loss is read back every so many steps; reading waits for the device."""
STATISTICS_EXAMPLES = 8


class Monitor(Protocol):
    """What watches a training run."""

    def say(self, text: str) -> None:
        """A line worth reading."""

    def resumed(self, step: int) -> None:
        """Training goes on from a checkpoint, with so many steps done."""

    def step(self, step: int, loss: float, score: float | None) -> None:
        """So many steps are done; the last loss read, in nats a label, and the last validation score."""

    def validated(self, metrics: Mapping[str, float]) -> None:
        """A row of metrics at a validation."""


@dataclass(frozen=True)
class Fit:
    """What came out: the progress at the end, and the scores on the test split at the best validation step.

    metrics: the last validation's, with each layer's statistics; empty if this sitting had none."""

    progress: Progress
    test: list[PartScore]
    metrics: Mapping[str, float]


def fit(
    network: Network,
    data: TaskData,
    config: TrainingConfig,
    *,
    accelerator: Accelerator,
    checkpoints: Checkpoints,
    seed: int,
    resume: bool,
    monitor: Monitor,
) -> Fit:
    """Train `network`, validate every so often, and test the weights with the best validation score.

    The loss of a step is the mean over all its labels, however the batch is shared.
    resume: go on from the last whole checkpoint, if there is one; the parameters at the end are those of a run
    that never stopped, bit by bit on a CPU at the same number of threads.
    Raises: RunFailed naming the step if the loss or a gradient is not finite; OptionError if the batch cannot be
    shared; StorageError."""
    check_batch(config, data, accelerator.num_processes)
    shares = accelerator.num_processes * config.accumulate
    network.checkpoint_activations = config.checkpoint_activations
    if config.sharding == "fsdp" and accelerator.num_processes > 1:
        shard(network, accelerator)
    elif config.sharding != "none":
        monitor.say(f"training.sharding={config.sharding} changes nothing with one process; torchrun starts several")
    optimizer: torch.optim.Optimizer = config.optimizer(network, fused=accelerator.device.type == "cuda")
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, config.rate)
    model, optimizer = prepare(network, optimizer, accelerator)
    trained = cast(torch.nn.Module, torch.compile(model)) if config.compile else model
    progress = Progress()
    accelerator.register_for_checkpointing(schedule, progress)
    higher_is_better = data.metric == "accuracy"
    if resume and checkpoints.load_last():
        monitor.say(f"resumed at step {progress.step} of {config.steps}")
        monitor.resumed(progress.step)
    elif resume:
        monitor.say("no checkpoint yet: starting over")
        monitor.resumed(0)
    order = BatchOrder(data.parts["train"], config.batch_size, seed)
    watch = Watch(accelerator, reads_every=READ_EVERY if accelerator.device.type == "cuda" else 1)
    speed = Speed(network, accelerator)
    started, saved_at = time.perf_counter() - progress.seconds, time.perf_counter()
    score: float | None = None if progress.best_step < 0 else progress.best_score
    metrics: dict[str, float] = {}
    model.train()
    while progress.step < config.steps and not progress.finished:
        part, indices = order.at(progress.step)
        share = len(indices) // shares
        first = accelerator.process_index * config.accumulate * share
        mine = indices[first : first + config.accumulate * share]
        batches = [part.batch(mine[place * share : (place + 1) * share]) for place in range(config.accumulate)]
        labels = _labels_of_step(accelerator, batches)
        summed = torch.zeros((), device=accelerator.device)
        for batch in batches:
            with accelerator.accumulate(model), _failing_at(progress.step):
                with accelerator.autocast():
                    total, _, _ = loss_and_hits(trained, batch, accelerator.device)
                summed += total.detach()
                # accelerate and DDP take the mean over the shares; wanted is that over all labels.
                accelerator.backward(total / (labels / shares))
                if accelerator.sync_gradients:
                    norm = accelerator.clip_grad_norm_(model.parameters(), config.clip_norm)
                    watch.see(progress.step, summed / labels, whole(norm))
                optimizer.step()
                optimizer.zero_grad()
        schedule.step()
        speed.add(batches)
        progress.step += 1
        validate = progress.step % config.eval_every == 0 or progress.step == config.steps
        if watch.due(progress.step) or validate:
            watch.check()
        monitor.step(progress.step, watch.loss, score)
        progress.seconds = time.perf_counter() - started
        if validate:
            now = {
                "step": progress.step,
                "seconds": progress.seconds,
                "loss": watch.loss,
                "gradient_norm": watch.norm,
                "learning_rate": config.learning_rate * config.rate(progress.step - 1),
                **speed.rates(),
            }
            with _failing_at(progress.step - 1):
                metrics = now | _validate(network, model, data, accelerator)
            score = metrics["score"]
            better = score > progress.best_score if higher_is_better else score < progress.best_score
            if better or progress.best_step < 0:
                progress.best_score, progress.best_step = score, progress.step
                checkpoints.save_best(network, progress.step, score)
            if config.stop_at is not None:
                progress.finished = score >= config.stop_at if higher_is_better else score <= config.stop_at
            monitor.validated(metrics)
            if progress.finished and progress.step < config.steps:
                monitor.say(
                    f"stopped early at step {progress.step} of {config.steps}: validation score {score:.4f}, "
                    f"training.stop_at={config.stop_at}"
                )
        if _everyone(accelerator, validate or time.perf_counter() - saved_at > config.checkpoint_seconds):
            watch.check()
            progress.seconds = time.perf_counter() - started
            checkpoints.save(progress.step)
            saved_at = time.perf_counter()
            speed.start()
    progress.finished = True
    accelerator.wait_for_everyone()
    checkpoints.load_best(network)
    return Fit(progress, evaluate(model, data.parts["test"], accelerator), metrics)


def check_batch(config: TrainingConfig, data: TaskData, num_processes: int) -> None:
    """Raises: OptionError if the batch cannot be shared by the processes, or is more than there is to train on."""
    shares = num_processes * config.accumulate
    if config.batch_size % shares:
        nearest = max(1, round(config.batch_size / shares)) * shares
        raise OptionError(
            f"batch_size={config.batch_size} is not divisible by {num_processes} processes times "
            f"accumulate={config.accumulate}; the nearest that is: {nearest}"
        )
    if short := [part for part in data.parts["train"] if len(part) < config.batch_size]:
        raise OptionError(
            f"batch_size={config.batch_size} is more than the {len(short[0])} training examples of {short[0].name}; "
            "use fewer, or make more"
        )


def _labels_of_step(accelerator: Accelerator, batches: Sequence[Batch]) -> torch.Tensor:
    """How many labels one optimizer step trains on, over all processes and accumulated parts; at least 1."""
    labels = sent(torch.tensor(sum(batch.num_labels for batch in batches)), accelerator.device)
    if accelerator.num_processes > 1:
        labels = accelerator.reduce(labels, reduction="sum")
    return labels.clamp(min=1)


def _validate(network: Network, model: torch.nn.Module, data: TaskData, accelerator: Accelerator) -> dict[str, float]:
    """Validation scores, and each layer's statistics."""
    scores = evaluate(model, data.parts["validation"], accelerator)
    metrics: dict[str, float] = {"score": getattr(scores[-1], data.metric)}
    for found in scores:
        metrics[f"validation.{found.name}.accuracy"] = found.accuracy
        metrics[f"validation.{found.name}.loss"] = found.loss
    part = data.parts["validation"][-1]
    few = part.batch(torch.arange(min(STATISTICS_EXAMPLES, len(part))).numpy()).to(accelerator.device)
    network.eval()
    with gathered(network), accelerator.autocast() if is_cut(network) else nullcontext():
        metrics.update(network.statistics(few.unpadded()))
    network.train()
    return metrics


class _failing_at:
    """Turns the operator's refusal of NaN and infinity into the failure of a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, NonFiniteError):
            raise RunFailed(
                f"a hidden state is not finite at step {self.step + 1} ({error}); try a lower learning rate"
            ) from error


def _everyone(accelerator: Accelerator, mine: bool) -> bool:
    """The main process's answer, on every process: their clocks differ, and saving is done together."""
    if accelerator.num_processes == 1:
        return mine
    from accelerate.utils import broadcast

    answer = broadcast(torch.tensor(float(mine), device=accelerator.device), from_process=0)
    return bool(answer.item())

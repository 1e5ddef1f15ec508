"""How a training run shows itself: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self, cast, get_args

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from zeta_core.errors import ConfigError
from zeta_core.layers import did_you_mean
from zeta_core.tracking import WandbMode

from .console import error_console

if TYPE_CHECKING:
    from zeta_core.studies.train_run import TrainRun

PLAIN_SECONDS = 10.0


class CountBar:
    """Lines on standard error, and on a terminal a bar below them over so many things, with what is being done."""

    def __init__(self) -> None:
        self.console = error_console()
        columns = MofNCompleteColumn(), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
        self.bar = Progress(*columns, console=self.console, disable=not self.console.is_terminal)

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def say(self, text: str) -> None:
        """A line, above the bar."""
        self.console.print(text, markup=False, soft_wrap=True)


class TrainProgress:
    """Shows one training run on standard error; says nothing if `on` is False."""

    def __init__(self, on: bool = True) -> None:
        self.on, self.console = on, error_console()
        self.bar: Progress | None = None
        self.steps = self.first_step = 0
        self.began = self.shown = time.perf_counter()

    def say(self, text: str) -> None:
        """A line, above the bar."""
        if self.on:
            self.console.print(text, markup=False, soft_wrap=True)

    def start(self, run: TrainRun, run_id: str, parameters: int, embeddings: int) -> None:
        """Begin to show a run; its trained parameters are counted without those of its embeddings, as in the CSV."""
        self.steps, self.began = run.training.steps, time.perf_counter()
        self.say(
            f"{run_id}: {parameters:,} parameters + {embeddings:,} of embeddings, {run.training.steps:,} steps on "
            f"{run.device} in {run.dtype}"
        )
        if self.on and self.console.is_terminal:
            columns = TextColumn("step {task.completed:.0f}/{task.total:.0f}"), TextColumn("{task.fields[state]}")
            self.bar = Progress(
                columns[0], BarColumn(), columns[1], TimeElapsedColumn(), TimeRemainingColumn(), console=self.console
            )
            self.bar.add_task("train", total=self.steps, state="")
            self.bar.start()

    def resumed(self, step: int) -> None:
        """Steps before this one were done in an earlier sitting."""
        self.first_step = step

    def step(self, step: int, loss: float, score: float | None) -> None:
        """Show how far it is: the bar at each step, a plain line now and then."""
        now = time.perf_counter()
        rate = (step - self.first_step) / max(now - self.began, 1e-9)
        state = f"loss {loss:.3f}" + ("" if score is None else f" score {score:.3f}") + f" {rate:.1f} steps/s"
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=step, state=state)
        elif now - self.shown >= PLAIN_SECONDS:
            self.shown = now
            left = (self.steps - step) / max(rate, 1e-9)
            self.say(f"step {step}/{self.steps} {state}, about {left:.0f} s left")

    def validated(self, metrics: Mapping[str, float]) -> None:
        """A validation: the bar's score is enough on a terminal."""
        if self.bar is None:
            self.shown = time.perf_counter()
            rate = (metrics["step"] - self.first_step) / max(self.shown - self.began, 1e-9)
            left = (self.steps - metrics["step"]) / max(rate, 1e-9)
            self.say(
                f"step {metrics['step']:.0f}/{self.steps} loss {metrics['loss']:.3f} validation score "
                f"{metrics['score']:.4f} {rate:.1f} steps/s, about {left:.0f} s left"
            )

    def stop(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def wandb_mode(text: str) -> WandbMode:
    """`--wandb` checked. Raises: ConfigError."""
    if text not in get_args(WandbMode):
        modes = get_args(WandbMode)
        raise ConfigError(f"--wandb {text!r} is not one of {', '.join(modes)}{did_you_mean(text, modes)}")
    return cast(WandbMode, text)


def quiet_imports() -> None:
    """Keep the libraries' own warnings off the screen; ours are lines."""
    warnings.filterwarnings("ignore", module="torch|accelerate|pydantic")

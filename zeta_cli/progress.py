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
FIRST_SECONDS = 2.0
"""Until the first plain line, which says how long all will take."""


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
    """Shows one training run on standard error; says nothing if `on` is False. about: a line on what it is."""

    def __init__(self, on: bool = True, about: str | None = None) -> None:
        self.on, self.about, self.console = on, about, error_console()
        self.bar: Progress | None = None
        self.steps = self.first_step = 0
        self.eval_every = 1
        self.began = self.shown = time.perf_counter()

    def say(self, text: str) -> None:
        """A line, above the bar."""
        if self.on:
            self.console.print(text, markup=False, soft_wrap=True)

    def start(self, run: TrainRun, run_id: str, parameters: int, embeddings: int) -> None:
        """Begin to show a run; its trained parameters are counted without those of its embeddings, as in the CSV."""
        self.steps, self.eval_every, self.began = run.training.steps, run.training.eval_every, time.perf_counter()
        self.shown = self.began - PLAIN_SECONDS + FIRST_SECONDS
        self.say(
            f"{run_id}: {parameters:,} parameters + {embeddings:,} of embeddings, {run.training.steps:,} steps on "
            f"{run.device} in {run.dtype}"
        )
        if self.about is not None:
            self.say(self.about)
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
        """Show how far it is: the bar at each step, a plain line now and then, unless a validation's is next."""
        state = f"loss {loss:.3f}" + ("" if score is None else f" score {score:.3f}")
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=step, state=f"{state} {self.rate(step):.1f} steps/s")
        elif time.perf_counter() - self.shown >= PLAIN_SECONDS and step % self.eval_every and step < self.steps:
            self.plain(step, state)

    def validated(self, metrics: Mapping[str, float]) -> None:
        """A validation: the bar's score is enough on a terminal."""
        if self.bar is None:
            self.plain(int(metrics["step"]), f"loss {metrics['loss']:.3f} validation score {metrics['score']:.4f}")

    def plain(self, step: int, state: str) -> None:
        """A line with what is left."""
        self.shown, rate = time.perf_counter(), self.rate(step)
        left = (self.steps - step) / max(rate, 1e-9)
        rest = f", about {duration(left)} left" if step < self.steps else ""
        self.say(f"step {step}/{self.steps} {state} {rate:.1f} steps/s{rest}")

    def rate(self, step: int) -> float:
        """Steps a second in this sitting."""
        return (step - self.first_step) / max(time.perf_counter() - self.began, 1e-9)

    def stop(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, as one would say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def wandb_mode(text: str) -> WandbMode:
    """`--wandb` checked. Raises: ConfigError."""
    if text not in get_args(WandbMode):
        modes = get_args(WandbMode)
        raise ConfigError(f"--wandb {text!r} is not one of {', '.join(modes)}{did_you_mean(text, modes)}")
    return cast(WandbMode, text)


def quiet_imports() -> None:
    """Keep the libraries' own warnings off the screen; ours are lines."""
    warnings.filterwarnings("ignore", module="torch|accelerate|pydantic")

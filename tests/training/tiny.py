"""A training run of a fraction of a second, watched."""

import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from torch import Tensor

from zeta_core.attention import ZetaConfig
from zeta_core.model import ModelConfig, Network
from zeta_core.tasks import MqarConfig, TaskData
from zeta_core.training import Fit, TrainingConfig, fit
from zeta_core.training.checkpoint import Checkpoints

TASK = MqarConfig(seq_len=16, num_pairs=2, vocab_size=32, num_train=40, num_validation=16, num_test=24)
DATA: TaskData = TASK.build()
TRAINING = {"steps": 8, "batch_size": 8, "learning_rate": 3e-3, "warmup_steps": 2, "eval_every": 2}


@pytest.fixture(autouse=True)
def fresh_accelerate() -> Iterator[None]:
    """accelerate holds its state for the whole process."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    gc.collect()


def training(**options: object) -> TrainingConfig:
    """Eight steps, validated at every second one; a checkpoint at each validation alone."""
    return TrainingConfig.model_validate({**TRAINING, "checkpoint_seconds": 1e9, **options})


def network(seed: int = 0, *, dropout: float = 0.1) -> Network:
    """The smallest network that has every kind of parameter."""
    torch.manual_seed(seed)
    config = ModelConfig(d_model=16, num_layers=1, dropout=dropout)
    return config.build(ZetaConfig(top_k=4, num_chunks=4), vocab_size=32, max_len=16)


class Stopped(Exception):
    """Raised in the middle of a run, as a kill would end it."""


@dataclass
class Watching:
    """A monitor that notes everything; `at` is called after each step with its number."""

    at: Callable[[int], None] = lambda step: None
    said: list[str] = field(default_factory=list)
    resumed_at: list[int] = field(default_factory=list)
    steps: list[tuple[int, float, float | None]] = field(default_factory=list)
    rows: list[dict[str, float]] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.said.append(text)

    def resumed(self, step: int) -> None:
        self.resumed_at.append(step)

    def step(self, step: int, loss: float, score: float | None) -> None:
        self.steps.append((step, loss, score))
        self.at(step)

    def validated(self, metrics: Mapping[str, float]) -> None:
        self.rows.append(dict(metrics))


def stop_at(wanted: int) -> Watching:
    """A monitor that ends the run after this step."""

    def at(step: int) -> None:
        if step == wanted:
            raise Stopped

    return Watching(at)


def run(
    folder: Path,
    config: TrainingConfig | None = None,
    *,
    watching: Watching | None = None,
    resume: bool = False,
    model: Network | None = None,
    seed: int = 0,
) -> tuple[Fit, Network, Watching]:
    """Train the network of a seed in a folder."""
    config, watching = config or training(), watching or Watching()
    torch.manual_seed(seed)
    model = model or network(seed)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=config.accumulate)
    checkpoints = Checkpoints(folder, accelerator, watching.say)
    done = fit(
        model,
        DATA,
        config,
        accelerator=accelerator,
        checkpoints=checkpoints,
        seed=seed,
        resume=resume,
        monitor=watching,
    )
    return done, model, watching


def weights(model: Network) -> dict[str, Tensor]:
    """A copy of a network's weights."""
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    """Whether two sets of weights agree in every bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)

"""Small runs to compare over numbers of processes."""

import json
import os
import random
from collections.abc import Mapping
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from processes import ranks
from pydantic import TypeAdapter
from torch import nn
from training.tiny import Stopped, stop_at

from zeta_core.attention import AttentionConfig
from zeta_core.model import ModelConfig
from zeta_core.tasks import MqarConfig, TaskData
from zeta_core.tasks.language import LanguageConfig
from zeta_core.training import TrainingConfig, fit
from zeta_core.training.checkpoint import Checkpoints

TRAINING = {
    "steps": 24, "batch_size": 16, "learning_rate": 2e-3, "warmup_steps": 4, "eval_every": 12,
    "checkpoint_seconds": 1e9,
}  # fmt: skip
MQAR = MqarConfig(seq_len=16, num_pairs=2, vocab_size=32, num_train=128, num_validation=17, num_test=24)


def write_text(path: Path) -> None:
    """A text of a few words in a random order."""
    bits = random.Random(0)
    path.write_text(
        "".join(f"{bits.choice(('def', 'return', 'import'))} {bits.choice('abc')}\n" for _ in range(3000))
    )


def mixer(kind: str) -> AttentionConfig:
    """A mixer of this kind; ZETA's with few keys."""
    few = {"top_k": 4, "num_chunks": 4, "local_window": 2} if kind == "zeta" else {}
    return TypeAdapter(AttentionConfig).validate_python({"kind": kind, **few})


def data_of(task: str, folder: Path) -> TaskData:
    """The examples of `mqar`, or of `language` from a text in the folder."""
    if task == "mqar":
        return MQAR.build()
    config = LanguageConfig(source="text", path=folder / "text.txt", seq_len=32, max_eval_tokens=1000)
    config.make()
    return config.build()


def losses(
    folder: Path,
    task: str,
    options: Mapping[str, object],
    *,
    place: str,
    kind: str = "zeta",
    dtype: str = "no",
    resume: bool = False,
    stop: int | None = None,
) -> list[float]:
    """The loss of each step, a score and a statistic of the last validation, and the loss of the test.

    place: of its checkpoints. stop: end after so many steps, as a kill would, with the losses till then."""
    watching = stop_at(stop or 0)
    config = TrainingConfig.model_validate({**TRAINING, **options})
    data = data_of(task, folder)
    torch.manual_seed(0)
    model = ModelConfig(d_model=32, num_layers=2, mlp="swiglu" if task == "language" else "gelu").build(
        mixer(kind), vocab_size=data.vocab_size, max_len=data.max_len, num_classes=data.num_classes
    )
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=config.accumulate, mixed_precision=dtype)
    if config.compile:
        torch.compile = torch._dynamo.optimize("eager")  # nothing is built, but its hooks are all there
    if dtype == "bf16":
        model.blocks[1].register_forward_hook(check_dtypes)
    checkpoints = Checkpoints(folder / "runs" / place, accelerator, watching.say)
    try:
        done = fit(
            model, data, config, accelerator=accelerator, checkpoints=checkpoints, seed=0, resume=resume,
            monitor=watching,
        )  # fmt: skip
        if config.sharding != "none" and accelerator.num_processes > 1:
            model.reshard()  # the root keeps what it gathered for the test
            shares = [parameter.to_local().numel() for parameter in model.parameters()]
            assert sum(shares) < 0.6 * sum(parameter.numel() for parameter in model.parameters())
    except Stopped:
        return [loss for _, loss, _ in watching.steps]
    finally:
        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()
    row = watching.rows[-1]
    return [
        *(loss for _, loss, _ in watching.steps),
        row["score"],
        row.get("layer1.entropy", 0.0),
        done.test[-1].loss,
    ]


def check_dtypes(block: nn.Module, *_: object) -> None:
    """What coordinates depend on is never rounded to bf16, though the block's weights may be."""
    found = {name: parameter.dtype for name, parameter in block.named_parameters() if name.startswith("mixer.")}
    assert set(found.values()) == {torch.float32}, found


def launch(folder: Path, jobs: Mapping[str, Mapping[str, object]]) -> dict[str, list[float]]:
    """What `losses` gives for each job, its arguments by their names, one after another in two processes."""
    codes = ranks(_losses, folder, jobs, words=folder / "words")
    assert codes == [0, 0], (folder / "words").read_text()
    found: dict[str, list[float]] = json.loads((folder / "losses.json").read_text())
    return found


def _losses(folder: Path, jobs: Mapping[str, Mapping[str, object]]) -> None:
    """The jobs one after another; the first process writes what came out."""
    found = {name: losses(folder, **{"place": name, **job}) for name, job in jobs.items()}  # type: ignore[arg-type]
    if os.environ["RANK"] == "0":
        (folder / "losses.json").write_text(json.dumps(found))

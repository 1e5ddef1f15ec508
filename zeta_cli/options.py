"""Options that commands share. Defaults live in the configuration classes: an option left out is None."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

MODEL, TRAINING, RUN = "Attention", "Task and training", "Run"


def _tasks() -> list[str]:
    from zeta_core.config import kinds
    from zeta_core.tasks import TaskConfig

    return list(kinds(TaskConfig))


def _attentions() -> list[str]:
    from zeta_core.attention import AttentionConfig
    from zeta_core.config import kinds

    return list(kinds(AttentionConfig))


def _presets() -> list[str]:
    from zeta_core.config import union_members
    from zeta_core.tasks import TaskConfig

    return sorted({name for task in union_members(TaskConfig) for name in getattr(task, "presets", {})})


def _among(*words: str) -> Callable[[], list[str]]:
    return lambda: list(words)


SCORES = ("cauchy", "negative_euclidean", "inverse_euclidean", "normalized_dot")

Task = Annotated[str | None, typer.Argument(metavar="TASK", help="See `zeta list`.", autocompletion=_tasks)]
Dk = Annotated[int | None, typer.Option("--dk", help="Dimensions of queries and keys.", rich_help_panel=MODEL)]
TopK = Annotated[int | None, typer.Option("--k", help="Keys a query attends to.", rich_help_panel=MODEL)]
Chunks = Annotated[int | None, typer.Option("--chunks", help="Chunks of the sequence.", rich_help_panel=MODEL)]
Softmax = Annotated[
    str | None,
    typer.Option(
        "--softmax", help=f"Score: {', '.join(SCORES)}.", autocompletion=_among(*SCORES), rich_help_panel=MODEL
    ),
]
Curves = Annotated[int | None, typer.Option("--curves", help="Z-order curves: 1, 3 or 6.", rich_help_panel=MODEL)]
Gamma = Annotated[
    str | None, typer.Option("--gamma", help="`trained`, or a number to fix it at.", rich_help_panel=MODEL)
]
Attention = Annotated[
    str | None,
    typer.Option(
        "--attention", help="The mixer; see `zeta list`.", autocompletion=_attentions, rich_help_panel=MODEL
    ),
]
Seq = Annotated[int | None, typer.Option("--seq", help="Tokens a sequence.", rich_help_panel=TRAINING)]
Preset = Annotated[
    str | None,
    typer.Option("--preset", help="Which of the task's defaults.", autocompletion=_presets, rich_help_panel=TRAINING),
]
Steps = Annotated[int | None, typer.Option("--steps", help="Optimizer steps.", rich_help_panel=TRAINING)]
BatchSize = Annotated[int | None, typer.Option("--batch-size", help="Examples a step.", rich_help_panel=TRAINING)]
Lr = Annotated[float | None, typer.Option("--lr", help="Highest learning rate.", rich_help_panel=TRAINING)]
Seed = Annotated[
    int | None, typer.Option("--seed", help="Of weights and order of batches.", rich_help_panel=TRAINING)
]
Device = Annotated[str | None, typer.Option("--device", help="auto, cpu, cuda, cuda:N, mps.", rich_help_panel=RUN)]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        help="auto, fp32, bf16, fp16.",
        autocompletion=_among("auto", "fp32", "bf16", "fp16"),
        rich_help_panel=RUN,
    ),
]
Impl = Annotated[
    str | None,
    typer.Option(
        "--impl",
        help="auto, reference, triton.",
        autocompletion=_among("auto", "reference", "triton"),
        rich_help_panel=RUN,
    ),
]
ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="A YAML file of the same fields.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="A.B=VALUE", help="Set any field by its path; repeatable.")
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where results/ and runs/ go.", rich_help_panel=RUN)]
Wandb = Annotated[
    str,
    typer.Option(
        "--wandb",
        help="auto, online, offline, off.",
        autocompletion=_among("auto", "online", "offline", "off"),
        rich_help_panel=RUN,
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with this configuration's run.", rich_help_panel=RUN)]
Force = Annotated[bool, typer.Option("--force", help="Start over, whatever is there.", rich_help_panel=RUN)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the configuration as YAML and stop.")]
OUT = Path("out")


def gamma_value(text: str | None) -> str | float | None:
    """`--gamma` as a field's value: a number if it is one."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def words(texts: list[str] | None) -> tuple[str, ...] | None:
    """`a,b` and repeated options as words."""
    return None if texts is None else tuple(word.strip() for text in texts for word in text.split(","))

"""`zeta train`."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from . import options as o
from .app import app
from .console import Interrupted, console, is_main_process, note_line

if TYPE_CHECKING:
    from zeta_core.records import TrainRow
    from zeta_core.studies.train import TrainResult


@app.command()
def train(
    task: o.Task = None,
    dk: o.Dk = None,
    k: o.TopK = None,
    chunks: o.Chunks = None,
    softmax: o.Softmax = None,
    curves: o.Curves = None,
    gamma: o.Gamma = None,
    attention: o.Attention = None,
    seq: o.Seq = None,
    preset: o.Preset = None,
    steps: o.Steps = None,
    batch_size: o.BatchSize = None,
    lr: o.Lr = None,
    seed: o.Seed = None,
    device: o.Device = None,
    dtype: o.Dtype = None,
    impl: o.Impl = None,
    config: o.ConfigFile = None,
    settings: o.Set = None,
    out: o.Out = o.OUT,
    wandb: o.Wandb = "auto",
    resume: o.Resume = False,
    force: o.Force = False,
    dry_run: o.DryRun = False,
) -> None:
    """Train one model on TASK and print its test scores.

    For example: zeta train mqar --dk 3"""
    from zeta_core.config import to_yaml
    from zeta_core.errors import ConfigError
    from zeta_core.studies.train_run import dropped_settings, make_run

    from .progress import TrainProgress, quiet_imports, wandb_mode

    if resume and force:
        raise ConfigError("--resume and --force contradict each other; give one")
    mode = wandb_mode(wandb)
    flags = {
        "--attention": ("attention.kind", attention),
        "--dk": ("attention.d_k", dk),
        "--k": ("attention.top_k", k),
        "--chunks": ("attention.num_chunks", chunks),
        "--softmax": ("attention.score", softmax),
        "--curves": ("attention.curves", curves),
        "--gamma": ("attention.gamma", o.gamma_value(gamma)),
        "--seq": ("task.seq_len", seq),
        "--steps": ("training.steps", steps),
        "--batch-size": ("training.batch_size", batch_size),
        "--lr": ("training.learning_rate", lr),
        "--seed": ("seed", seed),
        "--device": ("device", device),
        "--dtype": ("dtype", dtype),
        "--impl": ("impl", impl),
    }
    run = make_run(task, config=config, preset=preset, settings=settings or (), flags=flags)
    for line in dropped_settings(settings or (), flags):
        note_line(line)
    if dry_run:
        print(to_yaml(run.model_dump(mode="json")), end="")
        return
    kind, chosen = type(run.task), preset or type(run.task).default_preset
    about = None
    if config is None and chosen in kind.about:
        about = f"preset {chosen}: {kind.about[chosen]}; --preset paper is the full setting"
    quiet_imports()
    # torch would import it with the first optimizer, when Ctrl-C has more to say than during an import.
    import torch._dynamo  # noqa: F401

    from zeta_core.studies.train import run_train
    from zeta_core.studies.train_failures import RunInterrupted

    main_process = is_main_process()
    try:
        shown = TrainProgress(main_process, about)
        result = run_train(run, out=out, monitor=shown, resume=resume, force=force, wandb=mode)
    except KeyboardInterrupt as stop:
        words = sys.argv[1:]
        if not isinstance(stop, RunInterrupted):
            raise Interrupted(f"interrupted before it trained; start again with: zeta {shlex.join(words)}") from None
        words = [word for word in words if word not in ("--resume", "--force")]
        raise Interrupted(f"interrupted; go on with: zeta {shlex.join(words)} --resume") from None
    if main_process:
        show(result)


def show(result: TrainResult) -> None:
    """Print a run's test scores as a table."""
    from rich.table import Table

    from zeta_core.studies.paper import lra_words

    if not result.fresh:
        print(f"{result.run_id} is finished already; --force repeats it")
    first = result.rows[0]
    table = Table(title=f"{first.task}, {first.attention}: test scores")
    beside = [name for name in ("majority", "reachable") if getattr(first, name) is not None]
    slices: dict[str, list[TrainRow]] = {}
    for row in result.rows:
        slices.setdefault(row.slice, []).append(row)
    for name in ("slice", *(row.metric for row in slices[first.slice]), *beside):
        table.add_column(name.replace("_", " "), justify="left" if name == "slice" else "right")
    for name, rows in slices.items():
        scores = (f"{row.value:.4f}" if abs(row.value or 0) < 1e4 else f"{row.value:.4g}" for row in rows)
        table.add_row(name, *scores, *(f"{getattr(rows[0], column):.3f}" for column in beside))
    out = console()
    out.print(table)
    if first.majority is not None:
        source = f" ({first.source})" if first.source else ""
        out.print(
            f"{first.examples:,} test examples{source}, seed {first.seed}; majority: what always saying the "
            "commonest class scores",
            soft_wrap=True,
        )
    if words := lra_words(first.task):
        out.print(words, soft_wrap=True)
    out.print(
        f"best step {first.best_step} of {first.steps}, {first.wall_s:.0f} s on {first.device}, {first.dtype}, "
        f"{first.impl}",
        soft_wrap=True,
    )
    out.print(
        f"rows in {result.folder.parent.parent / 'results' / 'train.csv'}, run in {result.folder}", soft_wrap=True
    )

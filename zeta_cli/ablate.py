"""`zeta ablate`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from . import options as o
from .app import app
from .console import Interrupted, note_line

if TYPE_CHECKING:
    from zeta_core.studies.launch import Launcher
    from zeta_core.studies.sweep import Retry

    from .ablate_view import AblateProgress

SWEEP = "Sweep"


def _axes() -> list[str]:
    from zeta_core.studies.ablate.config import axis_kinds

    return axis_kinds()


@app.command()
def ablate(
    axis: Annotated[
        str | None,
        typer.Argument(
            metavar="AXIS", help="See `zeta list`; several by commas; or a field's path.", autocompletion=_axes
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", help="See `zeta list`.", autocompletion=o._tasks, rich_help_panel=SWEEP)
    ] = None,
    values: Annotated[
        str | None, typer.Option("--values", metavar="A,B", help="Some values of the axis.", rich_help_panel=SWEEP)
    ] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="0,1", help="Default 0,1,2.", rich_help_panel=SWEEP)
    ] = None,
    on: Annotated[
        str | None,
        typer.Option("--on", help="zeta, transformer (full causal attention), both.", rich_help_panel=SWEEP),
    ] = None,
    preset: o.Preset = None,
    steps: o.Steps = None,
    attention: o.Attention = None,
    device: o.Device = None,
    dtype: o.Dtype = None,
    impl: o.Impl = None,
    config: o.ConfigFile = None,
    settings: o.Set = None,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", help="Runs at a time, each a process.", rich_help_panel=o.RUN)
    ] = None,
    slurm: Annotated[
        list[str] | None,
        typer.Option(
            "--slurm", metavar="KEY=VALUE", help="Run on Slurm; submitit's slurm_ options.", rich_help_panel=o.RUN
        ),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="For each run.", rich_help_panel=o.RUN)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with unfinished runs' checkpoints.", rich_help_panel=o.RUN)
    ] = False,
    retry: Annotated[
        str,
        typer.Option(
            "--retry", help="all, failed, oom, timeout, killed: which runs to do again.", rich_help_panel=o.RUN
        ),
    ] = "all",
    out: o.Out = o.OUT,
    wandb: o.Wandb = "auto",
    dry_run: o.DryRun = False,
) -> int:
    """Train a model for each value of AXIS and each seed; print mean and spread beside the paper's words.

    For example: zeta ablate dk --task mqar --values 1,3 -j 2"""
    from zeta_core.config import to_yaml
    from zeta_core.studies.ablate.config import make_ablate
    from zeta_core.studies.ablate.dropped import dropped_lines

    from .ablate_view import AblateProgress, show
    from .progress import quiet_imports, wandb_mode

    quiet_imports()
    mode, again = wandb_mode(wandb), retry_status(retry)
    flags = {
        "--attention": ("attention.kind", attention),
        "--steps": ("training.steps", steps),
        "--device": ("device", device),
        "--dtype": ("dtype", dtype),
        "--impl": ("impl", impl),
    }
    ablate, points = make_ablate(
        axis,
        task=task,
        config=config,
        preset=preset,
        values=values,
        seeds=seeds,
        on=on,
        settings=settings or (),
        flags=flags,
        say=note_line,
    )
    for line in dropped_lines(ablate, settings or (), flags):
        note_line(line)
    if dry_run:
        print(to_yaml(ablate.model_dump(mode="json")), end="")
        return 0
    import torch._dynamo  # noqa: F401 (with the first optimizer, where Ctrl-C has more to say than in an import)

    from zeta_core.studies.ablate.study import run_ablate

    with AblateProgress() as progress:
        launcher = _launcher(progress, out, jobs, slurm, timeout)
        try:
            result = run_ablate(
                ablate,
                points,
                out=out,
                launcher=launcher,
                monitor=progress,
                resume=resume,
                retry=again,
                timeout_s=timeout,
                wandb=mode,
            )
        except KeyboardInterrupt:
            words = [word for word in sys.argv[1:] if word != "--resume"]
            raise Interrupted(
                f"interrupted; what is finished is kept; go on with: zeta {shlex.join(words)} --resume"
            ) from None
    show(result, ablate)
    return int(bool(result.sweep.bad))


def retry_status(text: str) -> Retry:
    """`--retry` checked. Raises: ConfigError."""
    from zeta_core.errors import ConfigError
    from zeta_core.layers import did_you_mean
    from zeta_core.studies.sweep import Retry

    known = get_args(Retry)
    if text not in known:
        raise ConfigError(f"--retry {text!r} is not one of {', '.join(known)}{did_you_mean(text, known)}")
    return cast("Retry", text)


def _launcher(
    progress: AblateProgress,
    out: Path,
    jobs: int | None,
    slurm: list[str] | None,
    timeout: float | None,
) -> Launcher:
    """In this process unless -j or --slurm says otherwise."""
    from zeta_core.config import parse_yaml
    from zeta_core.errors import ConfigError
    from zeta_core.studies.launch import InProcess, Submitit

    from .ablate_view import RunInBar

    if jobs is not None and jobs < 1:
        raise ConfigError(f"-j {jobs}: must be 1 or more")
    if timeout is not None and not timeout > 0:
        raise ConfigError(f"--timeout {timeout:g}: must be more than 0 seconds")
    if jobs is None and slurm is None:
        return InProcess(RunInBar(progress), timeout)
    given: dict[str, object] = {}
    for text in slurm or ():
        key, equals, value = text.partition("=")
        if not equals or not key or not value:
            raise ConfigError(f"--slurm {text!r}: write KEY=VALUE, such as partition=gpu")
        given[key if key.startswith("slurm_") else f"slurm_{key}"] = parse_yaml(value, f"--slurm {text}")
    return Submitit(
        out / "runs" / "jobs",
        width=jobs or 1,
        cluster="local" if slurm is None else "slurm",
        timeout_s=timeout,
        slurm=given,
    )

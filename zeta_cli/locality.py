"""`zeta locality`."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from . import options as o
from .app import app
from .console import Interrupted, console

RANDOM, CHECKPOINT, HOW = "Random points", "A trained run", "How"


def _points() -> list[str]:
    from zeta_core.studies.locality.points import POINTS

    return list(POINTS)


@app.command()
def locality(
    points: Annotated[
        list[str] | None,
        typer.Option(
            "--points",
            help="uniform, gaussian, clustered, projected; by commas.",
            autocompletion=_points,
            rich_help_panel=RANDOM,
        ),
    ] = None,
    dk: Annotated[
        list[str] | None,
        typer.Option("--dk", metavar="N", help="Dimensions, by commas.", rich_help_panel=RANDOM),
    ] = None,
    seq: Annotated[
        list[str] | None,
        typer.Option("--seq", metavar="N", help="Points: 512,2048, or 512..65536.", rich_help_panel=RANDOM),
    ] = None,
    curves: Annotated[
        list[str] | None,
        typer.Option(
            "--curves",
            metavar="N",
            help="Z-order curves that share the neighbours: 1, 3, 6; by commas.",
            rich_help_panel=RANDOM,
        ),
    ] = None,
    bits: Annotated[
        list[str] | None,
        typer.Option("--bits", metavar="N", help="Bits a dimension of the grid, by commas.", rich_help_panel=RANDOM),
    ] = None,
    seeds: Annotated[
        list[str] | None,
        typer.Option("--seeds", metavar="N", help="Of the points, by commas.", rich_help_panel=RANDOM),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="RUN",
            help="A run's folder or id: measure its own queries and keys.",
            rich_help_panel=CHECKPOINT,
        ),
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option("--examples", help="Validation examples of each kind.", rich_help_panel=CHECKPOINT),
    ] = None,
    num_neighbours: Annotated[
        int | None,
        typer.Option("--num-neighbours", help="Nearest neighbours that are looked for.", rich_help_panel=HOW),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="auto, cpu, cuda, cuda:N.", rich_help_panel=HOW)
    ] = None,
    plot: Annotated[
        bool, typer.Option("--plot", help="Draw the overlap by d_K: results/locality.png.", rich_help_panel=HOW)
    ] = False,
    config: o.ConfigFile = None,
    settings: o.Set = None,
    out: o.Out = o.OUT,
    wandb: o.Wandb = "auto",
    dry_run: o.DryRun = False,
) -> int:
    """Measure how many true neighbours Z-order curves find, at random points or in a trained run.

    For example: zeta locality --points uniform --dk 1,2,3; zeta locality --checkpoint RUN"""
    from zeta_core.config import to_yaml
    from zeta_core.errors import ConfigError
    from zeta_core.studies.locality.config import make_locality
    from zeta_core.studies.ranges import whole_numbers

    from .locality_view import LocalityProgress, show
    from .progress import quiet_imports, wandb_mode

    quiet_imports()
    run = make_locality(
        config=config,
        settings=settings or (),
        flags={
            "--points": ("points", o.words(points)),
            "--dk": ("d_ks", whole_numbers("--dk", dk)),
            "--seq": ("seq_lens", whole_numbers("--seq", seq)),
            "--curves": ("curves", whole_numbers("--curves", curves)),
            "--bits": ("bits", whole_numbers("--bits", bits)),
            "--seeds": ("seeds", whole_numbers("--seeds", seeds)),
            "--checkpoint": ("checkpoint", checkpoint),
            "--examples": ("num_examples", examples),
            "--num-neighbours": ("num_neighbours", num_neighbours),
            "--device": ("device", device),
        },
    )
    if plot and run.checkpoint is not None:
        raise ConfigError("--plot draws random points over d_k, and a checkpoint has one d_k; leave one of them out")
    mode = wandb_mode(wandb)
    if dry_run:
        print(to_yaml(run.model_dump(mode="json")), end="")
        return 0
    from zeta_core.studies.locality.study import run_locality

    with LocalityProgress() as progress:
        try:
            result = run_locality(run, out=out, monitor=progress, wandb=mode)
        except KeyboardInterrupt:
            again = shlex.join(sys.argv[1:])
            raise Interrupted(f"interrupted; the rows so far are kept; from the start: zeta {again}") from None
    show(result)
    if plot:
        from zeta_core.studies.locality.plot import plot as draw

        picture = result.table.with_suffix(".png")
        draw(result.rows, picture)
        console().print(f"picture in {picture}", soft_wrap=True)
    return 0

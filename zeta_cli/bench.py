"""`zeta bench` and `zeta bench compare`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from . import options as o
from .app import app
from .console import Interrupted, console

WHAT, HOW = "What is timed", "How"


def _providers() -> list[str]:
    from zeta_core.studies.bench.presets import PROVIDERS

    return list(PROVIDERS)


bench_app = typer.Typer()
app.add_typer(bench_app, name="bench")


@bench_app.callback(invoke_without_command=True)
def bench(
    context: typer.Context,
    seq: Annotated[
        list[str] | None,
        typer.Option("--seq", metavar="N", help="Tokens: 4096, or 4096..65536; repeatable.", rich_help_panel=WHAT),
    ] = None,
    providers: Annotated[
        list[str] | None,
        typer.Option(
            "--providers",
            help="Some of `zeta list`'s, by commas; fla_* and mixers only when named.",
            autocompletion=_providers,
            rich_help_panel=WHAT,
        ),
    ] = None,
    preset: Annotated[
        str | None, typer.Option("--preset", help="default, paper, long, operator.", rich_help_panel=WHAT)
    ] = None,
    batch: Annotated[int | None, typer.Option("--batch", help="Sequences.", rich_help_panel=WHAT)] = None,
    heads: Annotated[int | None, typer.Option("--heads", help="Heads.", rich_help_panel=WHAT)] = None,
    dk: Annotated[
        int | None, typer.Option("--dk", help="Dimensions of ZETA's queries and keys.", rich_help_panel=WHAT)
    ] = None,
    dv: Annotated[
        int | None,
        typer.Option("--dv", help="Dimensions of values (of all, in dense attention).", rich_help_panel=WHAT),
    ] = None,
    k: Annotated[int | None, typer.Option("--k", help="Keys a query attends to.", rich_help_panel=WHAT)] = None,
    chunks: Annotated[
        int | None, typer.Option("--chunks", help="Chunks of the sequence.", rich_help_panel=WHAT)
    ] = None,
    causal: Annotated[
        bool | None, typer.Option("--causal/--bidirectional", help="Who sees whom.", rich_help_panel=WHAT)
    ] = None,
    points: Annotated[
        list[str] | None,
        typer.Option(
            "--points", help="random, vocabulary, equal, clusters, drifting; by commas.", rich_help_panel=WHAT
        ),
    ] = None,
    mode: Annotated[
        list[str] | None, typer.Option("--mode", help="forward, forward_backward; by commas.", rich_help_panel=HOW)
    ] = None,
    timing: Annotated[
        list[str] | None, typer.Option("--timing", help="eager, graph; by commas.", rich_help_panel=HOW)
    ] = None,
    budget: Annotated[
        float | None, typer.Option("--budget", metavar="SECONDS", help="For a row's repeats.", rich_help_panel=HOW)
    ] = None,
    dtype: Annotated[str | None, typer.Option("--dtype", help="auto, fp32, bf16, fp16.", rich_help_panel=HOW)] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="auto, cpu, cuda, cuda:N.", rich_help_panel=HOW)
    ] = None,
    plot: Annotated[
        bool, typer.Option("--plot", help="Draw times and memory: results/bench*.png.", rich_help_panel=HOW)
    ] = False,
    config: o.ConfigFile = None,
    settings: o.Set = None,
    out: o.Out = o.OUT,
    wandb: o.Wandb = "auto",
    dry_run: o.DryRun = False,
) -> int:
    """Time attention operators: ZETA against what one would use instead.

    For example: zeta bench --seq 65536; zeta bench compare old.csv new.csv"""
    if context.invoked_subcommand is not None:
        return 0
    from zeta_core.config import to_yaml
    from zeta_core.studies.bench.config import make_bench
    from zeta_core.studies.ranges import whole_numbers

    from .bench_view import BenchProgress, show
    from .progress import quiet_imports, wandb_mode

    quiet_imports()
    runs = make_bench(
        preset=preset,
        config=config,
        settings=settings or (),
        flags={
            "--seq": ("seq_lens", whole_numbers("--seq", seq, least=1)),
            "--providers": ("providers", o.words(providers)),
            "--batch": ("batch", batch),
            "--heads": ("heads", heads),
            "--dk": ("d_k", dk),
            "--dv": ("d_v", dv),
            "--k": ("top_k", k),
            "--chunks": ("num_chunks", chunks),
            "--causal/--bidirectional": ("causal", causal),
            "--points": ("points", o.words(points)),
            "--mode": ("modes", o.words(mode)),
            "--timing": ("timings", o.words(timing)),
            "--budget": ("budget_s", budget),
            "--dtype": ("dtype", dtype),
            "--device": ("device", device),
        },
    )
    if dry_run:
        for run in runs:
            print(("---\n" if len(runs) > 1 else "") + to_yaml(run.model_dump(mode="json")), end="")
        return 0
    from zeta_core.studies.bench.study import run_bench

    with BenchProgress() as progress:
        try:
            result = run_bench(runs, out=out, monitor=progress, wandb=wandb_mode(wandb))
        except KeyboardInterrupt:
            again = shlex.join(sys.argv[1:])
            raise Interrupted(f"interrupted; the rows so far are kept; from the start: zeta {again}") from None
    show(result)
    if plot and not any(row.status == "ok" for row in result.rows):
        console().print("no picture: nothing was timed")
    elif plot:
        from zeta_core.studies.bench.plot import plot as draw

        name = "bench" if runs[0].preset == "default" else f"bench_{runs[0].preset}"
        picture = result.table.with_name(f"{name}.png")
        draw(result.rows, picture)
        console().print(f"picture in {picture}", soft_wrap=True)
    return int(bool(result.bad))


@bench_app.command()
def compare(
    old: Annotated[Path, typer.Argument(metavar="OLD.csv")],
    new: Annotated[Path, typer.Argument(metavar="NEW.csv")],
) -> int:
    """Compare two tables of the same settings: exit 1 if something became slower or larger."""
    from zeta_core.studies.bench.compare import compare as matches

    from .bench_view import show_matches

    found = matches(old, new)
    show_matches(found)
    return int(any(match.worse for match in found.rows))

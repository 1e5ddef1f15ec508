"""`zeta data make`, `zeta data check` and `zeta data list`."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from . import options as o
from .app import app
from .console import Interrupted, console


def _generated() -> list[str]:
    from zeta_core.studies.data import generated_kinds

    return generated_kinds()


data_app = typer.Typer()
app.add_typer(data_app, name="data")

Examples = Annotated[
    list[str] | None,
    typer.Option("--examples", metavar="SPLIT=N", help="How many of train, validation or test; repeatable."),
]
Fields = Annotated[
    list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Set a field of the task; repeatable.")
]


@data_app.callback(invoke_without_command=True)
def data(context: typer.Context) -> None:
    """Make, import and check the examples that tasks keep on disk."""
    if context.invoked_subcommand is None:
        print(context.get_help(), end="")


@data_app.command()
def make(
    task: Annotated[str, typer.Argument(metavar="TASK", help="See `zeta list`.", autocompletion=_generated)],
    preset: o.Preset = None,
    settings: Fields = None,
    examples: Examples = None,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", min=1, help="Processes; as many as there are cores by default.")
    ] = None,
) -> None:
    """Make a task's examples under $ZETA_DATA or ~/.cache/zeta, or go on making them.

    For example: zeta data make pathfinder --preset paper -j 8"""
    from zeta_core.studies.data import generated_config

    from .data_view import MakeProgress

    config = generated_config(task, preset=preset, settings=settings or (), examples=examples or ())
    workers = jobs or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    if config.seconds is not None and config.seconds < 2 * WORKER_SECONDS:
        workers = 1
    began = time.perf_counter()
    with MakeProgress(config.total, f"{task}: examples") as progress:
        try:
            made = config.make(workers=workers, report=progress.report, reading=progress.reading)
        except KeyboardInterrupt:
            again = shlex.join(sys.argv[1:])
            raise Interrupted(f"interrupted; what was made is kept; go on with: zeta {again}") from None
    seconds = time.perf_counter() - began
    what = f"{progress.made:,} examples made in {seconds:.1f} s" if progress.made else "everything was there"
    kept = f", {progress.kept:,} were there" if progress.kept else ""
    console().print(
        f"{task}: {what}{kept}; {made.manifest.size / 2**20:.1f} MiB in {made.folder}", soft_wrap=True, markup=False
    )


WORKER_SECONDS = 4.0
"""A process takes about so long to begin; quicker jobs need only one."""


@data_app.command()
def check(
    task: Annotated[str, typer.Argument(metavar="TASK", help="See `zeta list`.", autocompletion=o._tasks)],
    path: Annotated[Path | None, typer.Argument(metavar="PATH", help="A folder of examples.")] = None,
    preset: o.Preset = None,
    settings: Fields = None,
    examples: Examples = None,
) -> None:
    """Read a task's examples: numbers, classes, lengths, and duplicates inside splits and across them.

    For example: zeta data check listops"""
    from zeta_core.studies.data import check_data, find_data, task_config

    from .data_view import MakeProgress, show_check

    config = task_config(task, preset=preset, settings=settings or (), examples=examples or ())
    there = find_data(task, path, config)
    total = sum(record.examples for record in there.manifest.splits.values())
    with MakeProgress(total, f"{task}: read") as progress:
        found = check_data(there, lambda done, total: progress.report("train", done, total, True))
    show_check(found)


@data_app.command("list")
def list_folders() -> None:
    """List what lies under $ZETA_DATA or ~/.cache/zeta."""
    from zeta_core.studies.data import list_data
    from zeta_core.tasks.store import data_root

    from .data_view import show_list

    show_list(data_root(), list_data())

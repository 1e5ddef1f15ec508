"""`zeta export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options as o
from .app import app
from .console import console, note_line


@app.command()
def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder or id under --out.")],
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="Where the model goes; new or empty.")],
    out: o.Out = o.OUT,
) -> None:
    """Write a trained model to a folder of its own: weights, configuration, tokenizer.

    For example: zeta export RUN --to model; in Python, zeta_core.load("model") is its network"""
    from .progress import quiet_imports

    quiet_imports()
    from zeta_core.studies.export import export as write
    from zeta_core.studies.saved_model import find_model

    saved = find_model(run, out)
    found = write(saved, to)
    if not saved.finished:
        note_line("the run's training has not come to an end: these are its best weights so far")
    console().print(
        f"{found.folder}: {', '.join(found.files)} ({found.size / 2**20:,.1f} MiB); "
        f"zeta_core.load({str(found.folder)!r}) gives the network",
        markup=False,
        soft_wrap=True,
    )

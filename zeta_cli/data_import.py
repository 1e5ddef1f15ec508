"""`zeta data import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import console
from .data import data_app


def _imported() -> list[str]:
    from zeta_core.studies.data_import import imported_kinds

    return list(imported_kinds())


@data_app.command("import")
def import_files(
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="text, retrieval, image, ...", autocompletion=_imported)
    ],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder or file; for text also datasets:NAME.")],
    split: Annotated[
        list[str] | None,
        typer.Option("--split", metavar="SPLIT=FILE", help="A split's file in PATH, if its name is its own."),
    ] = None,
    drop_empty: Annotated[
        bool, typer.Option("--drop-empty", help="Leave out, and count, examples with an empty document.")
    ] = False,
) -> None:
    """Bring a task's files into the store, checked: all of them, or nothing if one is wrong.

    For example: zeta data import text aclImdb"""
    from zeta_core.studies.data import check_data
    from zeta_core.studies.data_import import import_task

    from .data_view import MakeProgress, show_check

    with MakeProgress(None, f"{task}: import") as progress:
        found = import_task(task, path, split or (), drop_empty=drop_empty, report=progress.report)
    show_check(check_data(found.data))
    out = console()
    for line in found.notes:
        out.print(line, soft_wrap=True, markup=False)
    out.print(
        f"{task}: {found.source} in {found.data.folder}; train on it with: zeta train {found.data.manifest.task}",
        soft_wrap=True,
        markup=False,
    )

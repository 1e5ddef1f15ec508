"""`zeta eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options as o
from .app import app
from .console import Interrupted

Run = Annotated[str, typer.Argument(metavar="RUN", help="A run's folder or id under --out, or an exported folder.")]


def _sets() -> list[str]:
    from zeta_core.studies.zero_shot.sets import SETS

    return list(SETS)


@app.command("eval")
def evaluate(
    run: Run,
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            "--tasks",
            help="Sets, by commas: piqa, arc_easy, arc_challenge, hellaswag, boolq, openbookqa, wsc273, mmlu.",
            autocompletion=_sets,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="DIR", help="The folder of the sets' JSON lines; $ZETA_DATA/zero_shot if left out."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", help="Only the first questions of each set, of mmlu of each subject.")
    ] = None,
    gamma: Annotated[
        list[str] | None,
        typer.Option("--gamma", help="trained, reset (to the start of training), or a number; by commas."),
    ] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:N.")] = "auto",
    out: o.Out = o.OUT,
) -> int:
    """Put multiple-choice questions to a language model that was not trained on them (zero-shot).

    For example: zeta eval RUN --tasks piqa,arc_easy --data zero_shot --limit 100"""
    from zeta_core.errors import OptionError
    from zeta_core.studies.zero_shot.sets import SETS, chosen
    from zeta_core.studies.zero_shot.study import check_harness, gammas_asked, read_sets, run_eval
    from zeta_core.tasks.store import data_root

    from .eval_view import EvalProgress, show
    from .progress import quiet_imports

    if limit is not None and limit < 1:
        raise OptionError(f"--limit: limit={limit} must be at least 1")
    sets = chosen(o.words(tasks) or list(SETS))
    gammas = gammas_asked(o.words(gamma) or ["trained"])
    quiet_imports()
    check_harness()
    from zeta_core.studies.saved_model import find_model
    from zeta_core.studies.train_run import resolve_device

    where, saved = resolve_device(device), find_model(run, out)
    asked = read_sets(sets, data or data_root() / "zero_shot", limit)
    with EvalProgress() as progress:
        try:
            rows = run_eval(saved, asked, gammas=gammas, device=where, out=out, monitor=progress)
        except KeyboardInterrupt:
            raise Interrupted("interrupted; the sets so far are kept; ask the others with --tasks") from None
    show(rows)
    return 0

"""A run by its folder or its id."""

from __future__ import annotations

import difflib
from pathlib import Path

from zeta_core.errors import RequestError
from zeta_core.run_folder import RunFolder

SHOWN = 3


def find_run(name: str, runs: Path, *, given: str = "--checkpoint") -> RunFolder:
    """The folder of a run that was begun; given: how it was asked for.

    Raises: RequestError that names the nearest ids."""
    for path in (Path(name), runs / name):
        folder = RunFolder(path.resolve())
        if folder.exists():
            return folder
    there = sorted(path.parent.name for path in runs.glob("*/config.yaml"))
    near = difflib.get_close_matches(name, there, n=SHOWN, cutoff=0.0)
    hint = f"; the nearest there: {', '.join(near)}" if near else ", which holds none; `zeta train` makes one"
    raise RequestError(f"{given} {name}: neither a run's folder nor the id of a run under {runs}{hint}")

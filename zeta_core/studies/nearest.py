"""Which earlier run is nearest to a configuration that has none: for a helpful refusal to resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zeta_core.config import Layer, identity, read_yaml
from zeta_core.errors import ConfigError
from zeta_core.layers import build, differences

from .train_run import TrainRun

SHOWN = 6


def no_such_run(run: TrainRun, run_id: str, runs: Path) -> str:
    """The message for --resume with no run of this configuration under the folder `runs`."""
    wanted = identity(run)
    stored = [(path.parent.name, found) for path in sorted(runs.glob("*/config.yaml")) if (found := _stored(path))]
    message = f"--resume: {runs} holds no run of this configuration ({run_id})"
    if not stored:
        return f"{message} nor any other; leave --resume out to start it"
    name, found = min(stored, key=lambda item: len(differences(item[1], wanted)))
    paths = differences(found, wanted)
    if not paths:
        return f"{message}; {name} has the same configuration but other data or another version of the program"
    shown = [f"{path} ({_at(found, path)} there, {_at(wanted, path)} here)" for path in paths[:SHOWN]]
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    reason = (
        "; a run cannot be made longer, since its learning rates depend on the number of steps"
        if paths == ["training.steps"]
        else ""
    )
    return f"{message}; the nearest, {name}, differs in {', '.join(shown)}{more}{reason}"


def _stored(path: Path) -> dict[str, Any] | None:
    try:
        layer: Layer = read_yaml(path)
        return identity(build(TrainRun, layer))
    except ConfigError:
        return None


def _at(values: dict[str, Any], path: str) -> object:
    found: Any = values
    for name in path.split("."):
        found = found.get(name, "none") if isinstance(found, dict) else "none"
    return found

"""Runs every file under experiments/ that this machine suffices for: python -m zeta_core.studies.reproduce --out OUT

Each through its own `zeta` command, one after another; what is finished is not done again, so it can be interrupted
and started again. --scale smoke takes each file's small version and ignores what machine it is for."""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from zeta_core.config import Layer, to_yaml
from zeta_core.errors import ConfigError, DataMissing, RequestError
from zeta_core.experiment import Experiment, read_experiment
from zeta_core.records import versions
from zeta_core.run_folder import RunFolder, check_writable

from .ablate.config import make_ablate
from .sweep import Fingerprints
from .train_run import make_run

ORDER = ("bench", "locality", "train", "scaling", "ablate")
"""Short ones first."""
DONE = "reproduced.json"
"""In OUT/runs: what was finished."""
Scale = Literal["full", "smoke"]


@dataclass(frozen=True)
class Step:
    """One experiment: the command that runs it, or why it is skipped."""

    experiment: Experiment
    command: list[str]
    skipped: str = ""


def plan(root: Path, out: Path, scale: Scale, jobs: int | None) -> list[Step]:
    """The experiments under a folder, in order. Raises: ConfigError if a file is no experiment."""
    found = [read_experiment(path) for path in sorted(root.rglob("*.yaml"))]
    if not found:
        raise ConfigError(f"{root}: holds no experiments (*.yaml); run this in the repository's root")
    for experiment in found:
        if experiment.kind not in ORDER:
            raise ConfigError(f"{experiment.path}: kind={experiment.kind!r}: must be one of {', '.join(ORDER)}")
    found.sort(key=lambda experiment: ORDER.index(experiment.kind))
    return [_step(experiment, out, scale, jobs) for experiment in found]


def _step(experiment: Experiment, out: Path, scale: Scale, jobs: int | None) -> Step:
    gpu = torch.cuda.is_available()
    if scale == "full" and experiment.needs == "gpu" and not gpu:
        return Step(experiment, [], "needs a CUDA GPU, and this machine has none")
    if scale == "smoke" and not experiment.smoke.values:
        return Step(experiment, [], "has no small version")
    file = experiment.path
    if scale == "smoke":
        file = out / "configs" / experiment.kind / experiment.path.name
    module = ["zeta_core.studies.scaling"] if experiment.kind == "scaling" else ["zeta_cli", experiment.kind]
    command = [sys.executable, "-m", *module, "--config", str(file), "--out", str(out)]
    if experiment.kind == "ablate":
        command += ["--resume", *(["-j", str(jobs)] if jobs else [])]
    elif experiment.kind in ("bench", "locality"):
        command.append("--plot")
    return Step(experiment, command)


def run(steps: Sequence[Step], out: Path, scale: Scale) -> int:
    """Run the steps, then `zeta report` on all rows unless all were skipped; what fails stops nothing.

    Returns: how many failed."""
    failed, skipped = [], 0
    began = time.perf_counter()
    for number, step in enumerate(steps, 1):
        name = step.experiment.path
        if step.skipped:
            skipped += 1
            print(f"[{number}/{len(steps)}] {name}: skipped: {step.skipped}", flush=True)
            continue
        done, mark = _done(out), _mark(step, scale)
        if mark in done:
            print(f"[{number}/{len(steps)}] {name}: done before", flush=True)
            continue
        minutes = (time.perf_counter() - began) / 60
        print(f"[{number}/{len(steps)}] {name} ({minutes:.1f} min so far)", flush=True)
        if scale == "smoke":
            _write(step.experiment.small(), Path(step.command[step.command.index("--config") + 1]))
        command = step.command
        try:
            begun = step.experiment.kind in ("train", "ablate") and _begun(step, out)
        except DataMissing as error:
            skipped += 1
            print(f"[{number}/{len(steps)}] {name}: skipped: {error}", flush=True)
            continue
        if begun and step.experiment.kind == "train":  # a sweep's command has it always
            command = [*command, "--resume"]
        code = subprocess.call(command)
        if code == 130:
            raise KeyboardInterrupt
        if code != 0:
            failed.append(f"{name}: exit code {code}")
        else:
            (out / "runs").mkdir(parents=True, exist_ok=True)
            RunFolder(out / "runs").write(DONE, json.dumps([*done, mark], indent=1) + "\n")
    if skipped == len(steps):
        print("nothing could be run here, so there is nothing to report", flush=True)
        return 0
    if (code := subprocess.call([sys.executable, "-m", "zeta_cli", "report", "--out", str(out)])) == 130:
        raise KeyboardInterrupt
    failed += [f"zeta report: exit code {code}"] if code else []
    for line in failed:
        print(f"failed: {line}", file=sys.stderr)
    return len(failed)


def _begun(step: Step, out: Path) -> bool:
    """Whether the training run, or the first of a sweep's, was begun. Raises: DataMissing, as the run would."""
    file = Path(step.command[step.command.index("--config") + 1])
    sweep = step.experiment.kind == "ablate"
    training = make_ablate(config=file)[1][0].run if sweep else make_run(config=file).resolved()
    return (out / "runs" / Fingerprints().run_id(training) / "config.yaml").exists()


def _mark(step: Step, scale: Scale) -> str:
    """An experiment as it stands in its file, and the versions it ran with."""
    found = versions()
    parts = [scale, step.experiment.path.read_text(), found.torch, found.triton]
    return f"{step.experiment.path}: {hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:10]}"


def _done(out: Path) -> list[str]:
    """The marks of what was finished."""
    try:
        found = json.loads((out / "runs" / DONE).read_text())
    except (OSError, ValueError):
        return []
    return [str(mark) for mark in found] if isinstance(found, list) else []


def _write(layer: Layer, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_yaml(layer.values))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out"), help="where results/ and runs/ are (default: out)")
    parser.add_argument("--scale", choices=("full", "smoke"), default="full")
    parser.add_argument("--only", default="", help="experiments whose path holds this text")
    parser.add_argument("-j", "--jobs", type=int, help="runs of a sweep at a time, each a process")
    parser.add_argument("--experiments", type=Path, default=Path("experiments"), help="default: experiments")
    given = parser.parse_args(argv)
    try:
        check_writable(given.out)
        steps = plan(given.experiments, given.out, given.scale, given.jobs)
        steps = [step for step in steps if given.only in str(step.experiment.path)]
        if not steps:
            raise ConfigError(f"--only {given.only}: no file under {given.experiments} has that in its path")
        return int(run(steps, given.out, given.scale) > 0)
    except RequestError as error:
        print(f"zeta: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())

"""Weights & Biases: a second place for metrics and rows. The CSV is written whether or not it works."""

from __future__ import annotations

import importlib.util
import netrc
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .errors import OptionError
from .records import Row

if TYPE_CHECKING:
    import wandb

WandbMode = Literal["auto", "online", "offline", "off"]
HOST = "api.wandb.ai"


def resolve_wandb(mode: WandbMode) -> tuple[Literal["online", "offline", "off"], str]:
    """What a mode means here, and why in a few words.

    auto: WANDB_MODE if it is set, online when a key is configured, else off.
    Raises: OptionError if online or offline is asked for and wandb is not installed."""
    missing = importlib.util.find_spec("wandb") is None
    if mode in ("online", "offline") and missing:
        raise OptionError(f"--wandb {mode}: wandb is not installed; pip install wandb, or use --wandb off")
    if mode == "online" and not _has_key():
        raise OptionError("--wandb online: no key is configured; run `wandb login`, or use --wandb offline")
    if mode != "auto":
        return mode, f"--wandb {mode}"
    if missing:
        return "off", "wandb is not installed"
    named = os.environ.get("WANDB_MODE", "").lower()
    if named:
        known: Mapping[str, Literal["online", "offline", "off"]] = {"online": "online", "offline": "offline"}
        if named == "online" and not _has_key():
            return "off", "WANDB_MODE=online, but no key is configured"
        return known.get(named, "off"), f"WANDB_MODE={named}"
    return ("online", "a key is configured") if _has_key() else ("off", "no key is configured")


def _has_key() -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    with suppress(OSError, netrc.NetrcParseError):
        return netrc.netrc().authenticators(HOST) is not None
    return False


class Tracker:
    """Sends a run to W&B; the first failure is said once and ends the sending, never the run."""

    def __init__(
        self, mode: Literal["online", "offline", "off"], say: Callable[[str], None], group: str = ""
    ) -> None:
        self.mode, self.say, self.group = mode, say, group
        self.run: wandb.Run | None = None

    def start(self, run_id: str, config: Mapping[str, object], folder: Path) -> None:
        """Begin a run, or go on with the one of this id."""
        if self.mode == "off":
            return
        with self._surviving():
            import wandb

            self.run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "zeta"),
                id=run_id,
                name=run_id,
                group=self.group or None,
                config=dict(config),
                dir=str(folder),
                mode=self.mode,
                resume="allow" if self.mode == "online" else None,
                settings=wandb.Settings(silent=True),
            )

    def log(self, metrics: Mapping[str, float]) -> None:
        """A row of metrics; `step` among them is the step."""
        if self.run is not None:
            with self._surviving():
                self.run.log(dict(metrics), step=int(metrics["step"]))

    def table(self, name: str, rows: Sequence[Row]) -> None:
        """The rows written to the CSV `name`, as one table."""
        if self.run is not None and rows:
            with self._surviving():
                import wandb

                columns = list(asdict(rows[0]))
                data = [[None if value is None else value for value in asdict(row).values()] for row in rows]
                self.run.log({name: wandb.Table(columns=columns, data=data)})

    def finish(self, *, failed: bool) -> None:
        """End the run."""
        if self.run is not None:
            with self._surviving():
                self.run.finish(exit_code=int(failed))
            self.run = None

    def _surviving(self) -> _Surviving:
        return _Surviving(self)


class _Surviving:
    """W&B may fail in many ways (network, disk, service); none of them may end a run."""

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self.tracker.say(f"W&B failed, going on without it: {type(error).__name__}: {error}".splitlines()[0])
        self.tracker.run = None
        return True

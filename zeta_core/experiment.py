"""A file under experiments/: a study's configuration, what machine it is for, and the same in small."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .config import Layer, read_yaml
from .errors import ConfigError
from .layers import merge

NEEDS = ("any", "gpu")


@dataclass(frozen=True)
class Experiment:
    """What a file says. layer: the study's own fields. smoke: those that make it small. needs: what it is for.

    The study's fields stand at the top of the file; `needs: gpu` and the mapping `smoke:` are beside them, and every
    command's --config leaves both aside."""

    path: Path
    layer: Layer
    smoke: Layer
    needs: Literal["any", "gpu"]

    @property
    def kind(self) -> str:
        """The command that runs it."""
        return str(self.layer.values.get("kind", ""))

    def small(self) -> Layer:
        """The fields with those of `smoke` over them."""
        return merge([self.layer, self.smoke])


def read_experiment(path: Path) -> Experiment:
    """Read a file. Raises: ConfigError, one line, if it cannot be read, or `needs` or `smoke` is off."""
    file = read_yaml(path)
    needs = file.values.get("needs", "any")
    if needs not in NEEDS:
        raise ConfigError(f"{file.origins[('needs',)]}: needs={needs!r}: must be one of {', '.join(NEEDS)}")
    small = file.values.get("smoke", {})
    if not isinstance(small, Mapping):
        raise ConfigError(f"{file.origins[('smoke',)]}: smoke must be a mapping of the fields that make it small")
    values = {name: value for name, value in file.values.items() if name not in ("needs", "smoke")}
    own = {place: where for place, where in file.origins.items() if place[0] not in ("needs", "smoke")}
    inner = {place[1:]: where for place, where in file.origins.items() if place[0] == "smoke" and len(place) > 1}
    return Experiment(path, Layer(values, own), Layer(dict(small), inner), needs)

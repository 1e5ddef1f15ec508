"""A trained run made ready to be looked into: its configuration, its data, its network with the best weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from zeta_core.attention import AttentionConfig
from zeta_core.attention.zeta import ZetaOptions
from zeta_core.config import kinds, read_yaml
from zeta_core.errors import RequestError, StorageError
from zeta_core.layers import build
from zeta_core.model import Network
from zeta_core.tasks import TaskData

from ..find_run import find_run
from ..train import build_task
from ..train_run import TrainRun


@dataclass(frozen=True)
class Trained:
    """A run, its mixer's options, its id, data and network. finished: whether its training came to an end."""

    run: TrainRun
    options: ZetaOptions
    run_id: str
    data: TaskData
    network: Network
    finished: bool


def load_trained(name: str, out: Path, device: torch.device) -> Trained:
    """The run whose folder, or id under out/runs, is `name`; its network in eval mode on the device.

    Raises: RequestError if there is no such run, if its mixer has no coordinates, or if it has no weights yet;
    StorageError if the weights cannot be read."""
    folder = find_run(name, out / "runs")
    run = build(TrainRun, read_yaml(folder.path / "config.yaml"))
    options = mixer_options(run, folder.path.name)
    weights = folder.path / "best" / "model.safetensors"
    if not weights.exists():
        raise RequestError(
            f"--checkpoint {name}: the run has no weights yet (status {folder.status() or 'unknown'}); let it come "
            "to its first validation, or go on with it by `zeta train --resume`"
        )
    data = build_task(run)
    network = run.model.build(
        run.attention,
        vocab_size=data.vocab_size,
        max_len=data.max_len,
        num_classes=data.num_classes,
        num_documents=data.num_documents,
        impl="reference",
    )
    try:
        network.load_state_dict(load_file(weights))
    except (OSError, SafetensorError) as error:
        raise StorageError(f"{weights}: the best weights cannot be read ({error})") from error
    except RuntimeError as error:
        raise RequestError(
            f"--checkpoint {name}: its weights do not fit its configuration in this version; train it again"
        ) from error
    return Trained(run, options, folder.path.name, data, network.to(device).eval(), folder.status() == "ok")


def mixer_options(run: TrainRun, run_id: str) -> ZetaOptions:
    """The mixer of a run, if it has coordinates. Raises: RequestError that names what it has."""
    if isinstance(run.attention, ZetaOptions):
        return run.attention
    able = [kind for kind, mixer in kinds(AttentionConfig).items() if issubclass(mixer, ZetaOptions)]
    raise RequestError(
        f"--checkpoint {run_id}: its attention is {run.attention.kind}, whose queries and keys are no coordinates "
        f"on a curve; choose a run of {' or '.join(able)}"
    )

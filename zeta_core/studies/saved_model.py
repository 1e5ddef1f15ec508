"""A trained model read back, from a run's folder or an exported one: its configuration, network and tokenizer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from pydantic import PositiveInt
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from zeta_core.attention import AttentionConfig
from zeta_core.config import Config, read_yaml
from zeta_core.errors import DataError, RequestError, StorageError
from zeta_core.layers import build
from zeta_core.model import ModelConfig, Network
from zeta_core.provenance import installed
from zeta_core.run_folder import RunFolder
from zeta_core.tasks import TaskConfig
from zeta_core.tasks.language import LanguageConfig
from zeta_core.tasks.tokenizers import ByteTokenizer, Tokenizer, WordTokenizer, from_json, gpt2_bpe

from .find_run import find_run
from .train_run import TrainRun

WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer"
"""An exported model's files, and its folder of a tokenizer's files."""


class ExportedModel(Config):
    """config.json of an exported model: all that its network is built from, and where it comes from."""

    kind: Literal["exported"] = "exported"
    version: str
    """Of zeta-attention."""
    run: str
    """The run's id."""
    task: TaskConfig
    attention: AttentionConfig
    model: ModelConfig
    vocab_size: PositiveInt
    max_len: PositiveInt
    num_classes: PositiveInt | None = None
    num_documents: Literal[1, 2] = 1
    tokenizer: str | None = None
    """What identifies the tokenizer of a language model; its files, if it has any, are in the folder `tokenizer`."""


@dataclass(frozen=True)
class SavedModel:
    """A model as it lies in a folder; config.tokenizer is set for an exported one alone.

    weights: the file. finished: whether the training came to an end."""

    folder: Path
    config: ExportedModel
    weights: Path
    network: Network
    finished: bool

    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer that the model was trained with; None if its task is another than language.

        Raises: DataError if its files are missing, or another tokenizer is there than the model's."""
        task = self.config.task
        if not isinstance(task, LanguageConfig):
            return None
        exported = self.config.tokenizer is not None
        found = exported_tokenizer(task, self.folder / TOKENIZER) if exported else task.load_tokenizer()
        if found.vocab_size != self.config.vocab_size or self.config.tokenizer not in (None, found.identity):
            raise DataError(
                f"{self.folder}: the tokenizer there is now is not the model's: it has {found.vocab_size:,} tokens "
                f"({found.identity}), the model {self.config.vocab_size:,}"
                f"{f' ({self.config.tokenizer})' if exported else ''}; bring back the files that it was trained with"
            )
        return found


def load(folder: str | Path, *, device: str | torch.device = "cpu") -> Network:
    """The network of a run's folder (its best weights) or of an exported one, in eval mode, its weights in fp32.

    Raises: ConfigError with the fields that this version does not take; RequestError if nothing is there, or the
    weights do not fit; StorageError if they cannot be read."""
    path = Path(folder)
    if not is_model(path):
        raise RequestError(f"{folder}: neither a run's folder (config.yaml) nor an exported model's ({CONFIG})")
    return read_model(path).network.to(device)


def is_model(folder: Path) -> bool:
    """Whether a run or an exported model is there."""
    return (folder / CONFIG).is_file() or RunFolder(folder).exists()


def find_model(name: str, out: Path) -> SavedModel:
    """The model in the folder `name`, or of the run with this id under out/runs. Raises: as `load`."""
    exported = (Path(name) / CONFIG).is_file()
    return read_model(Path(name) if exported else find_run(name, out / "runs", given="RUN").path)


def read_model(folder: Path) -> SavedModel:
    """The model in a folder for which `is_model` holds. Raises: as `load`."""
    if (folder / CONFIG).is_file():
        config = build(ExportedModel, read_yaml(folder / CONFIG))
        weights = _weights(folder / WEIGHTS)
        return SavedModel(folder, config, folder / WEIGHTS, _network(config, weights, folder / WEIGHTS), True)
    run = build(TrainRun, read_yaml(folder / "config.yaml"))
    path, status = folder / "best" / WEIGHTS, RunFolder(folder).status()
    if not path.exists():
        raise RequestError(
            f"RUN {folder}: the run has no weights yet (status {status or 'unknown'}); let it come to its first "
            "validation, or go on with it by `zeta train --resume`"
        )
    weights = _weights(path)
    config = _config_of(run, folder.resolve().name, weights, path)
    return SavedModel(folder, config, path, _network(config, weights, path), status == "ok")


def _config_of(run: TrainRun, run_id: str, weights: Mapping[str, Tensor], path: Path) -> ExportedModel:
    """The configuration of a run's model. Its sizes are read off the weights: the run's data may be elsewhere."""
    if "embedding.weight" not in weights:
        raise _misfit(path, "there is no embedding.weight")
    positions, pair = weights.get("positions.weight"), "classifier.mlp.2.weight" in weights
    classes = weights.get("classifier.mlp.2.weight" if pair else "classifier.weight")
    return ExportedModel.model_validate(
        {
            "version": installed("zeta-attention"),
            "run": run_id,
            "task": run.task,
            "attention": run.attention,
            "model": run.model,
            "vocab_size": len(weights["embedding.weight"]),
            "max_len": run.task.longest if positions is None else len(positions) - ("cls" in weights),
            "num_classes": None if classes is None else len(classes),
            "num_documents": 2 if pair else 1,
        }
    )


def _weights(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise StorageError(f"{path}: the weights cannot be read ({error})") from error


def _network(config: ExportedModel, weights: Mapping[str, Tensor], path: Path) -> Network:
    """The network with its weights, in eval mode."""
    with torch.random.fork_rng(devices=[]):  # its first weights are drawn, and a caller's numbers stay as they are
        network = config.model.build(
            config.attention,
            vocab_size=config.vocab_size,
            max_len=config.max_len,
            num_classes=config.num_classes,
            num_documents=config.num_documents,
        )
    wanted = {name: tensor.shape for name, tensor in network.state_dict().items()}
    given = {name: tensor.shape for name, tensor in weights.items()}
    for name in sorted(wanted.keys() | given.keys()):
        if wanted.get(name) != given.get(name):
            shapes = [None if shape is None else list(shape) for shape in (given.get(name), wanted.get(name))]
            raise _misfit(
                path, f"{name} is {shapes[0] or 'not there'}, and the configuration has {shapes[1] or 'none'}"
            )
    network.load_state_dict(dict(weights))
    return network.eval()


def _misfit(path: Path, reason: str) -> RequestError:
    return RequestError(f"{path}: the weights do not fit the configuration in this version: {reason}; train it again")


def exported_tokenizer(task: LanguageConfig, folder: Path) -> Tokenizer:
    """The tokenizer whose files `export` put into a folder. Raises: DataError if they are missing or broken."""
    if task.tokenizer == "bytes":
        return ByteTokenizer()
    if task.tokenizer == "gpt2_bpe":
        return gpt2_bpe(folder)
    if task.tokenizer == "json":
        return from_json(folder / "tokenizer.json")
    path = folder / "words.json"
    try:
        return WordTokenizer(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: cannot be read as a list of words ({error}); export the run again") from None

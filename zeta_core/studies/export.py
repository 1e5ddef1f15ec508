"""`zeta export`: a trained model in a folder of its own, without the run around it."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from zeta_core.errors import RequestError, StorageError
from zeta_core.tasks.language import LanguageConfig
from zeta_core.tasks.tokenizers import Tokenizer, WordTokenizer

from .saved_model import CONFIG, TOKENIZER, WEIGHTS, ExportedModel, SavedModel


@dataclass(frozen=True)
class Exported:
    """Where a model went, the names of the files there, and their bytes together."""

    folder: Path
    files: list[str]
    size: int


def export(saved: SavedModel, folder: Path) -> Exported:
    """Write the weights, the configuration and the tokenizer's files to a folder; all of it or nothing.

    Raises: RequestError if something is in the folder already, or it is the current one; DataError if the tokenizer's
    files are missing; StorageError if it cannot be written."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "is not empty" if folder.is_dir() else "is a file"
        raise RequestError(f"--to {folder}: {what}, and nothing is overwritten; choose another folder")
    if folder.resolve() == Path.cwd():  # another takes its place, and this process would be in none
        raise RequestError(f"--to {folder}: is the current folder; name a new one, such as {folder / 'model'}")
    tokenizer = saved.tokenizer()
    identity = None if tokenizer is None else tokenizer.identity
    task = saved.config.task
    if isinstance(task, LanguageConfig):  # paths mean nothing on another machine
        elsewhere = {"path": None, "eval_path": None, "tokenizer_path": None}
        task = LanguageConfig.model_validate({**task.model_dump(), **elsewhere})
    config = ExportedModel.model_validate({**saved.config.model_dump(), "task": task, "tokenizer": identity})
    partial = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        partial.mkdir(parents=True)
        shutil.copyfile(saved.weights, partial / WEIGHTS)
        (partial / CONFIG).write_text(json.dumps(config.model_dump(mode="json"), indent=2) + "\n")
        if tokenizer is not None:
            _write_tokenizer(saved, tokenizer, partial / TOKENIZER)
        partial.rename(folder)  # over an empty folder too
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written: {_reason(error)}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return Exported(
        folder, [str(path.relative_to(folder)) for path in files], sum(path.stat().st_size for path in files)
    )


def _write_tokenizer(saved: SavedModel, tokenizer: Tokenizer, folder: Path) -> None:
    """The files that `exported_tokenizer` reads; bytes need none."""
    task = saved.config.task
    assert isinstance(task, LanguageConfig)
    if isinstance(tokenizer, WordTokenizer):
        folder.mkdir()
        words = tokenizer.words[: tokenizer.separator]
        (folder / "words.json").write_text(json.dumps(words, ensure_ascii=False), encoding="utf-8")
    elif task.tokenizer != "bytes":
        folder.mkdir()
        exported = saved.config.tokenizer is not None
        given = saved.folder / TOKENIZER if exported else task.tokenizer_path
        assert given is not None  # the tokenizer was read from there
        names = ("encoder.json", "vocab.bpe") if task.tokenizer == "gpt2_bpe" else ("tokenizer.json",)
        for name in names:
            shutil.copyfile(given / name if given.is_dir() else given, folder / name)


def _reason(error: OSError) -> str:
    """What went wrong, and with which file where that is known."""
    reason = error.strerror or str(error)
    file = error.filename2 or error.filename  # of a copy the one that is written
    return reason if file is None else f"{file}: {reason}"

"""`zeta eval`: sets of questions put to a trained language model, each set's rows written as they come."""

from __future__ import annotations

import copy
import importlib.util
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partialmethod
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch

from zeta_core.attention.zeta import GAMMA_START, LARGEST_GAMMA, SMALLEST_GAMMA
from zeta_core.errors import ConfigError, DataError, RequestError
from zeta_core.provenance import installed
from zeta_core.records import ZeroShotRow, append_rows, device_name, run_id, versions
from zeta_core.run_folder import check_writable
from zeta_core.table_check import check_table
from zeta_core.tasks.tokenizers import Tokenizer

from ..saved_model import SavedModel
from .sets import QuestionSet

METRICS: tuple[Literal["acc", "acc_norm"], ...] = ("acc", "acc_norm")
HARNESS = "lm_eval"
CSV = "zero_shot.csv"
NEEDED = ("run_id", "checkpoint", "questions", "metric", "gamma", "value")
"""Columns without which a table's rows are not scores of questions."""


class EvalMonitor(Protocol):
    """What watches `run_eval`."""

    def begin(self, number: int) -> None:
        """So many sets will be asked."""

    def next(self, name: str, gamma: str, answers: int) -> None:
        """A set is being asked: so many answers to score."""

    def scored(self, number: int) -> None:
        """So many more answers are scored."""

    def rows(self, rows: Sequence[ZeroShotRow]) -> None:
        """A set's scores."""


@dataclass(frozen=True)
class Asked:
    """A set with the questions that are asked, by the harness's task."""

    found: QuestionSet
    tasks: Mapping[str, list[dict[str, Any]]]

    @property
    def questions(self) -> list[dict[str, Any]]:
        """All of them."""
        return [row for rows in self.tasks.values() for row in rows]

    @property
    def choices(self) -> list[int]:
        """How many answers each question has."""
        return [self.found.line.model_validate(row).num_choices() for row in self.questions]


def read_sets(sets: Sequence[QuestionSet], folder: Path, limit: int | None) -> list[Asked]:
    """The sets' questions. Raises: DataMissing, DataError."""
    return [Asked(found, found.tasks(found.read(folder), limit)) for found in sets]


def gammas_asked(texts: Sequence[str]) -> tuple[str, ...]:
    """`trained`, `reset` and numbers, checked. Raises: ConfigError."""
    found = []
    for text in texts:
        if text not in ("trained", "reset"):
            number = float("nan")
            with suppress(ValueError):
                number = float(text)
            if not SMALLEST_GAMMA <= number <= LARGEST_GAMMA:
                between = f"a number from {SMALLEST_GAMMA:g} to {LARGEST_GAMMA:g}"
                raise ConfigError(f"--gamma: {text!r} is neither trained nor reset nor {between}")
            text = f"{number:g}"
        if text in found:
            raise ConfigError(f"--gamma: {text} is there twice; name it once")
        found.append(text)
    return tuple(found)


def check_harness() -> None:
    """Raises: RequestError if lm-evaluation-harness is not installed."""
    if importlib.util.find_spec(HARNESS) is None:
        raise RequestError(
            "zeta eval asks its questions through lm-evaluation-harness, which is not installed; "
            "pip install 'zeta-attention[eval]'"
        )


def run_eval(
    saved: SavedModel,
    asked: Sequence[Asked],
    *,
    gammas: Sequence[str] = ("trained",),
    device: torch.device,
    out: Path,
    monitor: EvalMonitor,
) -> list[ZeroShotRow]:
    """Ask every set with every gamma; rows go to out/results/zero_shot.csv.

    Raises: RequestErrors before anything is asked; StorageError."""
    check_harness()
    tokenizer = saved.tokenizer()
    if tokenizer is None:
        raise RequestError(
            f"RUN {saved.folder}: its task is {saved.config.task.kind}; questions in words need a model of the task "
            "language"
        )
    check_writable(out)
    table = out / "results" / CSV
    check_table(table, ZeroShotRow, NEEDED)
    from .adapter import gammas_of, set_gamma

    if tuple(gammas) != ("trained",) and not gammas_of(saved.network):
        raise RequestError(f"--gamma: {saved.config.attention.kind} has no gamma; leave the option out")
    harness = Harness()
    rows: list[ZeroShotRow] = []
    monitor.begin(len(asked) * len(gammas))
    for gamma in gammas:
        network = copy.deepcopy(saved.network).to(device)
        set_gamma(network, gamma, GAMMA_START)
        for one in asked:
            monitor.next(one.found.name, gamma, sum(one.choices))
            began = time.perf_counter()
            scores, cut = harness.scores(one, network, tokenizer, monitor.scored)
            found = make_rows(saved, one, gamma, scores, cut, device, time.perf_counter() - began)
            append_rows(table, found)
            monitor.rows(found)
            rows += found
    return rows


class Harness:
    """lm-evaluation-harness, quiet and offline."""

    def __init__(self) -> None:
        for name, value in (("HF_HUB_OFFLINE", "1"), ("HF_DATASETS_OFFLINE", "1")):
            os.environ.setdefault(name, value)
        import datasets
        from lm_eval.tasks import TaskManager

        datasets.disable_progress_bars()
        for name in ("lm_eval", "datasets"):
            logging.getLogger(name).setLevel(logging.ERROR)
        self.tasks = TaskManager()

    def scores(
        self, asked: Asked, network: Any, tokenizer: Tokenizer, done: Callable[[int], None]
    ) -> tuple[dict[str, list[float]], int]:
        """Each metric's score of every question, 0 or 1; and how many texts were cut."""
        import lm_eval
        from datasets import Dataset

        from .adapter import ZetaLM

        split = asked.found.split
        specs = [
            {
                "task": name,
                "custom_dataset": _giving({split: Dataset.from_list(rows)}),
                "num_fewshot": 0,
                "training_split": None,
                "validation_split": split if split == "validation" else None,
                "test_split": split if split == "test" else None,
                "fewshot_split": None,
            }
            for name, rows in asked.tasks.items()
        ]
        model = ZetaLM(network, tokenizer, done=done)
        with no_bars():
            loaded = self.tasks.load([{"group": "zeta", "task": specs}])
            found = lm_eval.evaluate(model, loaded, bootstrap_iters=0, log_samples=True)
        samples: Iterable[dict[str, Any]] = [one for name in asked.tasks for one in found["samples"][name]]
        by_metric: dict[str, list[float]] = {}
        for sample in samples:
            for metric in METRICS:
                if metric in sample:
                    by_metric.setdefault(metric, []).append(float(sample[metric]))
        if not by_metric:
            raise DataError(f"the harness gave no scores for {asked.found.name}; its version is {installed(HARNESS)}")
        return by_metric, model.cut


@contextmanager
def no_bars() -> Iterator[None]:
    """Without the harness's own progress bars, one for each of up to 57 tasks."""
    from tqdm import tqdm

    shown = tqdm.__init__
    tqdm.__init__ = partialmethod(shown, disable=True)
    try:
        yield
    finally:
        tqdm.__init__ = shown


def _giving(data: Mapping[str, Any]) -> Callable[..., Mapping[str, Any]]:
    return lambda **options: data


def make_rows(
    saved: SavedModel,
    asked: Asked,
    gamma: str,
    scores: Mapping[str, Sequence[float]],
    cut: int,
    device: torch.device,
    seconds: float,
) -> list[ZeroShotRow]:
    """A set's rows, one a metric."""
    there, model = versions(), saved.config
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else None
    settings: dict[str, object] = {"checkpoint": model.run, "set": asked.found.name, "gamma": gamma}
    settings["num_questions"] = len(asked.questions)
    found = []
    for metric, values in scores.items():
        number = len(values)
        found.append(
            ZeroShotRow(
                study="eval",
                run_id=run_id("eval", settings, ""),
                status="ok",
                task=model.task.kind,
                data_fingerprint="",
                seed=0,
                device=device_name(device.type),
                dtype="fp32",
                impl="",
                python=there.python,
                torch=there.torch,
                triton=there.triton,
                commit=there.commit,
                wall_s=round(seconds, 2),
                peak_mib=peak,
                checkpoint=model.run,
                attention=model.attention.kind,
                d_model=model.model.d_model,
                num_layers=model.model.num_layers,
                parameters=saved.network.num_parameters(),
                questions=asked.found.name,
                num_questions=number,
                metric="acc_norm" if metric == "acc_norm" else "acc",
                gamma=gamma,
                value=float(np.mean(values)),
                stderr=float(np.std(values, ddof=1) / number**0.5) if number > 1 else None,
                chance=float(np.mean([1 / choices for choices in asked.choices])),
                num_cut=cut,
                harness=installed(HARNESS),
            )
        )
    return found

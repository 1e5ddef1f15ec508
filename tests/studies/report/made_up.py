"""Made-up rows for the report's tests; rows.py has those of benchmarks."""

from itertools import count
from typing import Any

from rows import COMMON

from zeta_core.records import AblateRow, LocalityRow, TrainRow
from zeta_core.studies.report.sections import Results

NUMBERS = count()
GPU = "NVIDIA H200"
SOFTMAX = dict.fromkeys(
    ("top_k", "num_chunks", "score", "gamma", "curves", "history_mean", "local_window", "projection", "coordinates",
     "selection", "visibility", "refine"),
) | {"attention": "softmax"}  # fmt: skip
MODEL = {
    "attention": "zeta", "d_model": 128, "num_layers": 2, "num_heads": 2, "short_conv": 3, "d_k": 3, "top_k": 32,
    "num_chunks": 8, "chunk_size": None, "score": "cauchy", "gamma": "trained", "curves": 1, "history_mean": True,
    "local_window": 0, "projection": "two_layer", "coordinates": "sigmoid", "selection": "zorder",
    "visibility": "chunk", "refine": 1, "seq_len": 512, "batch_size": 64, "learning_rate": 1e-3, "steps": 3000,
    "best_step": 3000, "parameters": 9, "metric": "accuracy", "slice": "all", "value": 0.9, "reachable": 1.0,
}  # fmt: skip


def _values(changes: dict[str, Any]) -> dict[str, Any]:
    name = f"run-{next(NUMBERS)}"
    values = {**COMMON, "device": GPU, "seed": 0, "run_id": name, **MODEL, **changes}
    return values if values["status"] == "ok" else {**values, "value": None}


def train_row(**changes: Any) -> TrainRow:
    """A trained model's score."""
    return TrainRow(**_values(changes))


def ablate_row(axis: str, axis_value: object, value: float | None = 0.9, **changes: Any) -> AblateRow:
    """A swept run's score; of None, a failed one."""
    status = {"status": "failed"} if value is None else {}
    values = _values({**status, "value": value, **changes})
    labels = {"axis": axis, "axis_value": str(axis_value), "trained": values["run_id"], "reason": "", "log": ""}
    return AblateRow(**{"system": "zeta", **labels, **values})


def sweep(axis: str, column: str, means: dict[object, float], *, seeds: int = 3, **changes: Any) -> list[AblateRow]:
    """Rows of an axis: so many seeds a value, a thousandth apart."""
    return [
        ablate_row(axis, value, mean + 0.001 * (seed - 1), seed=seed, **{column: value, **changes})
        for seed in range(seeds)
        for value, mean in means.items()
    ]


def locality_row(**changes: Any) -> LocalityRow:
    """An overlap of random points."""
    values = {
        **COMMON, "run_id": f"run-{next(NUMBERS)}", "seed": 0, "points": "uniform", "squash": "none", "d_k": 3,
        "seq_len": 512, "curves": 1, "bits": 12, "num_neighbours": 64, "overlap": 0.5,
    }  # fmt: skip
    return LocalityRow(**{**values, **changes})


def head_row(head: int | None = 0, **changes: Any) -> LocalityRow:
    """A head of a checkpoint; without one, what all heads miss together."""
    values = {
        "points": "model", "checkpoint": "mqar-zeta-1", "attention": "zeta", "slice": "pairs=4", "num_examples": 9,
        "layer": 0, "head": head, "num_heads": 2, "top_k": 16, "num_chunks": 8, "target": "nearest",
    }  # fmt: skip
    return locality_row(**{**values, **changes})


def results(**rows: Any) -> Results:
    """Rows by the stem of their CSV."""
    return Results({f"{stem}.csv": found for stem, found in rows.items()})

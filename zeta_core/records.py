"""What a run leaves behind: its identity, its folder, and rows in a CSV that survive kills and full disks."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

from .csv_file import append_bytes, ends_with_newline, locked, read_lines, replace_file, to_bytes
from .errors import StorageError
from .provenance import device_name as device_name
from .provenance import versions as versions

Status = Literal["ok", "failed", "oom", "timeout", "killed", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """The columns that every study's rows have. Units end the names; accuracies are fractions 0..1."""

    study: str
    run_id: str
    status: Status
    task: str
    data_fingerprint: str
    seed: int
    device: str
    dtype: str
    impl: str
    python: str
    torch: str
    triton: str
    commit: str
    wall_s: float | None
    peak_mib: float | None


@dataclass(frozen=True, kw_only=True)
class TrainRow(Row):
    """One score of one trained model: results/train.csv.

    entropy_nats: of the attention weights, and gamma_end: both at the last validation, the mean over layers.
    examples: how many answers the score is of. majority: the share of the commonest class among the test examples;
    empty if tokens are labelled. source: where imported examples come from, and whether they stand in for others.
    tokens_per_s, mfu: of training, up to the last validation; mfu is the share of the device's peak."""

    attention: str
    d_model: int
    num_layers: int
    num_heads: int
    short_conv: int
    d_k: int | None
    top_k: int | None
    num_chunks: int | None
    chunk_size: int | None
    score: str | None
    gamma: str | None
    curves: int | None
    history_mean: bool | None
    local_window: int | None
    projection: str | None
    coordinates: str | None
    selection: str | None
    visibility: str | None
    refine: int | None
    seq_len: int
    batch_size: int
    learning_rate: float
    steps: int
    best_step: int | None
    parameters: int | None
    metric: str
    slice: str
    value: float | None
    reachable: float | None
    entropy_nats: float | None = None
    gamma_end: float | None = None
    examples: int | None = None
    majority: float | None = None
    source: str = ""
    tokens_per_s: float | None = None
    mfu: float | None = None


@dataclass(frozen=True, kw_only=True)
class AblateRow(TrainRow):
    """One score of one run of a sweep: results/ablate.csv.

    axis, axis_value: what was swept, and the value here; several are joined by commas. system: `zeta`, or
    `transformer` for full causal attention. trained: the run's id, which several axes may share. reason and log: why
    a run has no score, and where it says more."""

    axis: str
    axis_value: str
    system: Literal["zeta", "transformer"]
    trained: str
    reason: str
    log: str


@dataclass(frozen=True, kw_only=True)
class ScalingRow(TrainRow):
    """One setting trained on several processes, each on a GPU of its own: results/scaling.csv.

    variant: what was changed in the file's base. sharing: of one run, copied to each process (`none`) or cut over
    them (`fsdp`); `runs`: each process has runs of its own, `jobs` at a time over all of them. tokens_per_s and
    speedup (to one process without sharding) are over all processes, efficiency the share of the ideal; of `runs` by
    the time from the command's start to its end. loss_gap: the largest difference of the training losses, nats a
    label, from one process's. reason: why nothing was measured."""

    variant: str
    processes: int
    sharing: Literal["none", "fsdp", "runs"]
    runs: int
    jobs: int
    speedup: float | None
    efficiency: float | None
    loss_gap: float | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class BenchRow(Row):
    """One timed provider: results/bench.csv and bench_operator.csv.

    Times are medians with the 20th and 80th percentile; peak_mib is of an eager call, above the inputs and the
    output's gradient. backend: what exactly computed. cache: whether the L2 cache was overwritten between calls.
    reason: why there is no time, or what is odd about it."""

    preset: str
    provider: str
    backend: str
    mode: Literal["forward", "forward_backward"]
    seq_len: int
    batch: int
    heads: int
    d_k: int
    d_v: int
    top_k: int | None
    num_chunks: int | None
    score: str | None
    history_mean: bool | None
    causal: bool
    points: str
    timing: Literal["eager", "graph"]
    cache: Literal["cleared", "warm"]
    time_ms: float | None
    time_ms_p20: float | None
    time_ms_p80: float | None
    repeats: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class LocalityRow(Row):
    """One measured overlap: results/locality.csv. Shares are fractions 0..1; empty where a column does not apply.

    Either of random points, or of a checkpoint (points: `model`): of one head of one layer, or, without a head, the
    shares of target keys that heads miss. What each share is of: zeta_core/studies/locality, overlap.py and heads.py;
    recall_choosing is the recall over queries that see more than top_k keys, recall_chance a random choice's."""

    points: str
    squash: str
    d_k: int
    seq_len: int
    curves: int
    bits: int
    num_neighbours: int
    overlap: float | None
    checkpoint: str = ""
    attention: str = ""
    slice: str = ""
    num_examples: int | None = None
    layer: int | None = None
    head: int | None = None
    num_heads: int | None = None
    top_k: int | None = None
    num_chunks: int | None = None
    chunk_size: int | None = None
    recall: float | None = None
    recall_choosing: float | None = None
    recall_chance: float | None = None
    target: str = ""
    miss: float | None = None
    miss_all_predicted: float | None = None
    miss_all_measured: float | None = None


@dataclass(frozen=True, kw_only=True)
class ZeroShotRow(Row):
    """A trained model's score on one set of questions: results/zero_shot.csv.

    checkpoint: the run's id. questions: the set; num_questions of them were asked. metric: `acc`, or `acc_norm` with
    log likelihoods over the answers' lengths in bytes. value, stderr, chance: fractions 0..1; stderr is the standard
    error over questions, chance what guessing comes to. gamma: `trained`, `reset` to the start of training, or a
    number; num_cut: answers whose text was longer than the model's context. harness: lm-evaluation-harness's
    version."""

    checkpoint: str
    attention: str
    d_model: int
    num_layers: int
    parameters: int
    questions: str
    num_questions: int
    metric: Literal["acc", "acc_norm"]
    gamma: str
    value: float | None
    stderr: float | None
    chance: float
    num_cut: int
    harness: str
    source: str = ""


def run_id(prefix: str, identity: dict[str, object], fingerprint: str) -> str:
    """`prefix` and ten digits of a hash of the configuration's identity and the data's fingerprint."""
    text = json.dumps([identity, fingerprint], sort_keys=True)
    return f"{prefix}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def append_rows(path: Path, rows: Sequence[Row]) -> None:
    """Add rows to a CSV, in place of earlier rows of the same run ids.

    Under a lock and in whole lines. Columns are added to an older file that lacks some; a last line that a kill
    cut short is dropped.
    Raises: StorageError if the disk is full or the file cannot be written: it is then as it was."""
    columns = [field.name for field in fields(rows[0])]
    replaced = {row.run_id for row in rows}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path) as file:
            size = os.fstat(file.fileno()).st_size
            header, old = read_lines(file)
            new = [{name: _cell(value) for name, value in asdict(row).items()} for row in rows]
            kept = [line for line in old if line.get("run_id") not in replaced]
            whole = size > 0 and ends_with_newline(file, size)
            if whole and header == columns and len(kept) == len(old):
                append_bytes(file, size, to_bytes(columns, new, with_header=False))
                return
            columns = [*header, *(name for name in columns if name not in header)]
            replace_file(path, to_bytes(columns, [*kept, *new], with_header=True))
    except OSError as error:
        raise StorageError(f"{path}: rows could not be written: {error.strerror or error}") from error


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV as text; [] if it is not there. A last line cut short is left out."""
    try:
        with path.open("rb") as file:
            return read_lines(file)[1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror or error}") from error


def _cell(value: object) -> str:
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)

"""What a training run reports: its rows, and how much of the task its attention can see."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Sequence
from dataclasses import asdict

import torch

from zeta_core.records import Status, TrainRow, device_name, versions
from zeta_core.run_folder import RunFolder
from zeta_core.tasks import Part, TaskData
from zeta_core.training import Fit

from .text_scores import derived_scores
from .train_run import TrainRun


def reachable(run: TrainRun, *parts: Part) -> float | None:
    """The share of the parts' lookups whose answer the attention may see; None if there is none to find."""
    seen: list[torch.Tensor] = []
    for part in parts:
        if (found := part.lookups()) is not None:
            query, answer = found
            everything = torch.ones_like(query, dtype=torch.bool)
            seen.append(everything if not run.model.is_causal else run.attention.sees(query, answer, part.seq_len))
    return float(torch.cat(seen).double().mean()) if seen else None


def unreachable_warning(run: TrainRun, data: TaskData) -> str | None:
    """A plain line to read before training if some answers cannot be seen."""
    shares = [(share, part) for part in data.parts["test"] if (share := reachable(run, part)) is not None]
    if not shares:
        return None
    share, part = min(shares, key=lambda item: item[0])
    if share == 1:
        return None
    chunks = hasattr(run.attention, "local_window")
    limit = "these chunks" if chunks else "this window"
    help_ = "more chunks or --set attention.local_window=16 help" if chunks else "a wider attention.window helps"
    return (
        f"warning: reachable is {share:.3f}: with {limit} {1 - share:.1%} of the queries ({part.name}) "
        f"cannot see their answer, so expect an accuracy near {part.guessing(share):.2f}; {help_}"
    )


def unbound_warning(run: TrainRun) -> str | None:
    """A plain line to read before training if no layer lets a token meet the one before it."""
    neighbours = torch.tensor([1]), torch.tensor([0])
    if not run.model.is_causal or run.model.short_conv > 1 or run.attention.sees(*neighbours, run.task.longest):
        return None
    chunks = hasattr(run.attention, "local_window")
    where, field = ("its own chunk", "local_window") if chunks else ("the one before it", "window")
    return (
        f"warning: nothing binds a key to the value that follows it: model.short_conv={run.model.short_conv} and no "
        f"token sees {where}; --set model.short_conv=3 or --set attention.{field}=2 and more do"
    )


def matched_line(run: TrainRun, d_mlp: int | None, parameters: int) -> str | None:
    """Which MLP was chosen for a number of parameters, where one was asked for."""
    if run.model.match_parameters is None:
        return None
    return f"d_mlp={d_mlp} for match_parameters={run.model.match_parameters}: {parameters} without the embeddings"


def make_rows(
    run: TrainRun, data: TaskData, run_id: str, status: Status, parameters: int | None, done: Fit | None
) -> list[TrainRow]:
    """The rows of a run: for all test examples, then for each slice; a single one without a value if it failed.

    Of running text, those of derived_scores stand behind the loss.

    parameters: of the network without its embeddings; None if it was never made."""
    found = versions()
    attention = run.attention.model_dump()
    cuda = run.device.startswith("cuda")
    peak = torch.cuda.max_memory_allocated() / 2**20 if cuda else _resident_mib()
    shares = {part.name: reachable(run, part) for part in data.parts["test"]}
    shares["all"] = reachable(run, *data.parts["test"])
    scores: list[tuple[str, str, float | None, int | None]] = [("all", data.metric, None, None)]
    if done is not None:
        together = tuple(part for part in data.parts["test"] if not part.apart)
        parts = {"all": together, **{part.name: (part,) for part in data.parts["test"]}}
        scores = [
            (score.name, metric, value, score.count)
            for score in (done.test[-1], *done.test[:-1])
            for metric, value in (
                (data.metric, getattr(score, data.metric)),
                *derived_scores(score, parts[score.name]).items(),
            )
        ]
    return [
        TrainRow(
            study="train",
            run_id=run_id,
            status=status,
            task=run.task.kind,
            data_fingerprint=data.fingerprint,
            seed=run.seed,
            device=device_name("cuda" if cuda else run.device),
            dtype=run.dtype,
            impl=run.impl,
            python=found.python,
            torch=found.torch,
            triton=found.triton,
            commit=found.commit,
            wall_s=None if done is None else round(done.progress.seconds, 2),
            peak_mib=round(peak, 1),
            attention=run.attention.kind,
            d_model=run.model.d_model,
            num_layers=run.model.num_layers,
            num_heads=run.model.num_heads,
            short_conv=run.model.short_conv,
            d_k=attention.get("d_k"),
            top_k=attention.get("top_k"),
            num_chunks=attention.get("num_chunks"),
            chunk_size=attention.get("chunk_size"),
            score=attention.get("score"),
            gamma=None if "gamma" not in attention else str(attention["gamma"]),
            curves=attention.get("curves"),
            history_mean=attention.get("history_mean"),
            local_window=attention.get("local_window"),
            projection=attention.get("projection"),
            coordinates=attention.get("coordinates"),
            selection=attention.get("selection"),
            visibility=attention.get("visibility"),
            refine=attention.get("refine"),
            seq_len=run.task.longest,
            batch_size=run.training.batch_size,
            learning_rate=run.training.learning_rate,
            steps=run.training.steps,
            best_step=None if done is None else done.progress.best_step,
            parameters=parameters,
            metric=metric,
            slice=name,
            value=value,
            reachable=shares[name],
            entropy_nats=over_layers(done, "entropy"),
            gamma_end=over_layers(done, "gamma"),
            examples=count,
            majority=data.majority,
            source=data.source,
            tokens_per_s=None if done is None else done.metrics.get("tokens_per_second"),
            mfu=None if done is None else done.metrics.get("mfu"),
        )
        for name, metric, value, count in scores
    ]


def over_layers(done: Fit | None, name: str) -> float | None:
    """The mean of one statistic over the layers that have it, at the last validation; None if there is none."""
    found = [] if done is None else [value for key, value in done.metrics.items() if key.endswith(f".{name}")]
    return sum(found) / len(found) if found else None


ROWS = "rows.json"


def save_rows(folder: RunFolder, rows: Sequence[TrainRow]) -> None:
    """Keep a run's rows in its folder."""
    folder.write(ROWS, json.dumps([asdict(row) for row in rows], indent=1) + "\n")


def saved_rows(folder: RunFolder) -> list[TrainRow]:
    """The rows that a run's folder keeps; none if there are none, or of another version of the program."""
    try:
        return [TrainRow(**row) for row in json.loads((folder.path / ROWS).read_text())]
    except (OSError, ValueError, TypeError):
        return []


def _resident_mib() -> float:
    """The most memory this process has held, in MiB; macOS counts it in bytes, Linux in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)

"""results/scaling.csv: training on several processes beside one."""

from __future__ import annotations

from collections.abc import Sequence

from zeta_core.records import ScalingRow

from .rows import by
from .table import Section, Table, made_on

HOW = {"none": "DDP", "fsdp": "FSDP2", "runs": "own runs"}
HEAD = (
    "processes", "sharing", "status", "tokens/s", "times one process", "efficiency", "peak, MiB a process",
    "loss apart, nats",
)  # fmt: skip


def tables(rows: Sequence[ScalingRow]) -> list[Table]:
    """A table for each system and length, a line for each number of processes and way of sharing."""
    found = []
    for (attention, _, batch), group in by(rows, "attention", "seq_len", "batch_size").items():
        first = group[0]
        lines: list[tuple[str, ...]] = [
            (
                str(row.processes), HOW[row.sharing], row.reason if row.status == "skipped" else row.status,
                _number(row.tokens_per_s, ",.0f"), _number(row.speedup, ".2f"), _number(row.efficiency, ".2f"),
                _number(row.peak_mib, ",.0f"), _number(row.loss_gap, ".1e"),
            )
            for row in group
        ]  # fmt: skip
        several = f", {first.runs} runs" if first.sharing == "runs" else ""
        title = f"{first.task}, {attention}, {first.seq_len:,} tokens, batch {batch}{several}"
        what = f"Width {first.d_model}, {first.num_layers} layers, {first.steps} steps, the same batch on any number."
        found.append(Table(title, HEAD, lines, (what, made_on(group))))
    return found


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


SCALING = Section(
    "scaling.csv",
    "Training on several processes",
    ScalingRow,
    "python -m zeta_core.studies.scaling --config experiments/scaling/language_124m.yaml",
    tables,
)

"""From measurements to rows: of random points a cloud at a time, of a checkpoint a kind of example at a time."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from zeta_core.attention import ZetaConfig
from zeta_core.errors import OptionError
from zeta_core.ops.zorder.api import NUM_BITS
from zeta_core.records import LocalityRow, run_id, versions

from .checkpoint import Trained
from .config import LocalityRun
from .heads import Means, measure_part
from .overlap import among, curve_neighbours, nearest_points
from .points import Points, draw

MODEL = "model"
"""`points` of a checkpoint's rows."""
TARGETS = ("nearest", "answer")


def of_points(run: LocalityRun, device: str) -> Iterator[list[LocalityRow]]:
    """Rows of a resolved run's random points. device: its name."""
    for points in run.points:
        for seq_len in sorted(run.seq_lens):
            for seed in run.seeds:
                yield list(_of_clouds(run, points, seq_len, seed, device))


def _of_clouds(run: LocalityRun, points: Points, seq_len: int, seed: int, device: str) -> Iterator[LocalityRow]:
    """Every setting at clouds of one distribution, length and seed."""
    where = torch.device(run.device)
    nearest: Tensor | None = None
    for d_k in run.d_ks:
        began = time.perf_counter()
        cloud = draw(points, seq_len, d_k, seed)
        if nearest is None or points != "projected":  # whose true neighbours are the same for every d_K
            nearest = nearest_points(cloud.space.to(where), run.neighbours)
        for curves in run.curves_of(d_k):
            for bits in run.bits:
                found = curve_neighbours(cloud.coords.to(where), run.neighbours, curves=curves, num_bits=bits)
                overlap = float(among(nearest, found).double().mean())
                settings: dict[str, object] = {
                    "points": points, "d_k": d_k, "seq_len": seq_len, "curves": curves, "bits": bits,
                    "num_neighbours": run.neighbours, "seed": seed, "device": where.type,
                }  # fmt: skip
                yield LocalityRow(
                    **_common(run_id("locality", settings, ""), where, device, time.perf_counter() - began),
                    task="",
                    data_fingerprint="",
                    seed=seed,
                    points=points,
                    squash=cloud.squash,
                    d_k=d_k,
                    seq_len=seq_len,
                    curves=curves,
                    bits=bits,
                    num_neighbours=run.neighbours,
                    overlap=overlap,
                )
                began = time.perf_counter()


def neighbours_of(run: LocalityRun, trained: Trained) -> int:
    """How many nearest keys a checkpoint's overlap counts.

    Raises: OptionError if examples have not so many keys, or the run's curves cannot share them."""
    curves = curves_of(trained)
    number = run.num_neighbours or trained.options.top_k
    shortest = min(part.seq_len for part in trained.data.parts["validation"])
    if number >= shortest:
        what = "num_neighbours" if run.num_neighbours else "its top_k, and so num_neighbours"
        raise OptionError(
            f"{what}={number} must be less than the shortest seq_len of {trained.run_id}, {shortest}; use "
            f"--num-neighbours {max(1, shortest - 1)} or fewer"
        )
    if number % curves:
        raise OptionError(
            f"num_neighbours={number} is not divisible by the {curves} curves of {trained.run_id}; the nearest that "
            f"is: {max(curves, round(number / curves) * curves)}"
        )
    return number


def curves_of(trained: Trained) -> int:
    """The number of a run's Z-order curves; exact selection has none, and is measured on one."""
    return trained.options.curves if isinstance(trained.options, ZetaConfig) else 1


def of_checkpoint(run: LocalityRun, trained: Trained, device: str) -> Iterator[list[LocalityRow]]:
    """Rows of a trained run's own queries and keys, a kind of validation example at a time."""
    number, where = neighbours_of(run, trained), torch.device(run.device)
    options, heads = trained.options, trained.run.model.num_heads
    for part in trained.data.parts["validation"]:
        began = time.perf_counter()
        layers = measure_part(trained.network, part, run.num_examples, number)
        settings: dict[str, object] = {
            "checkpoint": trained.run_id, "slice": part.name, "num_examples": run.num_examples,
            "num_neighbours": number, "device": where.type,
        }  # fmt: skip
        name = run_id("locality", settings, trained.data.fingerprint)
        shared = {
            **_common(name, where, device, time.perf_counter() - began),
            "task": trained.run.task.kind,
            "data_fingerprint": trained.data.fingerprint,
            "seed": trained.run.seed,
            "points": MODEL,
            "squash": options.coordinates,
            "d_k": options.d_k,
            "seq_len": part.seq_len,
            "curves": curves_of(trained),
            "bits": NUM_BITS,
            "num_neighbours": number,
            "checkpoint": trained.run_id,
            "attention": trained.run.attention.kind,
            "slice": part.name,
            "num_examples": min(run.num_examples, len(part)),
            "num_heads": heads,
            "top_k": options.top_k,
            "num_chunks": options.num_chunks,
            "chunk_size": options.chunk_size,
        }
        yield [row for layer, means in enumerate(layers) for row in _of_layer(means, layer, heads, shared)]


def _of_layer(means: Means, layer: int, num_heads: int, shared: dict[str, Any]) -> Iterator[LocalityRow]:
    """A row a head, and one for each kind of target that heads look for together."""
    for head in range(num_heads):
        yield LocalityRow(
            **shared,
            layer=layer,
            head=head,
            overlap=means.of_head("overlap", head),
            recall=means.of_head("recall", head),
            recall_choosing=means.of_head("recall_choosing", head),
            recall_chance=means.of_head("recall_chance", head),
            target="nearest",
            miss=means.of_head("nearest", head),
        )
    for target in TARGETS:
        missed = [value for head in range(num_heads) if (value := means.of_head(target, head)) is not None]
        if missed:
            miss = sum(missed) / num_heads
            yield LocalityRow(
                **shared,
                overlap=None,
                layer=layer,
                target=target,
                miss=miss,
                miss_all_predicted=miss**num_heads,
                miss_all_measured=means.of_head(f"{target}_all", 0),
            )


def _common(name: str, where: torch.device, device: str, seconds: float) -> dict[str, Any]:
    """The columns that say who measured this, and how."""
    there = versions()
    return {
        "study": "locality",
        "run_id": name,
        "status": "ok",
        "device": device,
        "dtype": "fp32",
        "impl": "reference",
        "python": there.python,
        "torch": there.torch,
        "triton": there.triton,
        "commit": there.commit,
        "wall_s": round(seconds, 3),
        "peak_mib": round(_peak_mib(where), 1),
    }


def _peak_mib(where: torch.device) -> float:
    """The most memory allocated on the GPU, or held by the process; macOS counts that in bytes, Linux in KiB."""
    if where.type == "cuda":
        return torch.cuda.max_memory_allocated(where) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)

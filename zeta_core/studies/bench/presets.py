"""What `zeta bench` times when it is not told otherwise; each preset is one or more grids."""

from __future__ import annotations

from typing import Any

from zeta_core.config import kinds

from ..ranges import doubling
from .case import POINTS
from .providers import AnyProvider, MixerProvider

Grid = dict[str, Any]
PROVIDERS = tuple(kinds(AnyProvider))
TUNED = ("fla_nsa", "fla_linear")
"""At its first use each tries over a hundred variants of its kernels, which takes minutes: timed when named."""
BY_DEFAULT = tuple(
    kind for kind, found in kinds(AnyProvider).items() if found is not MixerProvider and kind not in TUNED
)
"""What is timed when no providers are named: ZETA and what stands in its place, not every mixer of the library."""
SLOW = ("zeta_reference", "sdpa_efficient", "sdpa_math", "exact_topk")
"""What the paper does not time, and takes minutes at its likely shape."""
PRESETS = ("default", "paper", "long", "operator")


def grids(preset: str, gpu: bool) -> tuple[Grid, ...]:
    """The grids of a preset, as values of BenchRun's fields.

    default: ZETA and all opponents. paper: batch 32, 8 heads of width 64, the likely reading of the shape that the
    paper leaves out. long: 131,072 tokens and more, for cuDNN and what is not quadratic. operator: ZETA against dense
    attention at many lengths, with other points, and with many short rows."""
    timings = ("eager", "graph") if gpu else ("eager",)
    common: Grid = {"preset": preset, "timings": timings}
    if preset == "default":
        return ({**common, "seq_lens": doubling(4096, 65_536) if gpu else doubling(1024, 4096)},)
    if preset == "paper":
        grid = {**common, "seq_lens": doubling(4096, 65_536) if gpu else (1024,), "batch": 32}
        return ({**grid, "providers": tuple(name for name in BY_DEFAULT if not gpu or name not in SLOW)},)
    ours = "zeta_triton" if gpu else "zeta_reference"
    if preset == "long":
        others = ("sdpa_cudnn", "flex_window") if gpu else ("flex_window",)
        lengths = doubling(131_072, 1_048_576) if gpu else doubling(16_384, 65_536)
        return ({**common, "seq_lens": lengths, "providers": (ours, *others)},)
    small: Grid = {"seq_lens": (128,), "batch": 256, "heads": 2, "top_k": 16, "timings": ("eager",)}
    small |= {"modes": ("forward_backward",)}
    if not gpu:
        return (
            {**common, "seq_lens": (8192,), "providers": (ours, "sdpa_flash")},
            {**common, **small, "providers": (ours,)},
        )
    dense = ("sdpa_cudnn", "sdpa_flash", "sdpa_efficient")
    other_points: Grid = {"points": POINTS[1:], "modes": ("forward_backward",), "timings": ("graph",)}
    return (
        {**common, "seq_lens": doubling(1024, 65_536), "providers": (ours, *dense)},
        {**common, "seq_lens": doubling(1024, 4096), "providers": (ours,), "num_chunks": 4},
        {**common, "seq_lens": (262_144,), "providers": (ours, "sdpa_cudnn")},
        {**common, "seq_lens": (1_048_576,), "providers": (ours,)},
        {**common, "seq_lens": (65_536,), "providers": (ours,), **other_points},
        {**common, **small, "providers": (ours, "zeta_reference")},
    )

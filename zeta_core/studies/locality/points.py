"""Random points of four named distributions: coordinates for codes, and the space of their true neighbours."""

from __future__ import annotations

import hashlib
import json
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

Points = Literal["uniform", "gaussian", "clustered", "projected"]
POINTS: tuple[Points, ...] = get_args(Points)
NUM_CLUSTERS = 16
CLUSTER_SPREAD = 0.1
"""Standard deviation of a cluster, where the centres have 1."""
HIDDEN_DIMS = 128
"""Of the space that `projected` points come from: the paper's largest d_K."""


class Cloud(NamedTuple):
    """coords: [seq_len, d_K] float32 in [0, 1], for the codes. space: [seq_len, dims] float32, for the distances.

    squash: how coordinates came into [0, 1]."""

    coords: Tensor
    space: Tensor
    squash: Literal["none", "sigmoid"]


def draw(points: Points, seq_len: int, d_k: int, seed: int) -> Cloud:
    """Points on the CPU; they depend on the arguments alone.

    uniform: in the unit cube. gaussian: standard normal. clustered: normal with standard deviation 0.1 around 16
    standard normal centres. The last two are squashed by the sigmoid, the mixer's own default, and distances are
    taken behind it, as the mixer does. projected: standard normal in 128 dimensions, where its neighbours are; there
    the points of one seq_len and seed are the same for every d_k. For the codes a random Gaussian map to d_k
    dimensions (Johnson-Lindenstrauss), then the sigmoid; the map keeps each coordinate's variance at 1, since
    neighbours do not see a common factor and the sigmoid does."""
    if points == "projected":
        hidden = torch.randn(seq_len, HIDDEN_DIMS, generator=_stream(points, seq_len, seed))
        to_few = torch.randn(HIDDEN_DIMS, d_k, generator=_stream("map", seq_len, seed, d_k)) * HIDDEN_DIMS**-0.5
        return Cloud((hidden @ to_few).sigmoid(), hidden, "sigmoid")
    stream = _stream(points, seq_len, seed, d_k)
    if points == "uniform":
        coords = torch.rand(seq_len, d_k, generator=stream)
        return Cloud(coords, coords, "none")
    normal = torch.randn(seq_len, d_k, generator=stream)
    if points == "clustered":
        centres = torch.randn(NUM_CLUSTERS, d_k, generator=stream)
        normal = centres[torch.randint(NUM_CLUSTERS, (seq_len,), generator=stream)] + CLUSTER_SPREAD * normal
    coords = normal.sigmoid()
    return Cloud(coords, coords, "sigmoid")


def _stream(*what: object) -> torch.Generator:
    """A generator for each of these: with one seed for all, short clouds would be the beginnings of long ones."""
    digest = hashlib.sha256(json.dumps(what).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little"))

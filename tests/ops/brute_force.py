"""The operator straight from its definitions: one query at a time, Python ints and float64, nothing clever.

Nothing here is shared with zeta_core, so that agreement means something."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

SMALLEST_NORM = 1e-6


def cell(coordinate: float, num_bits: int = 12) -> int:
    size = 2**num_bits
    if math.isnan(coordinate) or coordinate == math.inf:
        return size - 1
    return 0 if coordinate == -math.inf else min(max(math.floor(size * coordinate), 0), size - 1)


def morton_code(cells: Sequence[int], num_bits: int = 12) -> int:
    """One int of len(cells) * num_bits bits: the most significant bits first, dimension 1 first."""
    bits = [f"{number:0{num_bits}b}" for number in cells]
    return int("".join(bit for level in zip(*bits, strict=True) for bit in level), 2)


def dimension_orders(curves: int, d_k: int) -> list[tuple[int, ...]]:
    """1: the identity; 3: the cyclic shifts; 6: these, then the other permutations in lexicographic order."""
    if curves == 1:
        return [tuple(range(d_k))]
    shifts = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    others = [order for order in itertools.permutations(range(3)) if order not in shifts]
    return shifts + (others if curves == 6 else [])


def chunk_of(position: int, seq_len: int, num_chunks: int, chunk_size: int | None) -> int:
    return position // (chunk_size if chunk_size is not None else math.ceil(seq_len / num_chunks))


def squared_distance(a: Sequence[int], b: Sequence[int]) -> int:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def window(query: int, keys: list[tuple[int, int]], width: int) -> list[int]:
    """The positions of `width` keys around the query's code; keys are (code, position) in any order."""
    ordered = sorted(keys)
    smaller = bisect_left([code for code, _ in ordered], query)
    start = smaller - width // 2
    start = max(min(start, len(ordered) - width), 0)
    return [position for _, position in ordered[start : start + width]]


def nearest_on_grid(query: list[int], keys: list[list[int]], found: list[int], share: int) -> list[int]:
    """Of the positions `found` (in curve order) the `share` nearest, equals in curve order, in curve order."""
    ranked = sorted(range(len(found)), key=lambda slot: (squared_distance(query, keys[found[slot]]), slot))
    return [found[slot] for slot in sorted(ranked[:share])]


def select(
    code_q: Tensor,
    code_k: Tensor,
    *,
    num_chunks: int = 8,
    chunk_size: int | None = None,
    top_k: int = 32,
    curves: int = 1,
    causal: bool = True,
    refine: int = 1,
    key_padding_mask: Tensor | None = None,
) -> Tensor:
    """Positions [batch, heads, seq_len, top_k] as `zeta_plan(...).indices()` gives them."""
    batch, heads, seq_len, d_k = code_q.shape
    ids = torch.full((batch, heads, seq_len, top_k), -1)
    share = top_k // curves
    for b, h in np.ndindex(batch, heads):
        q_cells = [[cell(x) for x in point] for point in code_q[b, h].double().tolist()]
        k_cells = [[cell(x) for x in point] for point in code_k[b, h].double().tolist()]
        ignored = [False] * seq_len if key_padding_mask is None else key_padding_mask[b].tolist()
        for number, order in enumerate(dimension_orders(curves, d_k)):
            q_codes, k_codes = (
                [morton_code([point[dim] for dim in order]) for point in points] for points in (q_cells, k_cells)
            )
            for i in range(seq_len):
                own_chunk = chunk_of(i, seq_len, num_chunks, chunk_size)
                visible = [
                    (k_codes[j], j)
                    for j in range(seq_len)
                    if not ignored[j] and (not causal or chunk_of(j, seq_len, num_chunks, chunk_size) < own_chunk)
                ]
                found = window(q_codes[i], visible, refine * share)
                if refine > 1:
                    found = nearest_on_grid(q_cells[i], k_cells, found, share)
                earlier = set(ids[b, h, i].tolist())
                for slot, position in enumerate(found):
                    if position not in earlier:
                        ids[b, h, i, number * share + slot] = position
    return ids


def normalised_weights(score: str, q: np.ndarray, keys: np.ndarray, gamma: float) -> np.ndarray:
    """The weights of all candidates of one query: q [d_K], keys [candidates, d_K]."""
    distance = np.sqrt(((q - keys) ** 2).sum(-1))
    if score == "cauchy":
        weight = 1 / (distance**2 + gamma**2)
    elif score == "inverse_euclidean":
        weight = 1 / (distance + gamma)
    else:
        logit = -(distance**2) / gamma**2 if score == "negative_euclidean" else cosine(q, keys) / gamma
        weight = np.exp(logit - logit.max())
    return weight / weight.sum()


def cosine(q: np.ndarray, keys: np.ndarray) -> np.ndarray:
    a, b = 2 * q - 1, 2 * keys - 1
    norms = max(np.linalg.norm(a), SMALLEST_NORM) * np.maximum(np.linalg.norm(b, axis=-1), SMALLEST_NORM)
    return b @ a / norms


def local_tokens(i: int, seq_len: int, local_window: int, causal: bool) -> set[int]:
    return {j for j in range(seq_len) if abs(i - j) < local_window and (j <= i or not causal)}


def weighted_mean(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    chosen: Sequence[Sequence[Sequence[set[int]]]],
    *,
    gamma: float | Tensor,
    score: str = "cauchy",
    history_mean: bool = True,
    causal: bool = True,
    key_padding_mask: Tensor | None = None,
) -> Tensor:
    """The output in float64, where query i of (b, h) has the candidates chosen[b][h][i], and the history mean."""
    batch, heads, seq_len, _ = q.shape
    queries, keys, values = (t.detach().double().numpy() for t in (q, k, v))
    gammas = [gamma] * heads if isinstance(gamma, float) else gamma.detach().double().expand(heads).tolist()
    out = np.zeros(v.shape)
    for b, h, i in np.ndindex(batch, heads, seq_len):
        ignored = [False] * seq_len if key_padding_mask is None else key_padding_mask[b].tolist()
        places = sorted(j for j in chosen[b][h][i] if not ignored[j])
        candidate_keys, candidate_values = list(keys[b, h, places]), list(values[b, h, places])
        past = [j for j in range(i + 1 if causal else seq_len) if not ignored[j]]
        if history_mean and past:
            candidate_keys.append(keys[b, h, past].mean(0))
            candidate_values.append(values[b, h, past].mean(0))
        if candidate_keys:
            weight = normalised_weights(score, queries[b, h, i], np.array(candidate_keys), gammas[h])
            out[b, h, i] = weight @ np.array(candidate_values)
    return torch.from_numpy(out)


def candidate_sets(ids: Tensor, *, local_window: int = 0, causal: bool = True) -> list[list[list[set[int]]]]:
    """The union of a window given as positions (-1: empty) and the local tokens."""
    seq_len = ids.shape[2]
    return [
        [
            [set(row) - {-1} | local_tokens(i, seq_len, local_window, causal) for i, row in enumerate(head)]
            for head in one
        ]
        for one in ids.tolist()
    ]


def zeta(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    gamma: float | Tensor,
    num_chunks: int = 8,
    chunk_size: int | None = None,
    top_k: int = 32,
    score: str = "cauchy",
    curves: int = 1,
    causal: bool = True,
    history_mean: bool = True,
    local_window: int = 0,
    refine: int = 1,
    key_padding_mask: Tensor | None = None,
    code_q: Tensor | None = None,
    code_k: Tensor | None = None,
) -> Tensor:
    """zeta_attention, in float64."""
    ids = select(
        q if code_q is None else code_q,
        k if code_k is None else code_k,
        num_chunks=num_chunks,
        chunk_size=chunk_size,
        top_k=top_k,
        curves=curves,
        causal=causal,
        refine=refine,
        key_padding_mask=key_padding_mask,
    )
    return weighted_mean(
        q,
        k,
        v,
        candidate_sets(ids, local_window=local_window, causal=causal),
        gamma=gamma,
        score=score,
        history_mean=history_mean,
        causal=causal,
        key_padding_mask=key_padding_mask,
    )


def seen_densely(
    seq_len: int, *, visibility: str, chunk_size: int, causal: bool, local_window: int = 0
) -> Iterator[set[int]]:
    """For each query the keys that it sees without a search."""
    for i in range(seq_len):
        if not causal:
            yield set(range(seq_len))
        elif visibility == "token":
            yield set(range(i + 1))
        else:
            earlier = {j for j in range(seq_len) if j // chunk_size < i // chunk_size}
            yield earlier | local_tokens(i, seq_len, local_window, causal)


def nearest(
    q: Tensor,
    k: Tensor,
    *,
    top_k: int,
    visibility: str,
    chunk_size: int,
    causal: bool,
    key_padding_mask: Tensor | None = None,
) -> Tensor:
    """The top_k nearest visible keys, ties by position, in order of position; -1 past the end."""
    batch, heads, seq_len, _ = q.shape
    ids = torch.full((batch, heads, seq_len, top_k), -1)
    seen = list(seen_densely(seq_len, visibility=visibility, chunk_size=chunk_size, causal=causal))
    for b, h, i in np.ndindex(batch, heads, seq_len):
        query, keys = q[b, h, i].double(), k[b, h].double()
        visible = [j for j in seen[i] if key_padding_mask is None or not key_padding_mask[b, j]]
        ranked = sorted(visible, key=lambda j: ((query - keys[j]).square().sum().item(), j))
        kept = sorted(ranked[:top_k])
        ids[b, h, i, : len(kept)] = torch.tensor(kept, dtype=torch.int64)
    return ids

"""Where windows are decided, in plain torch.

For query i in chunk m the list is the keys of chunks 0..m-1 ordered by (code, position); p is the number of
them with a smaller code than the query's; the window is `width` keys from p - width // 2 on, shifted to stay
inside the list (all of it, if it is shorter)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..blocks import query_blocks

LAST = torch.iinfo(torch.int64).max
"""A code above every other: padded keys sort last."""


@dataclass(frozen=True)
class ReferencePlan:
    """Windows as explicit positions."""

    ids: Tensor

    def indices(self) -> Tensor:
        """[batch, heads, seq_len, top_k] int64 key positions; -1 marks an empty slot or a repeat."""
        return self.ids


def plan(
    q_codes: Tensor,
    k_codes: Tensor,
    *,
    top_k: int,
    chunk_size: int | None,
    refine: int,
    q_cells: Tensor | None,
    k_cells: Tensor | None,
    key_padding_mask: Tensor | None,
) -> ReferencePlan:
    """The windows of every curve side by side; chunk_size None means that every key is visible."""
    curves, batch, heads, seq_len, _ = q_codes.shape
    rows = batch * heads
    ids = torch.full((rows, seq_len, top_k), -1, dtype=torch.int64, device=q_codes.device)
    if rows == 0 or seq_len == 0:
        return ReferencePlan(ids.view(batch, heads, seq_len, top_k))
    padded = None
    if key_padding_mask is not None:
        padded = key_padding_mask[:, None].expand(batch, heads, seq_len).reshape(rows, seq_len)
    cells = None
    if refine > 1:
        assert q_cells is not None and k_cells is not None
        cells = (q_cells.reshape(rows, seq_len, -1), k_cells.reshape(rows, seq_len, -1))
    share = top_k // curves
    width = min(share * refine, max(share, seq_len))
    for curve in range(curves):
        code_q, code_k = single_word(q_codes[curve].flatten(0, 1), k_codes[curve].flatten(0, 1))
        if padded is not None:
            code_k = code_k.masked_fill(padded, LAST)
        part = ids[..., curve * share : (curve + 1) * share]
        for first, last, order, sorted_codes in visible_lists(code_k, chunk_size):
            num_keys = None if padded is None else (~padded[:, : order.shape[1]]).sum(-1)
            for a, b in query_blocks(first, last, 8 * rows * width * (4 + (0 if cells is None else 3))):
                block = slice(a, b)
                found = window(code_q[:, block], order, sorted_codes, num_keys, width=width)
                if cells is not None:
                    found = nearest_in_window(cells[0][:, block], cells[1], found, share)
                part[:, block] = found
    if curves > 1:
        for a, b in query_blocks(0, seq_len, 8 * rows * top_k * 4):
            ids[:, a:b] = without_repeats(ids[:, a:b])
    return ReferencePlan(ids.view(batch, heads, seq_len, top_k))


def single_word(q_codes: Tensor, k_codes: Tensor) -> tuple[Tensor, Tensor]:
    """Codes [rows, seq_len, words] as one int64 a point that compares the same way.

    Codes of several words become their dense ranks among all codes of the row, queries and keys together."""
    if q_codes.shape[-1] == 1:
        return q_codes[..., 0].contiguous(), k_codes[..., 0].contiguous()
    codes = torch.cat((q_codes, k_codes), dim=1)
    order = torch.arange(codes.shape[1], device=codes.device).expand(codes.shape[:2])
    for word in reversed(range(codes.shape[-1])):
        order = order.gather(1, codes[..., word].gather(1, order).argsort(dim=1, stable=True))
    ordered = codes.gather(1, order[..., None].expand_as(codes))
    new = torch.zeros_like(order)
    new[:, 1:] = (ordered[:, 1:] != ordered[:, :-1]).any(-1)
    ranks = torch.empty_like(order).scatter_(1, order, new.cumsum(1))
    seq_len = q_codes.shape[1]
    return ranks[:, :seq_len].contiguous(), ranks[:, seq_len:].contiguous()


def visible_lists(code_k: Tensor, chunk_size: int | None) -> Iterator[tuple[int, int, Tensor, Tensor]]:
    """For each chunk that sees any key: its first query, last query + 1, and the keys it sees, sorted.

    Yields from the last chunk down, since each list is the one above it with a chunk's keys taken out."""
    rows, seq_len = code_k.shape
    sorted_codes, order = code_k.sort(dim=1, stable=True)
    if chunk_size is None:
        yield 0, seq_len, order, sorted_codes
        return
    for first in reversed(range(chunk_size, seq_len, chunk_size)):
        visible = order < first
        order, sorted_codes = order[visible].view(rows, first), sorted_codes[visible].view(rows, first)
        yield first, min(first + chunk_size, seq_len), order, sorted_codes


def window(code_q: Tensor, order: Tensor, sorted_codes: Tensor, num_keys: Tensor | None, *, width: int) -> Tensor:
    """The window of each query: [rows, queries, width] key positions, -1 past the end of a short list.

    order, sorted_codes: [rows, keys], by (code, position). num_keys: [rows], the keys that are not padded
    (they come first in order); None if all are."""
    return window_at(torch.searchsorted(sorted_codes, code_q.contiguous()), order, num_keys, width=width)


def window_at(place: Tensor, order: Tensor, num_keys: Tensor | None, *, width: int) -> Tensor:
    """`window` of queries with so many keys of a smaller code: place, [rows, queries] int64."""
    slot = torch.arange(width, device=place.device)
    if num_keys is None:
        length = order.shape[1]
        start = (place - width // 2).clamp_(min=0, max=length - min(width, length))
        taken = min(width, length)
        ranks = start[..., None] + slot[:taken]
        found = order.gather(1, ranks.flatten(1)).view(ranks.shape)
        return found if taken == width else torch.nn.functional.pad(found, (0, width - taken), value=-1)
    length_of = num_keys[:, None]
    taken_of = length_of.clamp(max=width)
    start = (place - width // 2).clamp_(min=0).minimum(length_of - taken_of)
    ranks = (start[..., None] + slot).clamp_(max=order.shape[1] - 1)
    found = order.gather(1, ranks.flatten(1)).view(ranks.shape)
    return found.masked_fill_(slot >= taken_of[..., None], -1)


def nearest_in_window(q_cells: Tensor, k_cells: Tensor, found: Tensor, share: int) -> Tensor:
    """Cut each window to the `share` keys nearest on the grid, ties by (code, position), in window order.

    q_cells: [rows, queries, d_K], k_cells: [rows, seq_len, d_K], found: [rows, queries, width]; all int64, and
    so are the squared distances: no rounding."""
    flat = found.clamp(min=0).flatten(1)
    distance = torch.zeros_like(found)
    for dim in range(q_cells.shape[-1]):
        difference = k_cells[..., dim].gather(1, flat).view(found.shape) - q_cells[..., dim, None]
        distance += difference * difference
    distance.masked_fill_(found < 0, LAST)
    kept = distance.argsort(dim=-1, stable=True)[..., :share].sort(dim=-1).values
    return found.gather(-1, kept)


def without_repeats(ids: Tensor) -> Tensor:
    """ids [..., top_k] with every occurrence of a key after its first set to -1."""
    ordered, slot = ids.sort(dim=-1, stable=True)
    again = torch.zeros_like(ids, dtype=torch.bool)
    again[..., 1:] = ordered[..., 1:] == ordered[..., :-1]
    return ids.masked_fill(torch.zeros_like(again).scatter_(-1, slot, again), -1)

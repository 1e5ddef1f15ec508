"""Which keys a new token takes: the same ones that the whole sequence's plan gives it."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from zeta_core.attention.zeta import ZetaConfig
from zeta_core.ops.attend.dense import smallest, squared_distances
from zeta_core.ops.windows.reference import nearest_in_window, window_at, without_repeats
from zeta_core.ops.zorder import curve_orders, grid_cells, zorder_codes

from .buffer import Buffer
from .sorted_keys import SortedKeys


class KeySelection(Protocol):
    """The keys so far, made ready for queries."""

    def step(self, q: Tensor, k: Tensor, code_q: Tensor, code_k: Tensor) -> Tensor:
        """Add a token's key and select for its query: [rows, 1, slots] int64 positions, -1 for an empty slot.

        q, k: [rows, 1, d_K]; code_q, code_k: their coordinates for codes."""
        ...


class CurveWindows:
    """Windows on Z-order curves over the complete chunks (`selection` zorder), as in ops/windows/reference.py."""

    def __init__(self, config: ZetaConfig, code_k: Tensor) -> None:
        assert config.chunk_size is not None
        self.chunk, self.refine = config.chunk_size, config.refine
        self.share = config.top_k // config.curves
        self.orders = [list(order) for order in curve_orders(config.curves, config.d_k)]
        codes = self.codes(code_k)
        complete = code_k.shape[1] // self.chunk * self.chunk
        self.lists = [SortedKeys(of_curve[:, :complete]) for of_curve in codes]
        self.pending = Buffer(codes[:, :, complete:].flatten(0, 1))
        # The keys' cells, of which refine needs those of all keys; 12 bits each.
        self.cells = Buffer(grid_cells(code_k).to(torch.int16)) if self.refine > 1 else None

    def codes(self, coords: Tensor) -> Tensor:
        """Of coordinates [rows, tokens, d_K] on each curve: [curves, rows, tokens, words] int64."""
        return zorder_codes(torch.stack([coords[..., order] for order in self.orders]))

    def step(self, q: Tensor, k: Tensor, code_q: Tensor, code_k: Tensor) -> Tensor:
        """As in KeySelection; a key is visible once its chunk is complete and the query's is another."""
        codes = self.codes(torch.cat((code_q, code_k), 1))
        q_codes, k_codes = codes[:, :, :1], codes[:, :, 1:]
        if self.cells is not None:
            self.cells.append(grid_cells(code_k).to(torch.int16))
        found = [self.window(keys, of_curve, code_q) for keys, of_curve in zip(self.lists, q_codes, strict=True)]
        self.pending.append(k_codes.flatten(0, 1))
        if self.pending.length == self.chunk:
            added = self.pending.filled.view(len(self.lists), -1, self.chunk, k_codes.shape[-1])
            for keys, of_curve in zip(self.lists, added, strict=True):
                keys.add(of_curve)
            self.pending = Buffer(self.pending.filled[:, :0])
        ids = torch.cat(found, -1)
        return without_repeats(ids) if len(self.lists) > 1 else ids

    def window(self, keys: SortedKeys, q_codes: Tensor, code_q: Tensor) -> Tensor:
        """The keys of one curve: [rows, 1, share]."""
        width = min(self.share * self.refine, max(self.share, len(keys)))
        found = window_at(keys.places(q_codes), keys.order, None, width=width)
        if self.cells is None:
            return found
        return nearest_in_window(grid_cells(code_q), self.cells.filled, found, self.share)


class AllKeys:
    """Every visible key (`selection` all): all complete chunks, or all of the past and the token itself."""

    def __init__(self, config: ZetaConfig, k: Tensor) -> None:
        self.chunk = config.chunk_size if config.visibility == "chunk" else None
        self.length = k.shape[1]

    def visible(self) -> int:
        """How many keys the newest token sees."""
        return self.length if self.chunk is None else (self.length - 1) // self.chunk * self.chunk

    def step(self, q: Tensor, k: Tensor, code_q: Tensor, code_k: Tensor) -> Tensor:
        """As in KeySelection."""
        self.length += 1
        return torch.arange(self.visible(), device=q.device).expand(len(q), 1, -1)


class NearestKeys(AllKeys):
    """The truly nearest of the visible keys (`selection` exact), ties by position, as in ops/attend/dense.py."""

    def __init__(self, config: ZetaConfig, k: Tensor) -> None:
        super().__init__(config, k)
        self.top_k, self.keys = config.top_k, Buffer(k)

    def step(self, q: Tensor, k: Tensor, code_q: Tensor, code_k: Tensor) -> Tensor:
        """As in KeySelection; compares with every visible key."""
        self.keys.append(k)
        self.length += 1
        visible = self.visible()
        if not visible:
            return torch.full((len(q), 1, self.top_k), -1, device=q.device)
        far = squared_distances(q, self.keys.filled[:, :visible])
        found = smallest(far, min(self.top_k, visible)).sort(-1).values
        return torch.nn.functional.pad(found, (0, self.top_k - found.shape[-1]), value=-1)


def key_selection(config: ZetaConfig, k: Tensor, code_k: Tensor) -> KeySelection:
    """The configuration's selection over the keys so far: k, code_k [rows, tokens, d_K]."""
    if config.selection == "zorder":
        return CurveWindows(config, code_k)
    return NearestKeys(config, k) if config.selection == "exact" else AllKeys(config, k)

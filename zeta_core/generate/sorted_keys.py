"""The keys of complete chunks in the order of one curve, kept sorted while chunks are added."""

from __future__ import annotations

import torch
from torch import Tensor


class SortedKeys:
    """Codes and positions of the keys 0..n-1 of each row, ordered by (code, position) as in ops/windows.

    codes: [rows, n, words] int64, in order of position. A chunk is merged in by as many binary searches as it has
    keys and one pass over the list, so that adding costs n / chunk_size a token and finding log n."""

    def __init__(self, codes: Tensor) -> None:
        self.order, self.words = ascending(codes)

    def __len__(self) -> int:
        return self.order.shape[1]

    def places(self, codes: Tensor, *, after_equal: bool = False) -> Tensor:
        """How many keys have a smaller code (or after_equal: one no larger) than each of codes [rows, m, words].

        Returns: [rows, m] int64."""
        first = codes[..., 0].contiguous()
        if len(self.words) == 1:
            return torch.searchsorted(self.words[0], first, right=after_equal)
        # Those that agree in the first word lie between low and high; most often there are few.
        low, high = (torch.searchsorted(self.words[0], first, right=right) for right in (False, True))
        for _ in range(int((high - low).max()).bit_length() if low.numel() else 0):
            middle = (low + high) // 2
            at = middle.clamp(max=len(self) - 1)
            before, equal = torch.zeros_like(at, dtype=torch.bool), torch.ones_like(at, dtype=torch.bool)
            for word, stored in enumerate(self.words[1:], start=1):
                there, here = stored.gather(1, at), codes[..., word]
                before |= equal & (there < here)
                equal &= there == here
            ahead = (before | equal if after_equal else before) & (low < high)
            low, high = torch.where(ahead, middle + 1, low), torch.where(ahead, high, middle.minimum(high))
        return low

    def add(self, codes: Tensor) -> None:
        """Merge in the keys at the next positions: codes [rows, new, words], in order of position."""
        order, words = ascending(codes)
        old, new = len(self), codes.shape[1]
        # Equal codes go behind those that are there, whose positions are smaller.
        place = self.places(torch.stack(words, -1), after_equal=True) + torch.arange(new, device=order.device)
        free = torch.ones(len(order), old + new, dtype=torch.bool, device=order.device).scatter_(1, place, False)
        pairs = zip((self.order, *self.words), (order + old, *words), strict=True)
        self.order, *self.words = (merged(there, added, place, free) for there, added in pairs)


def merged(there: Tensor, added: Tensor, place: Tensor, free: Tensor) -> Tensor:
    """there [rows, old] at the free places and added [rows, new] at the others: [rows, old + new]."""
    whole = torch.empty_like(free, dtype=there.dtype).scatter_(1, place, added)
    return whole.masked_scatter_(free, there)


def ascending(codes: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The positions of codes [rows, n, words] by (code, position), [rows, n], and each word in that order."""
    order = torch.arange(codes.shape[1], device=codes.device).expand(codes.shape[:2]).contiguous()
    for word in reversed(range(codes.shape[-1])):
        order = order.gather(1, codes[..., word].gather(1, order).argsort(dim=1, stable=True))
    return order, [word.gather(1, order) for word in codes.unbind(-1)]

"""Memory that grows at its end."""

from __future__ import annotations

from torch import Tensor


class Buffer:
    """One vector a token, [..., tokens, dim], in memory with room for more: appending copies rarely."""

    def __init__(self, start: Tensor) -> None:
        self.length = start.shape[-2]
        self.whole = roomy(start, self.length)

    @property
    def filled(self) -> Tensor:
        """[..., tokens, dim], a view."""
        return self.whole[..., : self.length, :]

    def append(self, more: Tensor) -> None:
        """Add tokens, [..., new, dim]."""
        stop = self.length + more.shape[-2]
        if stop > self.whole.shape[-2]:
            self.whole = roomy(self.filled, stop)
        self.whole[..., self.length : stop, :] = more
        self.length = stop


def roomy(start: Tensor, needed: int) -> Tensor:
    """A contiguous copy of start [..., tokens, dim] with room for half as many tokens again as are needed.

    The room is zeros: what a weight of 0 may meet must be finite."""
    room = start.new_zeros(*start.shape[:-2], needed + needed // 2 + 64, start.shape[-1])
    room[..., : start.shape[-2], :] = start
    return room

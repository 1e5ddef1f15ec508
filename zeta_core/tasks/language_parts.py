"""Windows over a stream of tokens, cut so that every token is scored exactly once."""

from __future__ import annotations

import numpy as np
import torch

from .store import Stored
from .task import IGNORED, Batch, Part, TextSize


class Stream:
    """A split's documents laid end to end, a separator behind each and one before the first.

    Position 0 is that separator: it has no context and is never scored. Positions 1..len(stream) are the documents'
    tokens and the separators that end them."""

    def __init__(self, stored: Stored, separator: int) -> None:
        self.arrays = [shard.documents[0].tokens for shard in stored.shards]
        self.ends = np.cumsum([0, *(len(array) for array in self.arrays)])
        self.separator = separator

    def __len__(self) -> int:
        return int(self.ends[-1])

    def read(self, start: int, stop: int) -> np.ndarray:
        """The tokens at positions start..stop-1, as far as there are any: [tokens] int64."""
        stop = min(stop, len(self) + 1)
        found = [np.array([self.separator])] if start == 0 < stop else []
        low, high = max(start - 1, 0), stop - 1
        for number in range(int(np.searchsorted(self.ends, low, side="right")) - 1, len(self.arrays)):
            first = self.ends[number]
            if first >= high:
                break
            found.append(self.arrays[number][max(low - first, 0) : high - first].astype(np.int64))
        return np.concatenate([np.zeros(0, dtype=np.int64), *found])


class WindowPart(Part):
    """The first `length` tokens of a stream after its first separator, each scored once.

    stride None: windows of seq_len tokens that do not overlap. Else each window begins `stride` tokens behind the
    one before; the first scores all its tokens, others their last `stride` alone. The last window is filled up with
    separators whose labels are -100. text: the words and bytes of the documents that these tokens are."""

    def __init__(
        self,
        stream: Stream,
        *,
        name: str,
        seq_len: int,
        vocab_size: int,
        stride: int | None,
        length: int,
        text: TextSize | None,
        apart: bool = False,
    ) -> None:
        assert 0 < length <= len(stream) and (stride is None or stride <= seq_len)
        self.stream, self.name, self.seq_len, self.length, self.text = stream, name, seq_len, length, text
        self.vocab_size, self.apart = vocab_size, apart
        self.step = seq_len if stride is None else stride

    def __len__(self) -> int:
        return 1 + max(0, -(-(self.length - self.seq_len) // self.step))

    def batch(self, indices: np.ndarray) -> Batch:
        """Tokens [batch, seq_len] int64, and labels of the same shape: the token that follows, or -100."""
        tokens = np.full((len(indices), self.seq_len), self.stream.separator, dtype=np.int64)
        labels = np.full_like(tokens, IGNORED)
        for row, index in enumerate(indices):
            start = int(index) * self.step
            found = self.stream.read(start, min(start + self.seq_len, self.length) + 1)
            tokens[row, : len(found) - 1], labels[row, : len(found) - 1] = found[:-1], found[1:]
            if index > 0:
                labels[row, : self.seq_len - self.step] = IGNORED
        return Batch(torch.from_numpy(tokens), torch.from_numpy(labels))

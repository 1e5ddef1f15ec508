"""Sizes and places of what a plan holds in memory: all follow from shapes, so that nothing waits for the GPU."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

EXACT, LEVELS, ALL = 0, 1, 2
"""A list of keys for every chunk; for the limits of 1, 2, 4, 8, ... chunks; one for everything."""
MOST_EXACT = 64
"""Above this many chunks their own lists would grow with the square of the length."""
KEY_TILE = 32
"""Sorted keys that one program of the backward pass of k and v takes."""
ALIGN = 64


@dataclass(frozen=True)
class Layout:
    """Lists of sorted keys and segments of sorted queries, for one curve.

    A list holds the keys of the chunks below a limit, by (code, position); the last one holds all of them.
    A segment holds the queries that use one list, by code: with EXACT segment m is chunk m and uses list
    m - 1; with LEVELS segment s has the chunks whose limit is 2^(s-1); with ALL there is one of each."""

    rows: int
    """batch * heads"""
    seq_len: int
    chunk: int
    mode: int
    num_lists: int

    @property
    def width(self) -> int:
        """Lists or segments, whichever are more, as a power of two of at least 2: the width of tables."""
        return max(2, next_power(self.segments))

    @property
    def num_chunks(self) -> int:
        return -(-self.seq_len // self.chunk)

    @property
    def segments(self) -> int:
        return self.num_lists + (self.mode == LEVELS)

    @property
    def full_list(self) -> int:
        """Where the list of all keys begins: the last one."""
        if self.mode == ALL:
            return 0
        last = self.num_lists - 1
        return self.chunk * (last * (last + 1) // 2 if self.mode == EXACT else (1 << last) - 1)

    @property
    def list_ids(self) -> int:
        """Ids in all lists of one row."""
        return self.full_list + self.seq_len

    @property
    def key_tiles(self) -> int:
        return -(-self.seq_len // KEY_TILE)

    @property
    def first_query(self) -> int:
        """The first token that sees any key."""
        return 0 if self.mode == ALL else min(self.chunk, self.seq_len)

    def query_tiles(self, block: int) -> int:
        """Tiles of `block` queries a row; segments are not mixed."""
        if self.mode == ALL:
            return -(-self.seq_len // block)
        if self.mode == EXACT:
            return max(0, self.num_chunks - 1) * -(-self.chunk // block)
        return sum(-(-size // block) for size in self.segment_sizes()[1:])

    def segment_sizes(self) -> list[int]:
        """Queries of every segment."""
        if self.mode == ALL:
            return [self.seq_len]
        starts = [0, self.chunk] + [((1 << s) + 1) * self.chunk for s in range(self.num_lists)]
        if self.mode == EXACT:
            starts = [m * self.chunk for m in range(self.num_chunks + 1)]
        cut = [min(start, self.seq_len) for start in starts]
        return [b - a for a, b in zip(cut, [*cut[1:], self.seq_len], strict=True) if b > a]


@lru_cache(maxsize=256)
def layout_of(rows: int, seq_len: int, chunk: int | None) -> Layout:
    """The layout for `rows` heads of seq_len tokens; chunk None means that every key is visible."""
    if chunk is None:
        return Layout(rows, seq_len, max(1, seq_len), ALL, 1)
    chunk = min(chunk, max(1, seq_len))
    chunks = max(1, -(-seq_len // chunk))
    if chunks <= MOST_EXACT:
        return Layout(rows, seq_len, chunk, EXACT, chunks)
    return Layout(rows, seq_len, chunk, LEVELS, (chunks - 1).bit_length() + 1)


def next_power(x: int) -> int:
    """The smallest power of two that is at least x."""
    return 1 << max(0, x - 1).bit_length()


@dataclass(frozen=True)
class Fields:
    """Where each int32 array of a plan lies in its one buffer; -1 where it is not kept."""

    lists: int
    order: int
    """[rows, seq_len]: query tokens by (segment, code)."""
    start: int
    """[rows, seq_len], in that order: the place in its list of the first key of a window."""
    stop: int
    """The place after the last one; kept with LEVELS only (else start + the keys taken)."""
    visible: int
    """[rows, width]: keys in each list."""
    tiles: int
    """[rows, key_tiles, width]: of each list, the keys that sort before a tile; for gradients."""
    place: int
    """[rows, seq_len], by token: the place of a key among all sorted ones."""
    first: int
    last: int
    """[rows, seq_len], by token: places of the first and the last key of a window; for several curves."""
    bound: int
    tie: int
    """[rows, seq_len], by token: the grid distance of the last key kept, and its place; for refine > 1."""
    size: int
    """Of one curve."""


@lru_cache(maxsize=256)
def fields_of(layout: Layout, curves: int, refine: int, gradients: bool) -> Fields:
    """The arrays that this plan keeps."""
    tokens = layout.rows * layout.seq_len
    several = curves > 1
    levels = layout.mode == LEVELS
    sizes = {
        "lists": layout.rows * layout.list_ids,
        "order": tokens,
        "start": tokens,
        "stop": tokens if levels else None,
        "visible": layout.rows * layout.width,
        "tiles": layout.rows * layout.key_tiles * layout.width if gradients else None,
        "place": tokens if gradients or several or refine > 1 or levels else None,
        "first": tokens if several else None,
        "last": tokens if several else None,
        "bound": tokens if refine > 1 else None,
        "tie": tokens if refine > 1 else None,
    }
    kept = {name: -(-size // ALIGN) * ALIGN for name, size in sizes.items() if size is not None}
    ends = dict(zip(kept, accumulate(kept.values()), strict=True))
    places = {name: ends[name] - kept[name] if name in kept else -1 for name in sizes}
    return Fields(size=sum(kept.values()), **places)

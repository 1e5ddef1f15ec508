"""The sizes that kernels of attend are launched with: a fixed table, so that sums keep their order.

Chosen on an H200 with `python -m zeta_core.ops.tuning`, which prints the times of the alternatives."""

from __future__ import annotations

from typing import NamedTuple


class Tile(NamedTuple):
    """Rows of a program, width of a block that it walks, warps, pipeline stages, registers a thread (0: free)."""

    rows: int
    width: int
    warps: int
    stages: int
    registers: int = 0

    def options(self) -> dict[str, int]:
        """What the launch takes besides the sizes."""
        return {"num_warps": self.warps} | ({"maxnreg": self.registers} if self.registers else {})


class Tiles(NamedTuple):
    """One entry of the table."""

    forward: Tile
    backward: Tile
    keys: Tile


HALF = Tiles(forward=Tile(16, 16, 1, 1, 128), backward=Tile(16, 16, 1, 2, 128), keys=Tile(32, 16, 1, 1))
HALF_WIDE = Tiles(forward=Tile(16, 32, 2, 2), backward=Tile(16, 32, 2, 2), keys=Tile(32, 16, 4, 2))
FULL = Tiles(forward=Tile(16, 32, 2, 2), backward=Tile(16, 32, 2, 2), keys=Tile(32, 16, 4, 2))
FULL_WIDE = Tiles(forward=Tile(16, 16, 4, 2), backward=Tile(16, 16, 4, 2), keys=Tile(32, 16, 4, 1))


def tiles_for(itemsize: int, d_v: int) -> Tiles:
    """The table: by bytes of a value's element and by d_V."""
    if itemsize < 4:
        return HALF if d_v <= 128 else HALF_WIDE
    return FULL if d_v <= 64 else FULL_WIDE


class Walk(NamedTuple):
    """Tokens that a pass in token order takes at once, pipeline stages, registers a thread (0: free)."""

    block: int
    stages: int
    registers: int = 0

    def options(self) -> dict[str, int]:
        """Everything that the launch takes."""
        sizes = {"BLOCK": self.block, "STAGES": self.stages, "num_warps": 4}
        return sizes | ({"maxnreg": self.registers} if self.registers else {})


class Walks(NamedTuple):
    """Merging the history mean, its gradient, and what that sends back to keys and values."""

    forward: Walk
    backward: Walk
    back: Walk


def walks_for(pad_v: int, pad_k: int, itemsize: int) -> Walks:
    """At least 32 tokens: a scan over fewer rows than 4 warps have does not compile. Wide rows of coordinates or
    of float32 values leave no room for several stages."""
    if pad_v <= 64 and pad_k <= 16 and itemsize < 4:
        return Walks(Walk(32, 3, 128), Walk(64, 3), Walk(32, 3, 128))
    walk = Walk(max(32, min(64, 4096 // pad_v)), 2 if pad_k <= 16 else 1)
    return Walks(walk, walk, walk)


def stretch_of(rows: int, seq_len: int, block: int) -> int:
    """Tokens of one program of the passes in token order: enough programs, and at most 256 sums a row."""
    programs = -(-rows * seq_len // 1056)
    wanted = max(block, programs, -(-seq_len // 256))
    return 1 << (wanted - 1).bit_length()

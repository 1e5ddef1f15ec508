"""Which keys of a span of a list a query may take, beyond its window's two ends. Shapes broadcast."""

from __future__ import annotations

import triton
import triton.language as tl

from .kernel_layout import ALL, LEVELS


@triton.jit
def grid_distance(q_cells, k_cells, query, key, DIMS: tl.constexpr):
    """Squared distance on the 12-bit grid: at most 128 * 4095^2, which an int32 holds."""
    total = query * 0 + key * 0
    for d in range(DIMS):
        # one coordinate of every query and key: int16
        a = tl.load(q_cells + query * DIMS + d).to(tl.int32)
        b = tl.load(k_cells + key * DIMS + d).to(tl.int32)
        total += (a - b) * (a - b)
    return total


@triton.jit
def refined(distance, query, key, fields, place_at, bound_at, tie_at):
    """Is the key among the nearest that the query keeps of its window? fields: of one curve and row."""
    # place: like key; bound, tie: like query
    place = tl.load(fields + place_at + key)
    bound = tl.load(fields + bound_at + query)
    tie = tl.load(fields + tie_at + query)
    return (distance < bound) | ((distance == bound) & (place <= tie))


@triton.jit
def selected(
    ok,
    query,
    key,
    chunk,
    local,
    plan_row,
    curve_size,
    place_at,
    first_at,
    last_at,
    bound_at,
    tie_at,
    q_cells,
    k_cells,
    CELL_DIMS: tl.constexpr,
    MODE: tl.constexpr,
    CURVE: tl.constexpr,
    EARLIER: tl.constexpr,
    REFINE: tl.constexpr,
    LOCAL: tl.constexpr,
):
    """ok, less what the query's chunk does not see, the local window has, `refine` cuts or a curve before has.

    plan_row: the plan's buffer, advanced to this row of its [rows, seq_len] arrays."""
    if MODE == LEVELS:
        ok = ok & (key < (query // chunk) * chunk)
    if LOCAL:
        ok = ok & (query - key >= local) if MODE != ALL else ok & (tl.abs(query - key) >= local)
    if REFINE or EARLIER > 0:
        distance = ok.to(tl.int32)
        if REFINE:
            distance = grid_distance(q_cells, k_cells, query, key, CELL_DIMS)
            fields = plan_row + curve_size * CURVE
            ok = ok & refined(distance, query, key, fields, place_at, bound_at, tie_at)
        for earlier in tl.static_range(EARLIER):
            fields = plan_row + curve_size * earlier
            # place: like key; first, last: like query
            place = tl.load(fields + place_at + key)
            first = tl.load(fields + first_at + query)
            last = tl.load(fields + last_at + query)
            found = (first <= place) & (place <= last)
            if REFINE:
                found = found & refined(distance, query, key, fields, place_at, bound_at, tie_at)
            ok = ok & (found == 0)
    return ok

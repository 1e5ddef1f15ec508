"""Overlaps once more, in plain loops: codes as strings of bits, distances by sums. Shares no code with the study."""

import math
from itertools import permutations

SHIFTS = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
CURVES = {
    1: lambda dims: [tuple(range(dims))],
    3: lambda dims: SHIFTS,
    6: lambda dims: SHIFTS + [order for order in permutations(range(3)) if order not in SHIFTS],
}


def code(point, bits):
    """The interleaved bits of a point as a string, which sorts like the code."""
    cells = [min(max(math.floor(u * 2**bits), 0), 2**bits - 1) for u in point]
    return "".join(format(cell, f"0{bits}b")[bit] for bit in range(bits) for cell in cells)


def true_neighbours(space, number):
    """For each point the set of the others nearest to it, ties by position."""
    found = []
    for i, point in enumerate(space):
        others = sorted((math.dist(point, other), j) for j, other in enumerate(space) if j != i)
        found.append({j for _, j in others[:number]})
    return found


def curve_neighbours(coords, number, curves, bits):
    """For each point the set of those next to it on the curves, itself left out."""
    orders = CURVES[curves](len(coords[0]))
    found = [set() for _ in coords]
    for turn, dims in enumerate(orders):
        share = number // curves + (1 if turn < number % curves else 0)
        codes = [code([point[dim] for dim in dims], bits) for point in coords]
        line = sorted(range(len(coords)), key=lambda i: (codes[i], i))
        for at, i in enumerate(line):
            start = min(max(at - (share + 1) // 2, 0), len(line) - share - 1)
            found[i] |= {j for j in line[start : start + share + 1] if j != i}
    return found


def overlap(space, coords, number, curves, bits):
    """The mean share of true neighbours that the curves find."""
    pairs = zip(true_neighbours(space, number), curve_neighbours(coords, number, curves, bits), strict=True)
    shares = [len(true & found) / number for true, found in pairs]
    return sum(shares) / len(shares)


def head_sets(q, k, *, top_k, chunk):
    """One head of one sequence, one curve: for each query its exact keys, its window, how many keys it sees.

    q, k: lists of points. chunk None: every key is visible."""
    exact, windows, sees = [], [], []
    codes = [code(point, 12) for point in k]
    for i, query in enumerate(q):
        keys = [j for j in range(len(k)) if chunk is None or j // chunk < i // chunk]
        sees.append(len(keys))
        exact.append(set(sorted(keys, key=lambda j: (math.dist(query, k[j]), j))[:top_k]))
        line = sorted(keys, key=lambda j: (codes[j], j))
        at = sum(codes[j] < code(query, 12) for j in line)
        start = min(max(at - top_k // 2, 0), max(len(line) - top_k, 0))
        windows.append(set(line[start : start + top_k]))
    return exact, windows, sees

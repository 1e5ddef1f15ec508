"""What kernels share about one (query, candidate) pair: closeness, weight, slope. Shapes broadcast.

With r = 1 / (d^2 + gamma^2): the weight is gamma^2 r, which is at most 1, since 1 / gamma^2 overflows half
precision. P is a weight over the sum of all, G = P (dO . u - delta) the gradient of its logarithm, and
e = `slope` makes the gradient of q the sum of 2 e (q - x), of x its negative; for the cosine e x and e q."""

from __future__ import annotations

import triton
import triton.language as tl

CAUCHY = tl.constexpr(0)
NEGATIVE_EUCLIDEAN = tl.constexpr(1)
INVERSE_EUCLIDEAN = tl.constexpr(2)
NORMALIZED_DOT = tl.constexpr(3)
UNROLLED = tl.constexpr(4)
"""Up to so many coordinates are held in registers; more are read again for every block."""
SMALLEST_NORM = tl.constexpr(1e-6)


@triton.jit
def exponential(SCORE: tl.constexpr):
    """Whether `strength` is a logarithm: negative_euclidean and normalized_dot."""
    return SCORE % 2 == 1


@triton.jit
def columns(at, mask, DIMS: tl.constexpr):
    """The first four coordinates of some rows; those past DIMS repeat the first."""
    # each: one coordinate of every row
    a = tl.load(at, mask=mask, other=0.0).to(tl.float32)
    b, c, d = a, a, a
    if DIMS > 1:
        b = tl.load(at + 1, mask=mask, other=0.0).to(tl.float32)
    if DIMS > 2:
        c = tl.load(at + 2, mask=mask, other=0.0).to(tl.float32)
    if DIMS > 3:
        d = tl.load(at + 3, mask=mask, other=0.0).to(tl.float32)
    return a, b, c, d


@triton.jit
def term(q, x, SCORE: tl.constexpr):
    if SCORE == NORMALIZED_DOT:
        return q * x
    else:
        return (q - x) * (q - x)


@triton.jit
def closeness(q0, q1, q2, q3, x0, x1, x2, x3, q_at, x_at, q_mask, x_mask, DIMS: tl.constexpr, SCORE: tl.constexpr):
    """Squared distance, or the cosine of unit vectors: differences squared one by one, never q^2 + x^2 - 2 q x."""
    if DIMS <= UNROLLED:
        total = term(q0, x0, SCORE)
        if DIMS > 1:
            total += term(q1, x1, SCORE)
        if DIMS > 2:
            total += term(q2, x2, SCORE)
        if DIMS > 3:
            total += term(q3, x3, SCORE)
    else:
        total = term(q0, x0, SCORE)
        for d in range(1, DIMS):
            # one coordinate of every query and candidate
            q = tl.load(q_at + d, mask=q_mask, other=0.0).to(tl.float32)
            x = tl.load(x_at + d, mask=x_mask, other=0.0).to(tl.float32)
            total += term(q, x, SCORE)
    return total


@triton.jit
def strength(close, gamma, SCORE: tl.constexpr):
    """The weight, or for an exponential score its logarithm."""
    if SCORE == CAUCHY:
        return gamma * gamma / (close + gamma * gamma)
    elif SCORE == NEGATIVE_EUCLIDEAN:
        return -close / (gamma * gamma)
    elif SCORE == INVERSE_EUCLIDEAN:
        return gamma / (tl.sqrt(close) + gamma)
    else:
        return close / gamma


@triton.jit
def share(weight, stat, SCORE: tl.constexpr):
    """P of a candidate from its strength and what the forward pass saved: Z, or the logarithm of it."""
    if exponential(SCORE):
        return tl.exp(weight - stat)
    else:
        return weight / stat


@triton.jit
def slope(G, close, gamma, SCORE: tl.constexpr):
    if SCORE == CAUCHY:
        return -G / (close + gamma * gamma)
    elif SCORE == NEGATIVE_EUCLIDEAN:
        return -G / (gamma * gamma)
    elif SCORE == INVERSE_EUCLIDEAN:
        d = tl.sqrt(close)
        return tl.where(d == 0.0, 0.0, -G / ((d + gamma) * 2 * tl.where(d == 0.0, 1.0, d)))
    else:
        return G / gamma


@triton.jit
def gamma_slope(G, e, close, gamma, SCORE: tl.constexpr):
    """This pair's part of the gradient of gamma."""
    if SCORE == CAUCHY:
        return 2 * gamma * e
    elif SCORE == NEGATIVE_EUCLIDEAN:
        return 2 * (G * close / (gamma * gamma)) / gamma
    elif SCORE == INVERSE_EUCLIDEAN:
        return -G / (tl.sqrt(close) + gamma)
    else:
        return -G * close / (gamma * gamma)


@triton.jit
def merged(out, stat, summed, total, top, SCORE: tl.constexpr):
    """Add candidates to a row: summed [rows, d_V] and total [rows] of their weights, on the scale of top.

    out, stat: the row so far, normalised; stat 0 (or -inf) if it has no candidate. Returns both anew."""
    if exponential(SCORE):
        highest = tl.maximum(stat, top)
        highest = tl.where(highest == float("-inf"), 0.0, highest)
        old, new = tl.exp(stat - highest), tl.exp(top - highest)
        weight = old + new * total
        scale = tl.where(weight == 0.0, 1.0, weight)
        return (out * old[:, None] + summed * new[:, None]) / scale[:, None], highest + tl.log(weight)
    else:
        weight = stat + total
        scale = tl.where(weight == 0.0, 1.0, weight)
        return (out * stat[:, None] + summed) / scale[:, None], weight


@triton.jit
def nothing_yet(like, SCORE: tl.constexpr):
    """The stat of rows without candidates."""
    if exponential(SCORE):
        return tl.full(like.shape, float("-inf"), tl.float32)
    else:
        return tl.zeros(like.shape, tl.float32)


@triton.jit
def weigh(weight, values):
    """weight @ values in float32. Half-precision floats keep their weights' exponents in tf32: a row whose
    weights are all small would lose them in float16."""
    if values.dtype == tl.float32:
        return tl.dot(weight, values, input_precision="ieee")
    elif values.dtype == tl.float16:
        return tl.dot(weight, values.to(tl.float32), input_precision="tf32")
    else:
        return tl.dot(weight.to(values.dtype), values)


@triton.jit
def product(a, b):
    """a @ b of values of one dtype, in float32."""
    if a.dtype == tl.float32:
        return tl.dot(a, b, input_precision="ieee")
    else:
        return tl.dot(a, b)

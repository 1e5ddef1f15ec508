"""What kernels share about one (query, candidate) pair: closeness, weight, slope. Shapes broadcast.

P is a weight over the sum of all, G = P (dO . u - delta) the gradient of its logarithm. With cauchy and
r = 1 / (d^2 + gamma^2), e = G r, and the gradient of q is the sum of -2 e (q - x), of x its negative, of gamma
-2 gamma sum e; other scores change e; for the cosine the gradients are the sums of e x and e q."""

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
def unit_of(gamma, SCORE: tl.constexpr):
    """A power of two that coordinates are multiplied with, so that gamma lies in [1, 2) and weights below 1.

    Exact, so that differences of neighbours keep every bit. 1 for scores whose weights are at most 1 anyway."""
    if SCORE == CAUCHY:
        exponent = (gamma.to(tl.int32, bitcast=True) >> 23) & 255
        return ((254 - exponent) << 23).to(tl.float32, bitcast=True)
    else:
        return gamma * 0 + 1


@triton.jit
def columns(at, unit, DIMS: tl.constexpr):
    """The first four coordinates of some rows, times unit; those past DIMS repeat the first."""
    # each: one coordinate of every row
    a = tl.load(at).to(tl.float32) * unit
    b, c, d = a, a, a
    if DIMS > 1:
        b = tl.load(at + 1).to(tl.float32) * unit
    if DIMS > 2:
        c = tl.load(at + 2).to(tl.float32) * unit
    if DIMS > 3:
        d = tl.load(at + 3).to(tl.float32) * unit
    return a, b, c, d


@triton.jit
def wide_rows(base, offset, D_V: tl.constexpr, PAD_V: tl.constexpr):
    """Rows of values at 32-bit offsets: [rows, PAD_V], zeros past D_V."""
    dim = tl.arange(0, PAD_V)
    at = base + offset[:, None] + dim[None, :]
    # [rows, PAD_V]
    if D_V == PAD_V:
        return tl.load(at)
    else:
        return tl.load(at, mask=(dim < D_V)[None, :], other=0.0)


@triton.jit
def term(q, x, SCORE: tl.constexpr):
    if SCORE == NORMALIZED_DOT:
        return q * x
    else:
        return (q - x) * (q - x)


@triton.jit
def closeness(
    q0, q1, q2, q3, x0, x1, x2, x3, q_at, x_at, unit, gamma, DIMS: tl.constexpr, SCORE: tl.constexpr
):  # fmt: skip
    """Squared distance (for cauchy, plus gamma^2), or the cosine of unit vectors.

    Differences are squared one by one, never q^2 + x^2 - 2 q x, which loses the small ones."""
    total = term(q0, x0, SCORE)
    if SCORE == CAUCHY:
        total += gamma * gamma
    if DIMS <= UNROLLED:
        if DIMS > 1:
            total += term(q1, x1, SCORE)
        if DIMS > 2:
            total += term(q2, x2, SCORE)
        if DIMS > 3:
            total += term(q3, x3, SCORE)
    else:
        for d in range(1, DIMS):
            # one coordinate of every query and candidate
            q = tl.load(q_at + d).to(tl.float32) * unit
            x = tl.load(x_at + d).to(tl.float32) * unit
            total += term(q, x, SCORE)
    return total


@triton.jit
def strength(close, gamma, SCORE: tl.constexpr):
    """The weight, or for an exponential score its logarithm, from `closeness`."""
    if SCORE == CAUCHY:
        # One instruction and a product, where a division takes ten.
        root = tl.rsqrt(close)
        return root * root
    elif SCORE == NEGATIVE_EUCLIDEAN:
        return -close / (gamma * gamma)
    elif SCORE == INVERSE_EUCLIDEAN:
        return gamma / (tl.sqrt(close) + gamma)
    else:
        return close / gamma


@triton.jit
def inverse(stat, SCORE: tl.constexpr):
    """What `slopes` wants of the saved sum of weights, or of its logarithm."""
    if exponential(SCORE):
        return stat
    else:
        return tl.where(stat == 0.0, 0.0, 1.0 / stat)


@triton.jit
def slopes(ok, close, product, delta, inverse, gamma, SCORE: tl.constexpr):
    """P, e and the pair's part of the gradient of gamma, the last two up to `pull_factor` and `gamma_factor`.

    product: dO . u of every pair; inverse: as above, of every query."""
    if SCORE == CAUCHY:
        root = tl.where(ok, tl.rsqrt(close), 0.0)
        r = root * root
        P = r * inverse
        e = P * (product - delta) * r
        return P, e, e
    elif SCORE == NEGATIVE_EUCLIDEAN:
        P = tl.where(ok, tl.exp(-close / (gamma * gamma) - inverse), 0.0)
        e = P * (product - delta) / (gamma * gamma)
        return P, e, e * close
    elif SCORE == INVERSE_EUCLIDEAN:
        d = tl.sqrt(close)
        r = 1.0 / (d + gamma)
        P = tl.where(ok, gamma * r * inverse, 0.0)
        G = P * (product - delta)
        return P, tl.where(d == 0.0, 0.0, G * r / (2 * tl.where(d == 0.0, 1.0, d))), G * r
    else:
        P = tl.where(ok, tl.exp(close / gamma - inverse), 0.0)
        e = P * (product - delta) / gamma
        return P, e, e * close


@triton.jit
def pull_factor(unit, SCORE: tl.constexpr):
    """What the sum of `pull_term` is multiplied with, for the gradient of a point."""
    if SCORE == NORMALIZED_DOT:
        return unit
    else:
        return -2 * unit


@triton.jit
def gamma_factor(gamma, unit, SCORE: tl.constexpr):
    """Likewise for the gradient of gamma; gamma is in the units of coordinates."""
    if SCORE == CAUCHY:
        return -2 * gamma * unit
    elif SCORE == NEGATIVE_EUCLIDEAN:
        return 2 / gamma
    elif SCORE == INVERSE_EUCLIDEAN:
        return gamma * 0 - 1
    else:
        return -1 / gamma


@triton.jit
def pull_term(e, q, x, SCORE: tl.constexpr):
    """A pair's part of the gradient of q."""
    if SCORE == NORMALIZED_DOT:
        return e * x
    else:
        return e * (q - x)


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
def rounded(weight, values):
    """The weights that `weigh` multiplies with, in float32."""
    if values.dtype == tl.float32:
        return weight
    elif values.dtype == tl.float16:
        # The nearest number of tf32: the product would cut the last 13 bits off.
        return ((weight.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    else:
        return weight.to(values.dtype).to(tl.float32)


@triton.jit
def corrected(total, used):
    """What a sum by `weigh` is multiplied with, from the sum of weights and that of the weights it used.

    A row of equal weights is off by their common rounding, and with it what must cancel in the backward pass."""
    return tl.where(total > 0.0, total / tl.where(total > 0.0, used, 1.0), 1.0)


@triton.jit
def weigh(weight, values):
    """weight @ values in float32. Half-precision floats keep their weights' exponents in tf32: a row whose
    weights are all small would lose them in float16."""
    if values.dtype == tl.float32:
        return tl.dot(weight, values, input_precision="ieee")
    elif values.dtype == tl.float16:
        return tl.dot(rounded(weight, values), values.to(tl.float32), input_precision="tf32")
    else:
        return tl.dot(weight.to(values.dtype), values)


@triton.jit
def weigh_apart(weight, ok, values):
    """`weigh` for blocks that hold tokens which come after a query: 0 times their NaN must not reach it."""
    finite = values * 0 == 0
    summed = weigh(weight, tl.where(finite, values, 0.0))
    strange = tl.dot(ok.to(tl.float16), (finite == 0).to(tl.float16))
    return tl.where(strange > 0, float("nan"), summed)


@triton.jit
def product(a, b):
    """a @ b of values of one dtype, in float32."""
    if a.dtype == tl.float32:
        return tl.dot(a, b, input_precision="ieee")
    else:
        return tl.dot(a, b)

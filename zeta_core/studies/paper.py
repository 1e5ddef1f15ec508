"""Figures that the paper prints, beside which ours are shown. Source: ZETA, arXiv 2501.14577."""

BENCH_DEVICE = "A100, shape not given"
BENCH_LENGTHS = (4096, 8192, 16_384, 32_768, 65_536)
BENCH_FORWARD_MS = {
    "Flash": (3.4, 12.8, 50.4, 198.2, 805.3),
    "ZETA": (5.6, 11.0, 21.7, 43.0, 85.8),
    "naive torch": (44.3,),  # out of memory beyond 4,096
}
BENCH_FORWARD_BACKWARD_MS = {"Flash": 7044.1, "ZETA": 608.2}
"""At 65,536 tokens."""
BENCH_FORWARD_MB = {"Flash": 10_516.1, "ZETA": 17_348.2}
"""At 65,536 tokens."""

LOCALITY_NEIGHBOURS: int = 64
LOCALITY_OVERLAP: dict[int, dict[int, tuple[float, float]]] = {
    **{d_k: {512: (0.80, 0.90), 2048: (0.55, 0.65)} for d_k in (1, 2, 3)},
    32: {512: (0.40, 0.40), 2048: (0.15, 0.15)},
    128: {512: (0.15, 0.15), 2048: (0.05, 0.05)},
}
"""By d_K and number of points, from and to: the share of the 64 nearest neighbours found among 64 on the curve. Read
off a figure by eye; the distribution of the points is not given."""
LOCALITY_RECALL: float = 0.60
"""In words: more than this share of the true top-k is found on average."""

ABLATIONS = {
    "dk": "flat from 3 up, worse below (on MQAR measured on a Transformer with full attention)",
    "k": "16 to 48 is flat, 32 best (MQAR, with ZETA)",
    "softmax": "Cauchy above negative and inverse Euclidean; Euclidean scores above the dot product for d_K <= 4 "
    "(on a Transformer)",
    "gamma": "trained is better than fixed at 1",
    "chunks": "4 to 32 by length; no table",
    "curves": "1, 3 and 6 curves share k",
    "projection": "two layers, no comparison",
}
"""What the paper says of each axis, in words: it gives no table of these."""
MQAR_ACCURACY = 1.0
"""Of ZETA and of attention, at model width 256."""

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

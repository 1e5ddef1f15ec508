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
MQAR_WIDTH = 256
"""The model width at which ZETA and attention are both said to be at MQAR_ACCURACY."""

DK_HURTS = 1
DK_NEAR_PERFECT_FROM = 2
DK_FLAT_FROM = 3
"""In words, of MQAR: d_K = 1 hurts, from 2 on it is near perfect, from 3 on flat."""
DK_TASKS = ("mqar", "listops", "image")
"""On which d_K was varied; the figures are not known to us."""
EUCLIDEAN_UP_TO_DK: int = 4
"""Up to this d_K, Euclidean scores beat the dot product."""
K_FLAT = (16, 48)
K_BEST: int = 32
"""On MQAR, with ZETA: flat between these, best at this."""
GAMMA_FIXED: float = 1.0
"""What trained gamma is compared with: a static Student t."""
CURVES = (1, 3, 6)
"""Variants; each curve gives k / curves keys."""
HEADS_MISS = (0.4, 8)
"""In words: if a head misses a neighbour with the first probability, so many heads all miss it with its power."""

LRA_TASKS = ("listops", "text", "retrieval", "image", "pathfinder")
LRA_ACCURACY: dict[str, tuple[float, ...]] = {
    "ZETA": (42.52, 64.52, 77.92, 64.39, 68.20),
    "Transformer": (36.37, 64.27, 57.46, 42.44, 71.40),
    "H-Transformer-1D": (49.53, 78.69, 63.99, 46.05, 68.78),
    "Hedgehog": (37.15, 64.60, 82.24, 40.15, 74.16),
}
"""Test accuracy in %, in the order of LRA_TASKS. Table of the Long Range Arena."""
LRA_AVERAGE = {"ZETA": 63.51, "Transformer": 54.39, "H-Transformer-1D": 61.41, "Hedgehog": 59.66}
"""As the paper prints it, in %."""
WIKITEXT_PERPLEXITY = {
    "Transformer": 26.2, "Performer": 26.8, "Reformer": 25.6, "CosFormer": 23.1, "ZETA": 26.3,
}  # fmt: skip
"""On the test part of WikiText-103: 124M parameters, width 768, 12 heads. What a 239M ZETA has is not known to us."""
WIKITEXT_WIDTH: int = 768
"""Of the models with those perplexities."""
ZERO_SHOT_SETS = (
    "WSC", "ARC-Easy", "ARC-Challenge", "HellaSwag", "PIQA", "OpenBookQA", "BoolQ", "MMLU",
)  # fmt: skip
ZERO_SHOT_MODELS = ("Pythia-125m", "LLaMA-125m")
"""After pre-training on COSMO, ZETA-122M is comparable with these; the values are not known to us."""
BASELINES = (
    "Transformer", "Performer", "Based", "Reformer", "CosFormer", "Flash Attention", "Mamba", "IceFormer", "Hedgehog",
    "H-Transformer-1D",
)  # fmt: skip


def lra_accuracy(task: str) -> dict[str, float]:
    """Each system's accuracy on a task, in %; of the suite's own files too. None if the table has no such task."""
    task = task.removesuffix("_lra")
    if task not in LRA_TASKS:
        return {}
    return {name: scores[LRA_TASKS.index(task)] for name, scores in LRA_ACCURACY.items()}


def lra_words(task: str) -> str | None:
    """The same as a line; None if the table has no such task."""
    scores = ", ".join(f"{name} {score:.2f}" for name, score in lra_accuracy(task).items())
    return f"the paper at full size, accuracy in %: {scores}" if scores else None

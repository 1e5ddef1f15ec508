"""How fast a model trains: tokens a second, and how much of the device's arithmetic its products are."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from accelerate import Accelerator

from zeta_core.attention import Mixer
from zeta_core.model import Network
from zeta_core.tasks import Batch

PEAK_FLOPS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "RTX 4090": 165e12}
"""Dense products a second in half precision, by a part of the device's name; the vendor's datasheets."""


class Speed:
    """Counts tokens and the floating-point operations of training on them between `start` and `rates`.

    A product of parameters counts 2 operations forward and 4 backward; embeddings count where they are the head,
    and an adaptive softmax as if every token went through all of it.
    What a mixer does between tokens is as its `pair_flops` says. Source: PaLM, appendix B."""

    def __init__(self, network: Network, accelerator: Accelerator) -> None:
        self.network, self.num_processes = network, accelerator.num_processes
        device = accelerator.device
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
        half = accelerator.mixed_precision in ("bf16", "fp16")
        self.peak = next((peak for part, peak in PEAK_FLOPS.items() if part in name), None) if half else None
        self.products = network.num_parameters()
        self.start()

    def start(self) -> None:
        """Count from now on."""
        self.tokens, self.flops, self.since = 0, 0.0, time.perf_counter()

    def add(self, batches: Sequence[Batch]) -> None:
        """One step's batches, of this process; the others' are as large."""
        for batch in batches:
            documents = 1 if batch.second is None else 2
            tokens = batch.tokens.numel() * documents
            self.tokens += tokens
            self.flops += training_flops(self.network, batch.tokens.shape[1], tokens, batch.num_labels, self.products)

    def rates(self) -> dict[str, float]:
        """tokens_per_second over all processes, and `mfu`, the share of the devices' peak, where that is known.

        The device must have been waited for; 0 if nothing was counted."""
        seconds = max(time.perf_counter() - self.since, 1e-9)
        found = {"tokens_per_second": self.tokens * self.num_processes / seconds}
        if self.peak is not None:
            found["mfu"] = self.flops / seconds / self.peak
        return found


def training_flops(network: Network, seq_len: int, tokens: int, labels: int, products: int) -> float:
    """Floating-point operations, forward and backward, of training on so many tokens in sequences of seq_len.

    products: parameters that each token is multiplied with. labels: tokens whose logits are computed."""
    between = sum(mixer.pair_flops(seq_len) for mixer in network.modules() if isinstance(mixer, Mixer))
    tied = network.classifier is None and network.adaptive is None
    head = network.embedding.weight.numel() * labels if tied else 0
    return 6.0 * (products * tokens + head) + 3.0 * between * tokens

"""H-Transformer-1D: exact attention nearby, means over longer and longer spans further away."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from zeta_core.ops.impl import Impl

from .blocks_local import ages, beside, real
from .heads import HeadMixer, masked_softmax
from .linear import in_chunks
from .mixer import MixerConfig


class HTransformer1DConfig(MixerConfig):
    """H-Transformer-1D: hierarchical attention, exact nearby and in coarser means further away.

    Tokens lie in blocks of block_size. A query sees its own block and the one before token by token. At level l = 1,
    2, ... keys and values are means over 2^l tokens, its block there has block_size of them, and it sees the block
    before, where no finer level did. A mean of n tokens has the weight n exp(q . k / sqrt(d)); one softmax is over
    all. Source: Zhu and Soricut 2021, section 4 and equation 30 to 33 in their structure.
    Departs: the paper makes queries coarser as well, and a mean over queries of a span lets a token's output depend
    on later tokens of it; here every query keeps its own, at the cost of a factor log(seq_len) in time."""

    kind: Literal["h_transformer_1d"] = "h_transformer_1d"
    block_size: int = Field(default=16, ge=2, multiple_of=2)

    def build(self, d_model: int, num_heads: int, *, causal: bool = True, impl: Impl = "auto") -> HTransformer1D:
        """The mixer; `impl` means nothing to it. Raises: OptionError if num_heads does not divide d_model."""
        return HTransformer1D(d_model, num_heads, self, causal=causal)


class HTransformer1D(HeadMixer):
    """Multi-head hierarchical attention; options as in HTransformer1DConfig."""

    def __init__(self, d_model: int, num_heads: int, config: HTransformer1DConfig, *, causal: bool = True) -> None:
        super().__init__(d_model, num_heads, causal=causal)
        self.block_size = config.block_size

    def mix(self, q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """Like v; zeros where no key is seen."""
        seq_len, size, after = q.shape[2], self.block_size, 0 if self.causal else 1
        blocks, levels = -(-seq_len // size), 0
        while blocks > 1 << (levels + 1):
            levels += 1
        see = real(key_padding_mask, seq_len, size, 1, after, q.device)
        age = ages(size, 1, after, q.device)
        see = see & (age >= 0) if self.causal else see.expand(*see.shape[:3], size, -1)
        total = -(-blocks // (1 << levels)) * size << levels
        keep = torch.ones(1, seq_len, device=q.device) if key_padding_mask is None else ~key_padding_mask
        there = padded(keep[:, None, :, None].to(q.dtype), total)
        q, k, v = (padded(x, total) for x in (q * q.shape[-1] ** -0.5, k, v))
        q_blocks, k_blocks, v_blocks = (in_chunks(x, size) for x in (q, k, v))
        extra = total // size - see.shape[2]
        see = torch.cat((see, see.new_zeros(*see.shape[:2], extra, *see.shape[3:])), 2).expand(
            *q.shape[:2], -1, -1, -1
        )
        logits = [(q_blocks @ beside(k_blocks, 1, after).mT).flatten(2, 3)]
        masks, values = [see.flatten(2, 3)], [beside(v_blocks, 1, after)]
        k_sum, v_sum, count = k * there, v * there, there
        for level in range(1, levels + 1):
            k_sum, v_sum, count = (torch.unflatten(x, 2, (-1, 2)).sum(3) for x in (k_sum, v_sum, count))
            k_mean, v_mean = k_sum / count.clamp(min=1), v_sum / count.clamp(min=1)
            k_around, v_around, n_around = (
                beside(in_chunks(x, size), 1, after) for x in (k_mean, v_mean, count.expand(*k_mean.shape[:3], 1))
            )
            n = n_around.mT  # [batch, heads, blocks, 1, span]
            own = in_chunks(q, size << level) @ k_around.mT + n.clamp(min=1).log()
            logits.append(own.flatten(2, 3))
            masks.append(((n > 0) & unseen(size, level, self.causal, q.device)).flatten(2, 3))
            values.append(v_around)
        weights = masked_softmax(torch.cat(logits, -1), torch.cat(masks, -1))
        mixed = torch.zeros_like(v)
        for part, value in zip(torch.split(weights, [x.shape[-1] for x in logits], -1), values, strict=True):
            mixed = mixed + (torch.unflatten(part, 2, (value.shape[2], -1)) @ value).flatten(2, 3)
        return mixed[:, :, :seq_len]


def padded(x: Tensor, length: int) -> Tensor:
    """[batch, heads, seq_len, dim] with zeros up to `length`."""
    return torch.nn.functional.pad(x, (0, 0, 0, length - x.shape[2]))


def unseen(size: int, level: int, causal: bool, device: torch.device) -> Tensor:
    """Which means around a block of a level no finer level has shown: [tokens of the block, span] bool.

    A finer level showed its own block and its neighbours: of the block before, the second half if the query is in the
    first half of its own; of the block after, the first half if it is in the second."""
    late = torch.arange(size << level, device=device)[:, None] >= (size << level) // 2
    second = torch.arange(size, device=device) >= size // 2
    before = late | ~second
    nothing = torch.zeros_like(before)
    return torch.cat((before, nothing) if causal else (before, nothing, ~late | second), -1)

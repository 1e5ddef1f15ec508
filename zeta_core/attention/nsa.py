"""Native sparse attention: compressed blocks, selected blocks and a window, mixed by gates."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from zeta_core.ops.impl import Impl

from .blocks_local import windowed
from .heads import exact_linear, masked_softmax, wide
from .linear import in_chunks
from .mixer import Mixer, MixerConfig, merge_heads
from .selected import attend_selected


class NsaConfig(MixerConfig):
    """Native sparse attention: compressed blocks, selected blocks, a sliding window, and gates. Causal alone.

    o_i = sum over branches c of g_i^c softmax attention to (K^c, V^c), with g = sigmoid of a linear map of the
    token. Compression: each whole past block of keys and of values becomes one, W2 of the mean over the block of
    gelu(W1 (k_j + p_(j mod block))). Selection: the num_selected blocks with the largest weights in the first branch,
    the query's own block, the one before and the first among them. Each branch has keys and values of its own.
    Source: Yuan et al. 2025 (Native sparse attention), section 3, equations 5 to 12.
    Departs: compression blocks do not overlap and are those of the selection; compression maps tokens before it takes
    their mean, which needs fewer weights than an MLP over whole blocks; every head selects for itself, as heads share
    no keys here."""

    kind: Literal["nsa"] = "nsa"
    bidirectional: ClassVar[bool] = False
    block_size: PositiveInt = 8
    num_selected: PositiveInt = 4
    """Blocks, the query's own among them."""
    window: PositiveInt = 16
    """Tokens of the window, the query's own among them."""

    def build(self, d_model: int, num_heads: int, *, causal: bool = True, impl: Impl = "auto") -> Nsa:
        """The mixer; `impl` means nothing to it.

        Raises: OptionError if num_heads does not divide d_model, or causal is False."""
        self.check(causal=causal)
        return Nsa(d_model, num_heads, self)


class Nsa(Mixer):
    """Multi-head native sparse attention; options as in NsaConfig."""

    def __init__(self, d_model: int, num_heads: int, config: NsaConfig) -> None:
        super().__init__(d_model, num_heads, causal=True)
        self.config, dim = config, d_model // num_heads
        self.qkv = nn.Linear(d_model, 7 * d_model)
        self.gates = nn.Linear(d_model, 3 * num_heads)
        self.k_places, self.v_places = (nn.Parameter(torch.randn(config.block_size, dim) * 0.02) for _ in range(2))
        self.k_first, self.v_first, self.k_second, self.v_second = (nn.Linear(dim, dim) for _ in range(4))
        self.out = nn.Linear(d_model, d_model)

    def forward(self, hidden: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """hidden: [batch, seq_len, d_model]; a row that sees no key gives the bias of the output."""
        # In fp32 under autocast too: rounded queries and keys would choose other blocks.
        with torch.autocast(hidden.device.type, enabled=False):
            parts = [self.split_heads(x) for x in exact_linear(self.qkv, hidden).chunk(7, dim=-1)]
            gates = torch.unflatten(exact_linear(self.gates, hidden).sigmoid(), -1, (3, -1)).permute(2, 0, 3, 1)[
                ..., None
            ]
            q = parts[0]
            coarse, index = self.compressed(q, parts[1], parts[2], key_padding_mask)
            chosen = attend_selected(q, parts[3], parts[4], index)
            near = windowed(
                q, parts[5], parts[6], window=self.config.window, causal=True, key_padding_mask=key_padding_mask
            )
            mixed = gates[0] * coarse + gates[1] * chosen + gates[2] * near
        return self.out(merge_heads(mixed).to(hidden.dtype))  # type: ignore[no-any-return]

    def compressed(self, q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Attention to blocks, like v, and the tokens of the blocks that weigh most, as attend_selected has it."""
        size, seq_len = self.config.block_size, q.shape[2]
        keep = torch.ones(1, seq_len, device=q.device) if key_padding_mask is None else ~key_padding_mask
        there = in_chunks(keep[:, None, :, None].to(q.dtype), size)  # [batch or 1, 1, blocks, size, 1]
        k = block_means(in_chunks(k, size), there, self.k_places, self.k_first, self.k_second)
        v = block_means(in_chunks(v, size), there, self.v_places, self.v_first, self.v_second)
        place = torch.arange(seq_len, device=q.device)[:, None]
        block = torch.arange(k.shape[2], device=q.device)
        see = ((block + 1) * size - 1 <= place) & (there.sum(3).mT > 0)
        weights = masked_softmax(q @ k.mT * q.shape[-1] ** -0.5, see)
        return weights @ v, self.tokens_of(weights.detach(), see, place, key_padding_mask)

    @torch.no_grad()
    def tokens_of(self, weights: Tensor, see: Tensor, place: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """The tokens of the blocks with the largest weights: [batch, heads, seq_len, slots] int64, -1 for none."""
        size, block = self.config.block_size, torch.arange(weights.shape[-1], device=weights.device)
        own = place // size
        score = weights.masked_fill(~see, -1) + 2.0 * (block == 0) + 4.0 * (block == own - 1) + 8.0 * (block == own)
        best = score.masked_fill(block > own, -torch.inf).topk(min(self.config.num_selected, len(block))).indices
        index = (best[..., None] * size + torch.arange(size, device=weights.device)).flatten(-2)
        allowed = index <= place
        if key_padding_mask is not None:
            ignored = key_padding_mask[:, None, None].expand(*index.shape[:3], -1)
            allowed = allowed & ~ignored.take_along_dim(index.clamp(max=place.shape[0] - 1), -1)
        return index.where(allowed, -1)


def block_means(x: Tensor, there: Tensor, places: Tensor, first: nn.Linear, second: nn.Linear) -> Tensor:
    """One vector a block: [batch, heads, blocks, size, d] to [batch, heads, blocks, d]."""
    inner = torch.nn.functional.gelu(exact_linear(first, x + wide(places))) * there
    return exact_linear(second, inner.sum(3) / there.sum(3).clamp(min=1))

"""Each head of a trained model: how many of the keys that it should find its windows hold.

Under the paper's chunk rule a query sees the keys of earlier chunks (all, if the model is not causal), and its window
holds top_k of them. Only a query that sees more than top_k keys has a choice, and can miss one.

The paper says that heads make up for each other: if each misses a neighbour with probability p, all h miss it with
probability p^h. That takes a key that all heads look for, and heads have no space in common. Here it is, as
`nearest`, each of the top_k keys nearest to the query in all heads' coordinates side by side, that is by the sum of
the heads' squared distances; and as `answer`, where the task says what a query must find, the position of that. p is
the share of (query, key) pairs that a head misses, mean over the heads; what is measured is the share that all heads
miss. Where a query has no choice every key is found: such queries are left out of both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from zeta_core.attention.zeta import ZetaAttention
from zeta_core.model import Network
from zeta_core.ops import zeta_plan
from zeta_core.ops.attend import nearest_keys
from zeta_core.tasks import Batch, Part
from zeta_core.tasks.task import IGNORED

from .overlap import among

BATCH_TOKENS = 16_384


@dataclass
class Means:
    """Means over queries or pairs, by name, for each head."""

    sums: dict[str, Tensor] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, values: Tensor, keep: Tensor) -> None:
        """values: [batch, heads, ...]; keep: [batch, ...] bool, which of them count."""
        kept = values.double().masked_fill(~keep[:, None], 0).transpose(0, 1).flatten(1).sum(-1).cpu()
        self.sums[name] = self.sums.get(name, torch.zeros_like(kept)) + kept
        self.counts[name] = self.counts.get(name, 0) + int(keep.sum())

    def of_head(self, name: str, head: int) -> float | None:
        """The mean of a head; None if nothing counted."""
        count = self.counts.get(name, 0)
        return float(self.sums[name][head]) / count if count else None


@torch.no_grad()
def measure_part(network: Network, part: Part, num_examples: int, num_neighbours: int) -> list[Means]:
    """The means of each layer over the first examples of a part, of a pair of documents over the first of both.

    The network is in eval mode on its device."""
    found = [Means() for _ in network.blocks]
    device = network.embedding.weight.device
    size = max(1, BATCH_TOKENS // part.seq_len)
    number = min(num_examples, len(part))
    for start in range(0, number, size):
        indices = np.arange(start, min(start + size, number))
        batch = part.batch(indices).to(device)
        asked = lookups_of(part, indices, batch)
        for means, (mixer, hidden, mask) in zip(found, layers(network, batch), strict=True):
            measure(means, mixer, hidden, mask, asked, num_neighbours)
    return found


def layers(network: Network, batch: Batch) -> Iterator[tuple[ZetaAttention, Tensor, Tensor | None]]:
    """Each layer's mixer with its input and the padding mask."""
    hidden, mask = network.embed(batch.tokens, batch.key_padding_mask)
    for block in network.blocks:
        assert isinstance(block.mixer, ZetaAttention)
        yield block.mixer, block.mixer_input(hidden, mask), mask  # type: ignore[operator]
        hidden = block(hidden, mask)


def lookups_of(part: Part, indices: np.ndarray, batch: Batch) -> tuple[Tensor, Tensor] | None:
    """What each example's queries must find: positions of queries and answers, [batch, lookups] int64.

    None if the task has no lookups, or not as many in each example, where they could not be told apart."""
    found = part.lookups()
    if found is None or batch.labels.dim() != 2 or len(found[0]) % len(part):
        return None
    query, answer = (side.view(len(part), -1)[torch.from_numpy(indices)].to(batch.labels.device) for side in found)
    return None if (batch.labels.gather(1, query) == IGNORED).any() else (query, answer)


def measure(
    means: Means,
    mixer: ZetaAttention,
    hidden: Tensor,
    mask: Tensor | None,
    asked: tuple[Tensor, Tensor] | None,
    num_neighbours: int,
) -> None:
    """Add one layer's figures of one batch to its means.

    hidden: [batch, seq_len, d_model], the mixer's input; asked: see lookups_of."""
    c, seq_len = mixer.config, hidden.shape[1]
    q, k, code_q, code_k = mixer.coordinates(hidden)
    code_q, code_k = q if code_q is None else code_q, k if code_k is None else code_k
    chunk_size = c.chunk_length(seq_len)

    def nearest(q: Tensor, k: Tensor, top_k: int, *, causal: bool) -> Tensor:
        return nearest_keys(
            q, k, top_k=top_k, visibility="chunk", chunk_size=chunk_size, causal=causal, key_padding_mask=mask
        )

    def window(top_k: int, *, causal: bool, refine: int) -> Tensor:
        plan = zeta_plan(
            code_q,
            code_k,
            chunk_size=chunk_size,
            top_k=top_k,
            curves=c.curves,
            causal=causal,
            refine=refine,
            key_padding_mask=mask,
            impl="reference",
        )
        return plan.indices()

    real = torch.ones(hidden.shape[:2], dtype=torch.bool, device=hidden.device) if mask is None else ~mask
    sees = num_visible(real, chunk_size if mixer.causal else None)
    seeing, choosing = real & (sees > 0), real & (sees > c.top_k)

    everywhere = among(nearest(q, k, num_neighbours, causal=False), window(num_neighbours, causal=False, refine=1))
    there = real.sum(-1).clamp(max=num_neighbours)[:, None, None]
    means.add("overlap", everywhere.sum(-1) / there, real)

    ids = window(c.top_k, causal=mixer.causal, refine=c.refine)
    found = among(nearest(q, k, c.top_k, causal=mixer.causal), ids).sum(-1)
    share = found / sees.clamp(1, c.top_k)[:, None]
    means.add("recall", share, seeing)
    means.add("recall_choosing", share, choosing)
    chance = (c.top_k / sees.clamp(min=1)).clamp(max=1)
    means.add("recall_chance", chance[:, None].expand_as(share), choosing)

    joint_q, joint_k = (side.transpose(1, 2).flatten(2)[:, None] for side in (q, k))
    targets = nearest(joint_q, joint_k, c.top_k, causal=mixer.causal)
    lost = ~among(targets.expand(-1, mixer.num_heads, -1, -1), ids)
    pairs = choosing[..., None].expand(lost.shape[0], seq_len, c.top_k)
    means.add("nearest", lost, pairs)
    means.add("nearest_all", lost.all(1, keepdim=True), pairs)
    if asked is not None:
        query, answer = asked
        earlier = (answer // chunk_size < query // chunk_size) if mixer.causal else torch.ones_like(query).bool()
        rows = ids.gather(2, query[:, None, :, None].expand(-1, mixer.num_heads, -1, ids.shape[-1]))
        lost = (rows != answer[:, None, :, None]).all(-1)
        pairs = earlier & choosing.gather(1, query)
        means.add("answer", lost, pairs)
        means.add("answer_all", lost.all(1, keepdim=True), pairs)


def num_visible(real: Tensor, chunk_size: int | None) -> Tensor:
    """How many keys each query sees by the chunk rule (None: all): [batch, seq_len] int64.

    real: [batch, seq_len] bool, the tokens that are not padded."""
    upto = torch.nn.functional.pad(real.long().cumsum(1), (1, 0))
    if chunk_size is None:
        return upto[:, -1:].expand(real.shape)
    first = torch.arange(real.shape[1], device=real.device) // chunk_size * chunk_size
    return upto[:, first]

"""What ZETA keeps of the tokens so far."""

from __future__ import annotations

import torch
from torch import Tensor

from zeta_core.attention.mixer import merge_heads
from zeta_core.attention.zeta import ZetaAttention
from zeta_core.ops.attend.reference import Extra, mean, with_local
from zeta_core.ops.attend.scores import closeness, directions, strength

from .buffer import Buffer
from .zeta_selection import key_selection


class ZetaCache:
    """Keys and values of all tokens, their sums, and the selection; [rows = batch * heads, tokens, dim].

    A step gathers the keys that its query takes: its time does not grow with the length but for the pass over the
    sorted codes, once a chunk (and with `selection` exact or all, which compare with every key).
    mixer: with chunks of a fixed size. inputs: [batch, tokens, d_model], the mixer's inputs so far."""

    def __init__(self, mixer: ZetaAttention, inputs: Tensor) -> None:
        self.mixer, self.score = mixer, mixer.config.score
        batch = len(inputs)
        _, k, _, code_k = (rows(x) for x in mixer.coordinates(inputs))
        v = rows(mixer.split_heads(mixer.v(inputs)))
        assert k is not None and v is not None
        self.dtype = torch.promote_types(torch.promote_types(k.dtype, v.dtype), torch.float32)
        self.gamma = mixer.gamma().to(self.dtype).repeat(batch)[:, None, None]
        self.selection = key_selection(mixer.config, k, k if code_k is None else code_k)
        self.keys = Buffer(directions(k.to(self.dtype), self.score))
        self.values = Buffer(v.to(self.dtype))
        # Long sums of small numbers; Metal has no float64.
        self.wide = self.dtype if k.device.type == "mps" else torch.float64
        self.key_sum, self.value_sum = (x.to(self.wide).sum(1, keepdim=True) for x in (k, v))

    def step(self, inputs: Tensor) -> Tensor:
        """The mixer's output for the next token, from its input: [batch, 1, d_model] both."""
        mixer, c = self.mixer, self.mixer.config
        q, k, code_q, code_k = (rows(x) for x in mixer.coordinates(inputs))
        v = rows(mixer.split_heads(mixer.v(inputs)))
        assert q is not None and k is not None and v is not None
        ids = self.selection.step(q, k, q if code_q is None else code_q, k if code_k is None else code_k)
        self.keys.append(directions(k.to(self.dtype), self.score))
        self.values.append(v.to(self.dtype))
        query, length = directions(q.to(self.dtype), self.score), self.keys.length
        if c.local_window:
            ids = with_local(ids, length - 1, length, min(c.local_window, length), True, None)
        extra = None
        if c.history_mean:
            self.key_sum += k
            self.value_sum += v
            extra = self.history(query)
        if not ids.shape[-1]:  # a row without slots has no maximum
            ids = ids.new_full((*ids.shape[:-1], 1), -1)
        mixed = mean(query, self.keys.whole, self.values.whole, ids, self.gamma, self.score, extra)
        mixed = mixed.view(len(inputs), mixer.num_heads, 1, -1).to(v.dtype)
        return mixer.out(merge_heads(mixed))  # type: ignore[no-any-return]

    def history(self, query: Tensor) -> Extra:
        """The mean key and value of all tokens, as one candidate of query [rows, 1, d_K]."""
        share = 1 / self.keys.length
        mean_key = directions((self.key_sum * share).to(self.dtype), self.score)
        found = strength(closeness(query, mean_key, self.score), self.gamma[..., 0], self.score)
        everywhere = torch.ones_like(found, dtype=torch.bool)
        return Extra(found, everywhere, torch.full_like(found, share), self.value_sum.to(self.dtype), None)


def rows(x: Tensor | None) -> Tensor | None:
    """[batch, heads, tokens, dim] as [batch * heads, tokens, dim]."""
    return None if x is None else x.flatten(0, 1)

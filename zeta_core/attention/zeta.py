"""ZETA's module: projections to a few dimensions, coordinates in [0, 1], and the operator."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import torch
from pydantic import Field, NonNegativeInt, PositiveInt, model_serializer, model_validator
from pydantic_core.core_schema import SerializerFunctionWrapHandler
from torch import Tensor, nn

from zeta_core.errors import OptionError
from zeta_core.ops import zeta_attention, zeta_plan
from zeta_core.ops.attend import Score, Visibility, attend, dense_attend, nearest_keys
from zeta_core.ops.attend.entropy import attention_entropy
from zeta_core.ops.impl import Impl
from zeta_core.ops.windows import chunk_length
from zeta_core.ops.windows.api import divisibility
from zeta_core.ops.windows.reference import ReferencePlan
from zeta_core.ops.zorder import curve_orders

from .mixer import Mixer, MixerConfig, merge_heads
from .projection import Coordinates, Projection, ProjectionKind, place

SMALLEST_GAMMA, LARGEST_GAMMA = 1e-4, 1e4
"""Of a fixed gamma; a trained one is clamped at the smallest. Below, gamma is under half of one of the 4,096 cells an
axis by which keys are found. Above, d^2 / gamma^2 of coordinates in [0, 1]^3 is under float32's resolution: all keys
weigh the same, whatever gamma is."""
GAMMA_START = -3.0
"""gamma starts at sigmoid(-3) = 0.047: from 0.5 it learns far slower."""


class ZetaOptions(MixerConfig):
    """What ZETA and exact top-k attention have in common."""

    d_k: int = Field(default=3, ge=1, le=128)
    top_k: PositiveInt = 32
    num_chunks: PositiveInt | None = 8
    chunk_size: PositiveInt | None = None
    score: Score = "cauchy"
    gamma: Literal["trained"] | Annotated[float, Field(ge=SMALLEST_GAMMA, le=LARGEST_GAMMA)] = "trained"
    gamma_per: Literal["layer", "head"] = "layer"
    history_mean: bool = True
    local_window: NonNegativeInt = 0
    projection: ProjectionKind = "two_layer"
    projection_width: PositiveInt | None = None
    coordinates: Coordinates = "sigmoid"
    visibility: Visibility = "chunk"

    @model_validator(mode="before")
    @classmethod
    def _chunk_size_alone(cls, given: object) -> object:
        if isinstance(given, dict) and given.get("chunk_size") is not None and "num_chunks" not in given:
            return {**given, "num_chunks": None}
        return given

    @model_validator(mode="after")
    def _options_shared_fit(self) -> Self:
        if (self.num_chunks is None) == (self.chunk_size is None):
            both = f"num_chunks={self.num_chunks} and chunk_size={self.chunk_size} are both set"
            raise OptionError(f"{both if self.num_chunks else 'neither num_chunks nor chunk_size is set'}; give one")
        if self.coordinates == "layernorm" and self.d_k < 3:
            raise OptionError(f"coordinates='layernorm' needs d_k of at least 3, not d_k={self.d_k}; use 'sigmoid'")
        return self

    @model_serializer(mode="wrap")
    def _without_the_unset(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        unset = "num_chunks" if self.num_chunks is None else "chunk_size"
        values = {name: value for name, value in handler(self).items() if name != unset}
        return {"kind": values["kind"], **values} if "kind" in values else values

    def chunk_length(self, seq_len: int) -> int:
        """M, the tokens a chunk, at this length."""
        return chunk_length(seq_len, num_chunks=self.num_chunks or 1, chunk_size=self.chunk_size)

    def sees(self, query: Tensor, key: Tensor, seq_len: int) -> Tensor:
        """Whether causal attention lets the token at `query` see the one at `key` (positions, int64): bool."""
        if self.visibility == "token":
            return key <= query
        size = self.chunk_length(seq_len)
        return (key // size < query // size) | ((key <= query) & (query - key < self.local_window))


class ZetaConfig(ZetaOptions):
    """ZETA attention: the top_k keys nearest on Z-order curves, weighted by the Adaptive Cauchy-Softmax."""

    kind: Literal["zeta"] = "zeta"
    curves: Literal[1, 3, 6] = 1
    refine: PositiveInt = 1
    selection: Literal["zorder", "exact", "all"] = "zorder"

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        if self.top_k % self.curves:
            raise OptionError(divisibility(self.top_k, self.curves))
        curve_orders(self.curves, self.d_k)
        if self.selection == "zorder" and self.visibility == "token":
            raise OptionError("visibility='token' needs selection='exact' or 'all': windows on a curve are by chunk")
        if self.selection != "zorder" and (self.curves > 1 or self.refine > 1):
            raise OptionError(
                f"selection={self.selection!r} uses no curve; curves={self.curves} and refine={self.refine} must be 1"
            )
        return self

    def build(self, d_model: int, num_heads: int, *, causal: bool = True, impl: Impl = "auto") -> ZetaAttention:
        """The mixer. Raises: OptionError if num_heads does not divide d_model."""
        return ZetaAttention(d_model, num_heads, self, causal=causal, impl=impl)


class ZetaAttention(Mixer):
    """ZETA attention as a module for any model.

    d_model: width of the hidden states; num_heads must divide it, and d_V is d_model / num_heads.
    config: every switch, see ZetaConfig. causal: False lets every token see every key. impl: as in
    zeta_attention. Raises: OptionError. Source: ZETA; what it leaves open is a field of ZetaConfig."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        config: ZetaConfig | None = None,
        *,
        causal: bool = True,
        impl: Impl = "auto",
    ) -> None:
        super().__init__(d_model, num_heads, causal=causal)
        self.config = config = config or ZetaConfig()
        self.impl = impl
        width = config.projection_width or d_model
        self.q = Projection(d_model, width, num_heads * config.d_k, config.projection)
        self.k = Projection(d_model, width, num_heads * config.d_k, config.projection)
        self.v = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)
        self.gamma_logit: nn.Parameter | None = None
        if config.gamma == "trained":
            self.gamma_logit = nn.Parameter(
                torch.full((num_heads if config.gamma_per == "head" else 1,), GAMMA_START)
            )

    def gamma(self) -> Tensor:
        """gamma of each head, [heads] float32.

        Trained: the sigmoid of a logit, clamped to at least 1e-4, where its gradient is 0. Fixed: as configured,
        1e-4..1e4."""
        if self.gamma_logit is not None:
            return self.gamma_logit.float().sigmoid().clamp(min=SMALLEST_GAMMA).expand(self.num_heads)
        assert self.config.gamma != "trained"
        return torch.full((self.num_heads,), self.config.gamma, device=self.out.weight.device)

    def coordinates(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """q, k [batch, heads, seq_len, d_K], and the coordinates for their codes where those are others."""
        q, code_q = place(self.split_heads(self.q(hidden)), self.config.coordinates)
        k, code_k = place(self.split_heads(self.k(hidden)), self.config.coordinates)
        return q, k, code_q, code_k

    def forward(self, hidden: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """hidden: [batch, seq_len, d_model]; key_padding_mask: [batch, seq_len] bool, True = ignore the key."""
        q, k, code_q, code_k = self.coordinates(hidden)
        v = self.split_heads(self.v(hidden))
        c = self.config
        if c.selection == "zorder":
            mixed = zeta_attention(
                q,
                k,
                v,
                gamma=self.gamma(),
                num_chunks=c.num_chunks or 1,
                chunk_size=c.chunk_size,
                top_k=c.top_k,
                score=c.score,
                curves=c.curves,
                causal=self.causal,
                history_mean=c.history_mean,
                local_window=c.local_window,
                refine=c.refine,
                key_padding_mask=key_padding_mask,
                code_q=code_q,
                code_k=code_k,
                impl=self.impl,
            )
        else:
            with torch.autocast(hidden.device.type, enabled=False):
                mixed = self.compared_with_all(q, k, v, key_padding_mask)
        return self.out(merge_heads(mixed))  # type: ignore[no-any-return]

    def compared_with_all(self, q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """The operator without curves: the truly nearest keys, or all that are visible."""
        c = self.config
        if c.selection == "all":
            return dense_attend(
                q,
                k,
                v,
                gamma=self.gamma(),
                score=c.score,
                visibility=c.visibility,
                chunk_size=c.chunk_length(q.shape[2]),
                causal=self.causal,
                history_mean=c.history_mean,
                local_window=c.local_window,
                key_padding_mask=key_padding_mask,
            )
        return attend(
            q,
            k,
            v,
            ReferencePlan(self.nearest(q, k, c.top_k, key_padding_mask)),
            gamma=self.gamma(),
            score=c.score,
            history_mean=c.history_mean,
            local_window=c.local_window,
            causal=self.causal,
            key_padding_mask=key_padding_mask,
            impl="reference",
        )

    def nearest(self, q: Tensor, k: Tensor, top_k: int, key_padding_mask: Tensor | None) -> Tensor:
        """The truly nearest visible keys: [batch, heads, seq_len, top_k] int64, -1 for an empty slot."""
        return nearest_keys(
            q,
            k,
            top_k=top_k,
            visibility=self.config.visibility,
            chunk_size=self.config.chunk_length(q.shape[2]),
            causal=self.causal,
            key_padding_mask=key_padding_mask,
        )

    def selected(self, hidden: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """The keys each query attends to beside the mean and the local window: [batch, heads, seq_len, slots].

        int64 positions, -1 for an empty slot."""
        q, k, code_q, code_k = self.coordinates(hidden)
        c = self.config
        if c.selection != "zorder":
            return self.nearest(q, k, c.top_k if c.selection == "exact" else q.shape[2], key_padding_mask)
        return zeta_plan(
            q if code_q is None else code_q,
            k if code_k is None else code_k,
            num_chunks=c.num_chunks or 1,
            chunk_size=c.chunk_size,
            top_k=c.top_k,
            curves=c.curves,
            causal=self.causal,
            refine=c.refine,
            key_padding_mask=key_padding_mask,
            impl=self.impl,
        ).indices()

    def pair_flops(self, seq_len: int) -> float:
        """A distance and a weighted value for each key that is attended to; all distances where all are compared."""
        c, all_keys = self.config, (seq_len + 1) / 2 if self.causal else seq_len
        attended = all_keys if c.selection == "all" else c.top_k + c.local_window + c.history_mean
        compared = attended if c.selection == "zorder" else all_keys
        return 2.0 * (self.num_heads * c.d_k * compared + self.d_model * attended)

    @torch.no_grad()
    def statistics(self, hidden: Tensor) -> dict[str, float]:
        """gamma, and the mean entropy of the attention weights in nats."""
        q, k, _, _ = self.coordinates(hidden)
        entropy = attention_entropy(
            q,
            k,
            self.selected(hidden),
            gamma=self.gamma(),
            score=self.config.score,
            history_mean=self.config.history_mean,
            local_window=self.config.local_window,
            causal=self.causal,
        )
        return {"gamma": float(self.gamma().mean()), "entropy": float(entropy.mean())}

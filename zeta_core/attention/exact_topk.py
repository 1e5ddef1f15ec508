"""Exact top-k attention: what ZETA's windows approximate."""

from __future__ import annotations

from typing import Literal

from zeta_core.ops.impl import Impl

from .zeta import ZetaAttention, ZetaConfig, ZetaOptions


class ExactTopkConfig(ZetaOptions):
    """ZETA with the truly nearest top_k keys: bounds its recall, not its accuracy. Quadratic in time."""

    kind: Literal["exact_topk"] = "exact_topk"

    def build(self, d_model: int, num_heads: int, *, causal: bool = True, impl: Impl = "auto") -> ZetaAttention:
        """The mixer, ZETA's module with selection='exact'. Raises: OptionError as ZETA's."""
        return ZetaAttention(d_model, num_heads, self.as_zeta(), causal=causal, impl=impl)

    def as_zeta(self) -> ZetaConfig:
        """The same as a ZETA configuration."""
        return ZetaConfig.model_validate({**self.model_dump(exclude={"kind"}), "selection": "exact"})

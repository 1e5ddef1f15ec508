"""ZETA attention (Z-order curves for top-k attention, ICLR 2025): the operator, its tasks and its studies."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .attention.zeta import ZetaAttention, ZetaConfig
    from .ops import zeta_attention, zeta_plan
    from .studies.saved_model import load

__all__ = ["ZetaAttention", "ZetaConfig", "load", "zeta_attention", "zeta_plan"]


def __getattr__(name: str) -> object:
    # Lazy, so that the operator alone never imports what only the modules need.
    if name in ("zeta_attention", "zeta_plan"):
        from . import ops

        return getattr(ops, name)
    if name in ("ZetaAttention", "ZetaConfig"):
        from .attention import zeta

        return getattr(zeta, name)
    if name == "load":
        from .studies.saved_model import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

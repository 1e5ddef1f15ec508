"""The operator: Morton codes, windows on the curve, weighted means. Needs torch alone (and Triton in kernels)."""

from .zeta_attention import zeta_attention, zeta_plan

__all__ = ["zeta_attention", "zeta_plan"]

"""From Morton codes to a plan: for every query, its window of keys on each curve."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from zeta_core.errors import OptionError, ShapeError

from ..impl import Impl, resolve_impl
from . import reference


class WindowPlan(Protocol):
    """Who sees whom."""

    def indices(self) -> Tensor:
        """[batch, heads, seq_len, top_k] int64 key positions, in curve order, then window order.

        -1 marks an empty slot or a key that an earlier curve has found already."""
        ...


def chunk_length(seq_len: int, *, num_chunks: int, chunk_size: int | None) -> int:
    """M, the tokens a chunk: chunk_size, or ceil(seq_len / num_chunks). chunk(i) = i // M."""
    return chunk_size if chunk_size is not None else max(1, -(-seq_len // num_chunks))


def plan_windows(
    q_codes: Tensor,
    k_codes: Tensor,
    *,
    top_k: int,
    chunk_size: int,
    causal: bool = True,
    refine: int = 1,
    q_cells: Tensor | None = None,
    k_cells: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    impl: Impl = "auto",
) -> WindowPlan:
    """For each query the keys closest along each Z-order curve, among those of earlier chunks.

    q_codes, k_codes: [curves, batch, heads, seq_len, words] int64 Morton codes.
    q_cells, k_cells: [batch, heads, seq_len, d_K] int64 grid cells; needed when refine > 1.
    key_padding_mask: [batch, seq_len] bool, True = ignore the key.
    With causal=False every key is visible and chunk_size is ignored.
    Raises: ShapeError, OptionError. Source: ZETA, section on parallel top-k search; `refine` is ours."""
    if q_codes.dim() != 5 or q_codes.shape != k_codes.shape:
        raise ShapeError(
            f"q_codes {list(q_codes.shape)} and k_codes {list(k_codes.shape)} must both be "
            "[curves, batch, heads, seq_len, words]"
        )
    curves = q_codes.shape[0]
    if top_k < 1 or top_k % curves:
        raise OptionError(divisibility(top_k, curves))
    if refine < 1 or chunk_size < 1:
        raise OptionError(f"refine={refine} and chunk_size={chunk_size} must be at least 1")
    if refine > 1 and (q_cells is None or k_cells is None):
        raise OptionError(f"refine={refine} needs q_cells and k_cells")
    if resolve_impl(impl, q_codes.device) == "triton" and q_codes.numel():
        from .kernel_plan import plan_words

        cells = None
        if refine > 1 and q_cells is not None and k_cells is not None:
            cells = torch.stack((q_cells, k_cells)).flatten(1, 2).to(torch.int16)
        return plan_words(
            q_codes,
            k_codes,
            key_padding_mask,
            cells,
            chunk=chunk_size if causal else None,
            top_k=top_k,
            refine=refine,
        )
    return reference.plan(
        q_codes,
        k_codes,
        top_k=top_k,
        chunk_size=chunk_size if causal else None,
        refine=refine,
        q_cells=q_cells,
        k_cells=k_cells,
        key_padding_mask=key_padding_mask,
    )


def divisibility(top_k: int, curves: int) -> str:
    """The message for a top_k that curves cannot share."""
    best = max(curves, round(top_k / curves) * curves)
    rule = f"is not divisible by curves={curves}" if top_k >= 1 else "must be at least 1"
    return f"top_k={top_k} {rule}; the nearest that is: {best}"

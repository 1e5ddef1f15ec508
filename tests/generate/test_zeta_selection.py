"""A new token's keys are those that the whole sequence's plan gives it: the same positions in the same slots."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from zeta_core.attention import ZetaConfig
from zeta_core.generate.zeta_selection import key_selection
from zeta_core.ops import zeta_plan
from zeta_core.ops.attend import nearest_keys

LENGTH = 40


def points(d_k: int, seed: int, levels: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    """q, k [1, 2, 40, d_K], some outside of [0, 1]; few levels make many codes and distances equal."""
    generator = torch.Generator().manual_seed(seed)
    both = torch.rand(2, 1, 2, LENGTH, d_k, generator=generator) * 1.2 - 0.1
    q, k = both if levels is None else (both * levels).round() / levels
    return q, k


def stepped(config: ZetaConfig, q: torch.Tensor, k: torch.Tensor, prompt: int) -> torch.Tensor:
    """The keys of the tokens from `prompt` on, found one token at a time: [2, tokens, slots]."""
    q, k = q[0], k[0]
    selection = key_selection(config, k[:, :prompt], k[:, :prompt])
    ends = [slice(i, i + 1) for i in range(prompt, LENGTH)]
    return torch.cat([selection.step(q[:, at], k[:, at], q[:, at], k[:, at]) for at in ends], 1)


@settings(max_examples=60, deadline=None)
@given(
    chunk=st.integers(1, 12),
    prompt=st.integers(1, LENGTH - 1),
    curves_and_d_k=st.sampled_from([(1, 1), (1, 3), (3, 3), (6, 3), (1, 6), (1, 12)]),
    refine=st.integers(1, 4),
    share=st.integers(1, 7),
    levels=st.sampled_from([None, 1, 3]),
    seed=st.integers(0, 1000),
)
def test_windows_are_the_plan_s(chunk, prompt, curves_and_d_k, refine, share, levels, seed):
    curves, d_k = curves_and_d_k
    options = {"top_k": share * curves, "curves": curves, "refine": refine}
    q, k = points(d_k, seed, levels)
    plan = zeta_plan(q, k, chunk_size=chunk, **options)
    found = stepped(ZetaConfig.model_validate({**options, "chunk_size": chunk, "d_k": d_k}), q, k, prompt)
    assert torch.equal(found, plan.indices()[0, :, prompt:])


@pytest.mark.parametrize("visibility", ["chunk", "token"])
@pytest.mark.parametrize("levels", [None, 2])
@pytest.mark.parametrize("prompt", [1, 7, 19])
def test_the_nearest_keys_are_the_nearest(visibility, levels, prompt):
    q, k = points(3, prompt, levels)
    expected = nearest_keys(q, k, top_k=5, visibility=visibility, chunk_size=7, causal=True)
    config = ZetaConfig(chunk_size=7, top_k=5, selection="exact", visibility=visibility)
    assert torch.equal(stepped(config, q, k, prompt), expected[0, :, prompt:])

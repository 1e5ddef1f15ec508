"""The mixers that the contract tests run over: every member of the union, and ZETA with each of its switches."""

import itertools
from typing import get_args

import pytest
import torch
from torch import Tensor

from zeta_core.attention import AttentionConfig, ExactTopkConfig, Mixer, SoftmaxConfig, ZetaConfig
from zeta_core.attention.based import BasedConfig
from zeta_core.attention.gla import GlaConfig
from zeta_core.attention.h_transformer_1d import HTransformer1DConfig
from zeta_core.attention.iceformer import IceformerConfig
from zeta_core.attention.mamba import MambaConfig
from zeta_core.attention.mixer import MixerConfig
from zeta_core.attention.nsa import NsaConfig
from zeta_core.attention.performer import PerformerConfig
from zeta_core.attention.projection import Coordinates, ProjectionKind
from zeta_core.attention.reformer import ReformerConfig
from zeta_core.attention.sliding_window import SlidingWindowConfig
from zeta_core.config import union_members
from zeta_core.ops.attend import SCORES, Visibility

D_MODEL, HEADS, SEQ_LEN = 16, 2, 40
MEMBERS = union_members(AttentionConfig)
SELECTIONS = get_args(ZetaConfig.model_fields["selection"].annotation)
FEW = {"top_k": 6, "num_chunks": 5}


def zeta(**options: object) -> ZetaConfig:
    """ZETA with few keys and chunks of 8 at SEQ_LEN, so that the selection leaves keys out."""
    return ZetaConfig.model_validate({**FEW, **options})


def _switches() -> dict[str, ZetaConfig]:
    found = {f"coordinates={name}": zeta(coordinates=name) for name in get_args(Coordinates)}
    for selection, visibility in itertools.product(SELECTIONS, get_args(Visibility)):
        if (selection, visibility) != ("zorder", "token"):
            found[f"{selection}-{visibility}"] = zeta(selection=selection, visibility=visibility)
    found |= {f"projection={name}": zeta(projection=name) for name in get_args(ProjectionKind)}
    found |= {f"score={name}": zeta(score=name) for name in SCORES}
    return found | {
        "curves=3": zeta(curves=3),
        "curves=6,refine=2": zeta(curves=6, refine=2),
        "local_window": zeta(local_window=3),
        "no history": zeta(history_mean=False),
        "no history, window": zeta(history_mean=False, local_window=3),
        "chunk_size": ZetaConfig(chunk_size=7, top_k=6),
        "fixed gamma": zeta(gamma=0.3),
        "gamma per head": zeta(gamma_per="head"),
        "d_k=1": zeta(d_k=1),
        "d_k=9": zeta(d_k=9),
        "width": zeta(projection_width=5),
        "all, window": zeta(selection="all", local_window=3),
    }


SWITCHES = _switches()
LEAKING = {name: config for name, config in SWITCHES.items() if "minmax" in name}
"""minmax coordinates are scaled over the whole sequence: they must fail the causality test."""
VARIANTS: dict[str, MixerConfig] = {
    **{config_type.__name__: config_type() for config_type in MEMBERS},
    "softmax, d_k": SoftmaxConfig(d_k=3),
    "exact_topk, few": ExactTopkConfig.model_validate(FEW),
    "sliding_window, narrow": SlidingWindowConfig(window=3),
    "performer, few features": PerformerConfig(num_features=11),
    "based, narrow": BasedConfig(feature_dim=3, window=5),
    "reformer, few": ReformerConfig(num_buckets=4, num_rounds=2, window=3),
    "iceformer, few": IceformerConfig(top_k=4, num_candidates=7, num_projections=2),
    "h_transformer_1d, small blocks": HTransformer1DConfig(block_size=2),
    "nsa, small blocks": NsaConfig(block_size=3, num_selected=3, window=4),
    "mamba, small": MambaConfig(state_size=3, expand=1, conv_width=2),
    "gla, fast decay": GlaConfig(gate_rank=2, temperature=0.1),
    **{name: config for name, config in SWITCHES.items() if name not in LEAKING},
}
BIDIRECTIONAL = {name: config for name, config in VARIANTS.items() if config.bidirectional}
FORMS = [pytest.param(config, True, id=f"{name}-causal") for name, config in VARIANTS.items()] + [
    pytest.param(config, False, id=f"{name}-bidirectional") for name, config in BIDIRECTIONAL.items()
]
"""Every variant in each form that it has."""


def build(
    config: MixerConfig, *, causal: bool = True, seed: int = 0, d_model: int = D_MODEL, num_heads: int = HEADS
) -> Mixer:
    """The mixer of a configuration with weights from a seed, large enough to spread the coordinates."""
    torch.manual_seed(seed)
    mixer: Mixer = config.build(d_model, num_heads, causal=causal)  # type: ignore[attr-defined]
    with torch.no_grad():
        for parameter in mixer.parameters():
            if parameter.dim() == 2:
                parameter.mul_(3)
    return mixer


def hidden_states(seq_len: int = SEQ_LEN, *, batch: int = 2, seed: int = 1, d_model: int = D_MODEL) -> Tensor:
    """Hidden states [batch, seq_len, d_model] from a seed."""
    return torch.randn(batch, seq_len, d_model, generator=torch.Generator().manual_seed(seed))


def leaks(mixer: Mixer, seq_len: int = SEQ_LEN, mask: Tensor | None = None) -> bool:
    """Whether some output changes, be it in one bit, when all hidden states after it change."""
    hidden = hidden_states(seq_len)
    before = mixer(hidden, mask)
    for first in sorted({1, seq_len // 3, seq_len // 2 + 1, seq_len - 1}):
        other = hidden.clone()
        other[:, first:] = -20 * hidden_states(seq_len, seed=first + 2)[:, first:]
        if not torch.equal(mixer(other, mask)[:, :first], before[:, :first]):
            return True
    return False

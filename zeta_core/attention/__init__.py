"""Mixers: how tokens exchange information. The union is the list of them all."""

from typing import Annotated

from pydantic import Field

from .based import BasedConfig
from .cosformer import CosformerConfig
from .exact_topk import ExactTopkConfig
from .gla import GlaConfig
from .h_transformer_1d import HTransformer1DConfig
from .hedgehog import HedgehogConfig
from .iceformer import IceformerConfig
from .mamba import MambaConfig
from .mixer import Mixer
from .nsa import NsaConfig
from .performer import PerformerConfig
from .reformer import ReformerConfig
from .sliding_window import SlidingWindowConfig
from .softmax import SoftmaxConfig
from .zeta import ZetaConfig

AttentionConfig = Annotated[
    ZetaConfig
    | SoftmaxConfig
    | ExactTopkConfig
    | SlidingWindowConfig
    | PerformerConfig
    | BasedConfig
    | ReformerConfig
    | CosformerConfig
    | MambaConfig
    | IceformerConfig
    | HedgehogConfig
    | HTransformer1DConfig
    | NsaConfig
    | GlaConfig,
    Field(discriminator="kind"),
]

__all__ = ["AttentionConfig", "ExactTopkConfig", "Mixer", "SoftmaxConfig", "ZetaConfig"]

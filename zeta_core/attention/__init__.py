"""Mixers: how tokens exchange information. The union is the list of them all."""

from typing import Annotated

from pydantic import Field

from .exact_topk import ExactTopkConfig
from .mixer import Mixer
from .softmax import SoftmaxConfig
from .zeta import ZetaConfig

AttentionConfig = Annotated[ZetaConfig | SoftmaxConfig | ExactTopkConfig, Field(discriminator="kind")]

__all__ = ["AttentionConfig", "ExactTopkConfig", "Mixer", "SoftmaxConfig", "ZetaConfig"]

"""What is timed; one file each."""

from typing import Annotated

from pydantic import Field

from .exact_topk import ExactTopkProvider
from .fla_linear import FlaLinearProvider
from .fla_nsa import FlaNsaProvider
from .flex_window import FlexWindowProvider
from .mamba import MambaProvider
from .mixer import MixerProvider
from .naive import NaiveProvider
from .provider import Problem, Provider
from .sdpa import SdpaProvider
from .zeta import ZetaProvider

AnyProvider = Annotated[
    ZetaProvider
    | SdpaProvider
    | NaiveProvider
    | FlexWindowProvider
    | ExactTopkProvider
    | MambaProvider
    | FlaNsaProvider
    | FlaLinearProvider
    | MixerProvider,
    Field(discriminator="kind"),
]

__all__ = ["AnyProvider", "MixerProvider", "Problem", "Provider"]

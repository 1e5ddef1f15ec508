"""Text token by token: a state that a decoder goes on from, and how its next token is drawn."""

from .loop import generate
from .sampling import Sampling
from .state import DecodingState, decoding_state

__all__ = ["DecodingState", "Sampling", "decoding_state", "generate"]

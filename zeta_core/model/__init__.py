"""The network around a mixer."""

from .network import ModelConfig, Network

__all__ = ["ModelConfig", "Network"]

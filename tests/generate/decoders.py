"""Small decoders, and their state checked against the whole sequence."""

import torch
from torch import Tensor

from zeta_core.attention.mixer import MixerConfig
from zeta_core.generate import decoding_state
from zeta_core.model import ModelConfig, Network

VOCAB = 19


def decoder(attention: MixerConfig, *, seed: int = 0, max_len: int = 64, **model: object) -> Network:
    """A decoder in float64, so that a rounding never moves a coordinate to another cell; spread coordinates."""
    torch.manual_seed(seed)
    config = ModelConfig.model_validate({"d_model": 16, "positions": "none", **model})
    network = config.build(attention, vocab_size=VOCAB, max_len=max_len).double().eval()
    with torch.no_grad():
        for parameter in network.blocks.parameters():
            if parameter.dim() == 2:
                parameter.mul_(3)
    return network


def words(length: int, *, batch: int = 2, seed: int = 1) -> Tensor:
    """Tokens [batch, length] from a seed."""
    return torch.randint(VOCAB, (batch, length), generator=torch.Generator().manual_seed(seed))


def whole(network: Network, tokens: Tensor) -> Tensor:
    """Logits after every token, [batch, length, vocab_size], by one forward."""
    with torch.no_grad():
        logits: Tensor = network(tokens)
    return logits.unflatten(0, tokens.shape)


def agrees(
    network: Network, tokens: Tensor, prompt: int, *, of_prefixes: bool = False, tolerance: float = 1e-9
) -> None:
    """The state's logits after the prompt and after each further token are those of the whole sequence.

    of_prefixes: those of each prefix run alone, for a mixer that gives it others."""
    expected, state = whole(network, tokens)[:, prompt - 1 :], decoding_state(network)
    if of_prefixes:
        ends = range(prompt, tokens.shape[1] + 1)
        expected = torch.stack([whole(network, tokens[:, :end])[:, -1] for end in ends], 1)
    found = [state.prefill(tokens[:, :prompt])]
    found += [state.step(tokens[:, i]) for i in range(prompt, tokens.shape[1])]
    torch.testing.assert_close(torch.stack(found, 1), expected, rtol=tolerance, atol=tolerance)

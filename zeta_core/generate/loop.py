"""One text after its prompt, token by token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from zeta_core.errors import OptionError

from .sampling import Sampling
from .state import DecodingState, positions_end


def generate(
    state: DecodingState,
    prompt: Sequence[int],
    *,
    max_tokens: int,
    sampling: Sampling | None = None,
    stop: int | None = None,
) -> Iterator[int]:
    """Yield up to max_tokens tokens after the prompt, each as it is drawn; `stop` ends the text and is not yielded.

    state: of a decoder, fresh or used. The same seed gives the same tokens.
    Raises, at once: OptionError if the prompt is empty, has a token that the model has not, or does not fit the
    model's positions together with what is to come."""
    check_prompt(state, prompt, max_tokens)
    return _tokens(state, prompt, max_tokens, sampling or Sampling(), stop)


def check_prompt(state: DecodingState, prompt: Sequence[int], max_tokens: int) -> None:
    """Raises OptionError as `generate` does."""
    vocab_size = state.network.embedding.num_embeddings
    if not len(prompt):
        raise OptionError("the prompt is empty; give at least one token")
    if max_tokens < 1:
        raise OptionError(f"max_tokens={max_tokens} must be at least 1")
    if wrong := [token for token in prompt if not 0 <= token < vocab_size]:
        raise OptionError(f"token {wrong[0]} of the prompt is not one of the model's, 0..{vocab_size - 1}")
    # The last token that is drawn is not fed back.
    if state.limit is not None and len(prompt) + max_tokens - 1 > state.limit:
        given = f"a prompt of {len(prompt)} tokens and {max_tokens} more do not fit"
        raise OptionError(f"{given}: {positions_end(state.limit)}")


def _tokens(
    state: DecodingState, prompt: Sequence[int], max_tokens: int, sampling: Sampling, stop: int | None
) -> Iterator[int]:
    device, generator = state.network.embedding.weight.device, sampling.generator()
    logits = state.prefill(torch.tensor([list(prompt)], dtype=torch.int64, device=device))
    for count in range(1, max_tokens + 1):
        drawn = sampling.draw(logits, generator)
        token = int(drawn)
        if token == stop:
            return
        yield token
        if count < max_tokens:
            logits = state.step(drawn)

"""`zeta generate`: what a prompt is in a model's tokens, and what its tokens are in words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch

from zeta_core.errors import RequestError
from zeta_core.generate import DecodingState, Sampling, decoding_state, generate
from zeta_core.tasks.tokenizers import Tokenizer

from .saved_model import SavedModel

MAX_TOKENS = 256
"""New tokens where their number is not given; fewer if the model has no positions for so many."""
UNFINISHED = "\ufffd"
"""What a tokenizer gives for the bytes of a character that is not whole yet."""
WINDOW = 16
"""Tokens that are decoded again with a new one: how it is written may depend on those before."""


class Words(Protocol):
    """Between a task's text and tokens. stop: the token that ends a text; None if there is none."""

    stop: int | None

    def encode(self, text: str) -> list[int]:
        """A prompt's tokens. Raises: RequestError."""
        ...

    def spelled(self, tokens: Iterator[int]) -> Iterator[str]:
        """What each token adds to the text; joined, it is the text."""
        ...


class Text:
    """Running text, by the model's tokenizer. It begins behind a separator, as every document in training does."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.stop: int | None = tokenizer.separator

    def encode(self, text: str) -> list[int]:
        """As in Words."""
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise RequestError(
                "the prompt has bytes that are not UTF-8, or half of a surrogate pair; give UTF-8 text"
            )
        found = [int(token) for token in self.tokenizer.encode(text)]
        if not found:
            raise RequestError("the prompt is empty; give at least one character")
        return [self.tokenizer.separator, *found]

    def spelled(self, tokens: Iterator[int]) -> Iterator[str]:
        """As in Words; a character comes once it is whole."""
        window: list[int] = []
        shown, text = 0, ""
        for token in tokens:
            window.append(token)
            text = self.tokenizer.decode(window)
            whole = text.rstrip(UNFINISHED)
            yield whole[shown:]
            shown = max(shown, len(whole))
            if len(window) > 2 * WINDOW and whole == text:
                window = window[-WINDOW:]
                text = self.tokenizer.decode(window)
                shown = len(text)
        yield text[shown:]


class Numbers:
    """Tokens by their numbers, with blanks between them: of tasks without text."""

    stop: int | None = None

    def __init__(self, task: str, vocab_size: int) -> None:
        self.task, self.vocab_size = task, vocab_size

    def encode(self, text: str) -> list[int]:
        """As in Words."""
        words = text.split()
        for word in words:
            if not (word.isascii() and word.isdecimal() and int(word) < self.vocab_size):
                raise RequestError(
                    f"{word!r} in the prompt is no token: those of task {self.task} are the numbers "
                    f"0..{self.vocab_size - 1}, with blanks between them"
                )
        if not words:
            raise RequestError("the prompt is empty; give at least one token number")
        return [int(word) for word in words]

    def spelled(self, tokens: Iterator[int]) -> Iterator[str]:
        """As in Words."""
        for index, token in enumerate(tokens):
            yield f" {token}" if index else str(token)


@dataclass
class Continuation:
    """A text that comes while `pieces` is read; the counts are complete when it is at its end.

    prompt, tokens: how many there were. prompt_s, token_s: seconds they took. end: why the text ended."""

    pieces: Iterator[str]
    note: str | None
    prompt: int
    tokens: int = 0
    prompt_s: float = 0.0
    tokens_s: float = 0.0
    end: str = ""

    def rate(self) -> str:
        """One line on how fast it came, and why it ended."""
        per_second = (
            f": {(self.tokens - 1) / self.tokens_s:,.1f} a second" if self.tokens_s and self.tokens > 1 else ""
        )
        return (
            f"{self.tokens} tokens{per_second}, after {self.prompt_s:.2f} s for a prompt of {self.prompt}; {self.end}"
        )


def continue_text(
    saved: SavedModel, prompt: str, *, sampling: Sampling, max_tokens: int | None, device: torch.device
) -> Continuation:
    """The text behind a prompt; max_tokens None: MAX_TOKENS, or as many as the model has positions for.

    Raises, before a token is drawn: RequestError if the model does not generate, the prompt is empty, is not of the
    model's tokens or is too long; DataError for the tokenizer's files."""
    state = decoding_state(saved.network.to(device))
    tokenizer, task = saved.tokenizer(), saved.config.task.kind
    words: Words = Numbers(task, saved.config.vocab_size) if tokenizer is None else Text(tokenizer)
    tokens = words.encode(prompt)
    most, limited = _room(state, len(tokens), max_tokens)
    found = Continuation(iter(()), state.note, len(tokens))
    drawn = generate(state, tokens, max_tokens=most, sampling=sampling, stop=words.stop)
    found.pieces = words.spelled(_counted(drawn, found, most, limited, time.perf_counter))
    return found


def _room(state: DecodingState, prompt: int, max_tokens: int | None) -> tuple[int, bool]:
    """How many tokens to draw, and whether positions are what limits them."""
    if max_tokens is not None:
        return max_tokens, False
    # The last token that is drawn needs no position. A prompt that leaves no room is refused for its one more.
    room = MAX_TOKENS if state.limit is None else max(1, state.limit - prompt + 1)
    return min(MAX_TOKENS, room), room < MAX_TOKENS


def _counted(
    drawn: Iterator[int], found: Continuation, most: int, limited: bool, clock: Callable[[], float]
) -> Iterator[int]:
    """The tokens, with their number, times and end written to `found`."""
    began = clock()
    for token in drawn:
        found.tokens += 1
        if found.tokens == 1:
            found.prompt_s, began = clock() - began, clock()
        found.tokens_s = clock() - began
        yield token
    if found.tokens < most:
        found.end = "it ended with the separator"
    else:
        found.end = "it came to the model's last position" if limited else f"max_tokens={most} reached"

"""A text after its prompt."""

import pytest
import torch
from generate.decoders import decoder, whole

from zeta_core.attention import ZetaConfig
from zeta_core.errors import OptionError
from zeta_core.generate import Sampling, decoding_state, generate

CHUNKED = ZetaConfig(chunk_size=4, top_k=4)
GREEDY = Sampling(temperature=0)


def test_greedy_text_is_that_of_the_whole_sequence_each_time():
    network = decoder(CHUNKED)
    text = [3, 17, 5]
    found = list(generate(decoding_state(network), text, max_tokens=20, sampling=GREEDY))
    for token in found:
        assert token == int(whole(network, torch.tensor([text]))[0, -1].argmax())
        text = [*text, token]
    assert len(found) == 20


def test_a_seed_gives_the_same_text_and_another_another():
    state = decoding_state(decoder(CHUNKED))
    first, again, other = (
        list(generate(state, [1, 2], max_tokens=30, sampling=Sampling(seed=seed))) for seed in (7, 7, 8)
    )
    assert first == again != other


def test_the_stop_token_ends_the_text_and_is_not_part_of_it():
    state = decoding_state(decoder(CHUNKED))
    text = list(generate(state, [1, 2], max_tokens=30, sampling=Sampling(seed=7)))
    stop = text[9]
    assert (
        list(generate(state, [1, 2], max_tokens=30, sampling=Sampling(seed=7), stop=stop)) == text[: text.index(stop)]
    )


def test_tokens_come_one_by_one():
    state = decoding_state(decoder(CHUNKED))
    text = generate(state, [1, 2, 3], max_tokens=30)
    next(text)
    assert state.length == 3
    next(text)
    assert state.length == 4


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "words"),
    [
        ([], 3, "the prompt is empty"),
        ([1, 19], 3, r"token 19 of the prompt is not one of the model's, 0\.\.18"),
        ([-1], 3, "token -1 of the prompt"),
        ([1], 0, "max_tokens=0 must be at least 1"),
        ([1] * 8, 4, "a prompt of 8 tokens and 4 more do not fit: the model has learned positions for 10"),
    ],
)
def test_a_bad_prompt_is_refused_before_anything_is_drawn(prompt, max_tokens, words):
    state = decoding_state(decoder(CHUNKED, positions="learned", max_len=10))
    with pytest.raises(OptionError, match=words):
        generate(state, prompt, max_tokens=max_tokens)
    assert state.length == 0


def test_a_text_may_fill_the_positions_to_the_last():
    state = decoding_state(decoder(CHUNKED, positions="learned", max_len=10))
    assert len(list(generate(state, [1] * 8, max_tokens=3))) == 3

"""A state that is gone on from gives what the whole sequence gives, for every mixer and option."""

import pytest
import torch
from attention.variants import MEMBERS
from generate.decoders import VOCAB, agrees, decoder, words
from hypothesis import given, settings
from hypothesis import strategies as st

from zeta_core.attention import ExactTopkConfig, SoftmaxConfig, ZetaConfig
from zeta_core.attention.nsa import NsaConfig
from zeta_core.attention.sliding_window import SlidingWindowConfig
from zeta_core.errors import OptionError, ShapeError
from zeta_core.generate import decoding_state
from zeta_core.generate.state import CachedState, RerunState
from zeta_core.model import ModelConfig
from zeta_core.ops.attend import SCORES

ZETA = {
    "plain": {},
    "no history": {"history_mean": False},
    "local window": {"local_window": 5},
    "local window over chunks": {"local_window": 9, "history_mean": False},
    "curves=3": {"curves": 3},
    "curves=6,refine=2": {"curves": 6, "refine": 2},
    "refine=3": {"refine": 3, "local_window": 2},
    "refine beyond the list": {"refine": 40, "history_mean": False},
    "few tokens": {"top_k": 48},
    "one key": {"top_k": 1},
    "d_k=1": {"d_k": 1},
    "two words": {"d_k": 9},
    "two words, refine": {"d_k": 7, "refine": 2},
    "fixed gamma": {"gamma": 0.3},
    "gamma per head": {"gamma_per": "head"},
    "sigmoid_code_only": {"coordinates": "sigmoid_code_only"},
    "layernorm": {"coordinates": "layernorm", "refine": 2},
    "linear": {"projection": "linear"},
    "random_fixed": {"projection": "random_fixed", "projection_width": 5},
    "exact": {"selection": "exact"},
    "exact, local window": {"selection": "exact", "local_window": 3},
    "exact, token": {"selection": "exact", "visibility": "token"},
    "exact, cosines": {"selection": "exact", "score": "normalized_dot"},
    "all": {"selection": "all"},
    "all, local window": {"selection": "all", "local_window": 3, "history_mean": False},
    "all, no history": {"selection": "all", "history_mean": False},
    "all, token": {"selection": "all", "visibility": "token"},
    **{f"score={name}": {"score": name} for name in SCORES},
}


@pytest.mark.parametrize("options", ZETA.values(), ids=ZETA)
@pytest.mark.parametrize("prompt", [3, 8, 21])
def test_zeta_goes_on_as_the_whole_sequence(options, prompt):
    config = ZetaConfig.model_validate({"chunk_size": 8, "top_k": 6, **options})
    agrees(decoder(config), words(42), prompt)


@settings(max_examples=25, deadline=None)
@given(
    chunk=st.integers(1, 11),
    prompt=st.integers(1, 30),
    more=st.integers(0, 14),
    curves=st.sampled_from([1, 3, 6]),
    refine=st.integers(1, 3),
    top_k=st.sampled_from([6, 12]),
    local_window=st.sampled_from([0, 1, 4]),
    history_mean=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_chunks_of_any_size_and_prompts_of_any_length(chunk, prompt, more, seed, **options):
    config = ZetaConfig.model_validate({"chunk_size": chunk, **options})
    agrees(decoder(config, seed=seed, num_layers=1), words(prompt + more, batch=1, seed=seed), prompt)


@pytest.mark.parametrize("short_conv", [0, 1, 2, 5])
def test_the_convolution_keeps_its_last_inputs(short_conv):
    network = decoder(ZetaConfig(chunk_size=4, top_k=4), short_conv=short_conv)
    for prompt in (1, 2, 9):
        agrees(network, words(14), prompt)


def test_learned_positions_are_those_of_the_tokens():
    agrees(decoder(ZetaConfig(chunk_size=4, top_k=4), positions="learned", max_len=14), words(14), 5)


@pytest.mark.parametrize(
    "model", [{"norm": "rms"}, {"mlp": "swiglu"}, {"norm": "rms", "mlp": "swiglu", "short_conv": 0}]
)
def test_norms_and_mlps_act_on_each_token_alone(model):
    agrees(decoder(ZetaConfig(chunk_size=4, top_k=4), **model), words(14), 5)


def test_rotary_positions_go_on():
    """They turn in float32."""
    agrees(decoder(SoftmaxConfig(rotary=True), short_conv=0), words(20), 5, tolerance=1e-5)


def test_equal_codes_are_taken_by_position():
    """Equal tokens without a convolution have equal codes in the first layer."""
    config = ZetaConfig(chunk_size=4, top_k=3, history_mean=False)
    network = decoder(config, short_conv=0, num_layers=1, positions="learned")
    with torch.no_grad():
        network.positions.weight[:] = 0
    agrees(network, words(40) % 2, 6)


@pytest.mark.parametrize("config_type", MEMBERS, ids=lambda t: t.__name__)
def test_every_mixer_generates(config_type):
    network = decoder(config_type())
    with_state = {"softmax", "sliding_window", "based", "cosformer", "gla", "hedgehog", "mamba", "performer"}
    state = decoding_state(network)
    assert isinstance(state, CachedState if config_type().kind in with_state else RerunState)
    by_number = getattr(config_type(), "num_chunks", None) is not None
    agrees(network, words(23), 6, of_prefixes=by_number)


@pytest.mark.parametrize(
    "config",
    [
        SoftmaxConfig(d_k=3),
        SlidingWindowConfig(window=3),
        SlidingWindowConfig(window=1),
        ExactTopkConfig(chunk_size=5, top_k=4),
        ExactTopkConfig(top_k=4, visibility="token"),
    ],
    ids=repr,
)
def test_other_mixers_keep_a_cache(config):
    network = decoder(config)
    assert isinstance(decoding_state(network), CachedState)
    for prompt in (1, 2, 3, 11):
        agrees(network, words(17), prompt)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (ZetaConfig(), "num_chunks=8 moves the chunks with the length; train with attention.chunk_size"),
        (ZetaConfig(chunk_size=8, coordinates="minmax"), "coordinates='minmax' are scaled over the whole sequence"),
        (NsaConfig(), "no state to go on from"),
    ],
    ids=["chunks by number", "minmax", "nsa"],
)
def test_what_has_no_state_says_so_in_one_line(config, reason):
    state = decoding_state(decoder(config))
    assert state.note.startswith("each token runs the whole text again: ") and reason in state.note
    assert "\n" not in state.note
    agrees(decoder(config), words(18), 5, of_prefixes=True)


def test_a_state_may_be_used_again():
    network = decoder(ZetaConfig(chunk_size=4, top_k=4))
    state = decoding_state(network)
    tokens = words(12)
    first = state.prefill(tokens[:, :9])
    state.step(tokens[:, 9])
    assert torch.equal(state.prefill(tokens[:, :9]), first) and state.length == 9


def test_a_network_in_float32_agrees_but_for_rounding():
    network = decoder(ZetaConfig(chunk_size=8, top_k=6, local_window=3)).float()
    tokens, state = words(40), decoding_state(network)
    found = [state.prefill(tokens[:, :5])] + [state.step(tokens[:, i]) for i in range(5, 40)]
    with torch.no_grad():
        expected = network(tokens).unflatten(0, tokens.shape)[:, 4:]
    apart = (torch.stack(found, 1) - expected).abs().amax(-1)
    # A coordinate at the edge of a cell may fall on its other side: rarely.
    assert (apart > 1e-3).float().mean() < 0.1 and apart.median() < 1e-4


def test_what_cannot_be_decoded_is_refused():
    encoder = ModelConfig(d_model=16, form="encoder").build(SoftmaxConfig(), vocab_size=VOCAB, max_len=9)
    classifier = ModelConfig(d_model=16).build(SoftmaxConfig(), vocab_size=VOCAB, max_len=9, num_classes=3)
    for network, words_of_it in ((encoder, "sees later tokens"), (classifier, "classifies sequences")):
        with pytest.raises(OptionError, match=words_of_it):
            decoding_state(network.eval())
    with pytest.raises(OptionError, match=r"network\.eval"):
        decoding_state(ModelConfig(d_model=16).build(SoftmaxConfig(), vocab_size=VOCAB, max_len=9))


def test_positions_end():
    for config in (ZetaConfig(chunk_size=4), ZetaConfig()):
        state = decoding_state(decoder(config, positions="learned", max_len=6))
        with pytest.raises(ShapeError, match="7 tokens, but the model has learned positions for 6"):
            state.prefill(words(7))
        state.prefill(words(5))
        state.step(words(1)[:, 0])
        with pytest.raises(ShapeError, match=r"train with --set model\.positions=none"):
            state.step(words(1)[:, 0])


def test_a_state_needs_tokens():
    state = decoding_state(decoder(SoftmaxConfig()))
    with pytest.raises(ShapeError, match="call prefill first"):
        state.step(words(1)[:, 0])
    for empty in (words(1)[:, :0], words(1)[0]):
        with pytest.raises(ShapeError, match="at least one token"):
            state.prefill(empty)

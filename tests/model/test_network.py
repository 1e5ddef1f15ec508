"""The network: who sees whom through all its layers, and what its heads compute."""

import pytest
import torch

from zeta_core.attention import AttentionConfig, ExactTopkConfig, ZetaConfig
from zeta_core.config import identity, kinds
from zeta_core.errors import OptionError, ShapeError
from zeta_core.model import ModelConfig, Network

SMALL = {
    "zeta": ZetaConfig(top_k=4, num_chunks=4, local_window=2),
    "exact_topk": ExactTopkConfig(top_k=4, num_chunks=4),
}
MIXERS = {kind: SMALL.get(kind) or found() for kind, found in kinds(AttentionConfig).items()}
ENCODING = {kind: mixer for kind, mixer in MIXERS.items() if mixer.bidirectional}
every_mixer = pytest.mark.parametrize("mixer", MIXERS.values(), ids=MIXERS.keys())
every_encoding_mixer = pytest.mark.parametrize("mixer", ENCODING.values(), ids=ENCODING.keys())
"""Those with a bidirectional form."""
every_form = pytest.mark.parametrize(
    ("mixer", "causal"),
    [pytest.param(mixer, True, id=f"{kind}-causal") for kind, mixer in MIXERS.items()]
    + [pytest.param(mixer, False, id=f"{kind}-bidirectional") for kind, mixer in ENCODING.items()],
)
VOCABULARY, SEQ_LEN = 20, 24


def network(mixer=MIXERS["softmax"], *, num_classes=None, max_len=SEQ_LEN, seed=0, **options) -> Network:
    torch.manual_seed(seed)
    config = ModelConfig(**{"d_model": 16, "num_layers": 2, "num_heads": 2, **options})
    built = config.build(mixer, vocab_size=VOCABULARY, max_len=max_len, num_classes=num_classes)
    with torch.no_grad():
        built.embedding.weight.mul_(2)
    return built.eval()


def tokens(seq_len=SEQ_LEN, batch=2, seed=1) -> torch.Tensor:
    return torch.randint(1, VOCABULARY, (batch, seq_len), generator=torch.Generator().manual_seed(seed))


@every_mixer
@pytest.mark.parametrize("short_conv", [0, 1, 3, 4])
def test_a_decoder_ignores_the_future(mixer, short_conv):
    model, given = network(mixer, short_conv=short_conv), tokens()
    before = model.hidden(given)
    for first in (1, 11, SEQ_LEN - 1):
        other = given.clone()
        other[:, first:] = (given[:, first:] + 7) % VOCABULARY
        assert torch.equal(model.hidden(other)[:, :first], before[:, :first])
        assert not torch.equal(model.hidden(other)[:, first], before[:, first])


@every_encoding_mixer
def test_an_encoder_sees_all(mixer):
    model, given = network(mixer, form="encoder"), tokens()
    other = given.clone()
    other[:, -1] = (given[:, -1] + 7) % VOCABULARY
    assert not torch.allclose(model.hidden(other)[:, 0], model.hidden(given)[:, 0], atol=1e-6)


@every_form
@pytest.mark.parametrize("short_conv", [0, 3])
def test_a_causal_encoder_ignores_the_future_and_an_encoder_does_not(mixer, causal, short_conv):
    given, other = tokens(), tokens()
    other[:, 11:] = (given[:, 11:] + 7) % VOCABULARY
    model = network(mixer, form="encoder", causal=causal, num_classes=5, pooling="cls", short_conv=short_conv)
    assert model.config.is_causal == causal and model.blocks[0].mixer.causal == causal
    before, after = model.hidden(given)[:, :11], model.hidden(other)[:, :11]
    assert torch.equal(before, after) == causal
    assert not torch.allclose(model(given), model(other), atol=1e-6)


def test_a_decoder_is_causal_by_itself():
    assert ModelConfig().is_causal and not ModelConfig(form="encoder").is_causal
    with pytest.raises(ValueError, match="a decoder is causal already"):
        ModelConfig(causal=True)


def test_the_causal_encoder_came_later():
    assert "causal" not in identity(ModelConfig(form="encoder"))
    assert identity(ModelConfig(form="encoder", causal=True))["causal"] is True


@every_mixer
def test_logits_at_labelled_positions_are_those_of_everywhere(mixer):
    model, given = network(mixer), tokens()
    labelled = torch.rand(2, SEQ_LEN, generator=torch.Generator().manual_seed(0)) < 0.3
    full = model(given)
    assert full.shape == (2 * SEQ_LEN, VOCABULARY)
    asked = labelled.flatten().nonzero()[:, 0]
    torch.testing.assert_close(model(given, asked), full.view(2, SEQ_LEN, -1)[labelled])
    assert model(given, asked[:0]).shape == (0, VOCABULARY)


def test_the_head_is_the_embedding():
    model, given = network(), tokens()
    torch.testing.assert_close(model(given), model.hidden(given).flatten(0, 1) @ model.embedding.weight.T)
    assert [name for name, p in model.named_parameters() if VOCABULARY in p.shape] == ["embedding.weight"]
    # Through the head alone: a token that is never read still gets a gradient.
    given[:] = 1
    model(given).logsumexp(-1).sum().backward()
    assert model.embedding.weight.grad[2].abs().sum() > 0


def test_learned_positions_tell_equal_tokens_apart_and_end():
    model = network()
    same = torch.ones(1, SEQ_LEN, dtype=torch.int64)
    hidden = model.hidden(same)
    assert not torch.allclose(hidden[0, 20], hidden[0, 21], atol=1e-6)
    with pytest.raises(ShapeError, match="25 tokens, but the model has learned positions for 24"):
        model(tokens(SEQ_LEN + 1))
    model(tokens(SEQ_LEN - 5))


@every_mixer
def test_without_positions_a_longer_sequence_is_allowed(mixer):
    model = network(mixer, positions="none")
    assert model.positions is None
    assert torch.isfinite(model(tokens(3 * SEQ_LEN))).all()


@every_encoding_mixer
@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("positions", ["learned", "none"])
@pytest.mark.parametrize("short_conv", [0, 3])
def test_a_padded_sequence_is_classified_as_the_shorter_one(mixer, pooling, positions, short_conv):
    options = {"form": "encoder", "pooling": pooling, "positions": positions, "short_conv": short_conv}
    model = network(mixer, num_classes=5, **options)
    short, long = tokens(15), tokens(SEQ_LEN)
    long[:, :15] = short
    mask = torch.arange(SEQ_LEN).expand(2, -1) >= 15
    padded, alone = model(long, None, mask), model(short)
    assert padded.shape == (2, 5)
    torch.testing.assert_close(padded, alone, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(model(long), alone, atol=1e-3)


@every_form
@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("form", ["decoder", "encoder"])
def test_padded_tokens_do_not_reach_the_classes(mixer, causal, pooling, form):
    if form == "decoder" and not causal:
        pytest.skip("a decoder is causal")
    model = network(mixer, num_classes=5, form=form, causal=causal and form == "encoder", pooling=pooling)
    mask = torch.zeros(3, SEQ_LEN, dtype=torch.bool)
    mask[0, 17:] = mask[1, 4:6] = mask[2] = True
    given, other = tokens(batch=3), tokens(batch=3)
    other[mask] = (given[mask] + 7) % VOCABULARY
    out = model(given, None, mask)
    assert torch.equal(out[:2], model(other, None, mask)[:2])
    assert torch.isfinite(out).all()


@pytest.mark.parametrize("form", ["decoder", "encoder"])
def test_cls_has_a_place_of_its_own_and_sees_all(form):
    model = network(num_classes=5, form=form, pooling="cls")
    given, other = tokens(), tokens()
    other[:, 0] = (given[:, 0] + 7) % VOCABULARY
    assert model.positions.weight.shape[0] == SEQ_LEN + 1
    assert not torch.allclose(model(other), model(given), atol=1e-6)


def test_mean_pooling_is_the_mean():
    model, given = network(num_classes=5), tokens()
    torch.testing.assert_close(model(given), model.classifier(model.hidden(given).mean(1)))


def test_the_number_of_parameters_is_of_the_trained_ones():
    model = network(ZetaConfig(projection="random_fixed"), d_mlp=24)
    one = 2 * 16 + (3 * 16 + 16) + 2 * (16 * 16 + 16) + 1 + 2 * 16 + (16 * 24 + 24) + (24 * 16 + 16)
    assert model.num_parameters() == 2 * one + 2 * 16
    assert model.num_parameters(embeddings=True) == model.num_parameters() + 16 * (VOCABULARY + SEQ_LEN)


def test_the_mlp_is_four_times_as_wide_unless_told():
    assert network().blocks[0].mlp[0].out_features == 64
    assert network(d_mlp=24).blocks[1].mlp[0].out_features == 24


@every_mixer
def test_dropout_acts_in_training_alone(mixer):
    model, given = network(mixer, dropout=0.5), tokens()
    assert torch.equal(model(given), network(mixer)(given))
    model.train()
    assert not torch.equal(model(given), model(given))


def test_statistics_are_named_by_layer_and_leave_the_output_alone():
    model, given = network(MIXERS["zeta"]), tokens()
    before, state = model(given), torch.get_rng_state()
    found = model.statistics(given)
    assert list(found) == ["layer0.gamma", "layer0.entropy", "layer1.gamma", "layer1.entropy"]
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(model(given), before)
    assert list(network().statistics(given)) == ["layer0.entropy", "layer1.entropy"]
    with torch.no_grad():
        inputs = model.blocks[0].mixer_input(model.embed(given, None)[0])
    assert found["layer0.entropy"] == model.blocks[0].mixer.statistics(inputs)["entropy"]


def test_heads_must_divide_the_width():
    with pytest.raises(OptionError, match="d_model=16 is not divisible by num_heads=3"):
        network(num_heads=3)

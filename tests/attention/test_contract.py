"""What every mixer promises, over the whole union and every switch of ZETA."""

import pytest
import torch
from attention.variants import (
    BIDIRECTIONAL,
    D_MODEL,
    FORMS,
    LEAKING,
    MEMBERS,
    SEQ_LEN,
    VARIANTS,
    build,
    hidden_states,
    leaks,
)

from zeta_core.errors import OptionError

every_member = pytest.mark.parametrize("config_type", MEMBERS, ids=lambda t: t.__name__)
every_variant = pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS.keys())
every_form = pytest.mark.parametrize(("config", "causal"), FORMS)

WITHOUT_WEIGHTS = {"mamba", "gla", "nsa"}
"""What they give is no mean over values."""
WITH_STATE = {"performer", "based", "cosformer", "hedgehog", "mamba", "gla"}


@every_member
def test_it_builds_from_defaults_and_keeps_the_shape(config_type):
    mixer = config_type().build(d_model=32, num_heads=2)
    assert mixer.causal
    assert mixer(torch.randn(3, 50, 32)).shape == (3, 50, 32)
    if config_type.bidirectional:
        assert not config_type().build(d_model=32, num_heads=2, causal=False).causal


@pytest.mark.parametrize("config_type", [t for t in MEMBERS if not t.bidirectional], ids=lambda t: t.__name__)
def test_one_that_is_causal_alone_says_which_are_not(config_type):
    with pytest.raises(
        OptionError, match=r"is causal alone; these have a bidirectional form: zeta, softmax, .*based"
    ):
        config_type().build(d_model=32, num_heads=2, causal=False)


@every_member
def test_output_ignores_the_future(config_type):
    assert not leaks(build(config_type(), d_model=D_MODEL), seq_len=64)


@every_variant
def test_output_ignores_the_future_with_every_switch(config):
    assert not leaks(build(config))
    mask = torch.zeros(2, SEQ_LEN, dtype=torch.bool)
    mask[0, 20:26] = mask[1, :5] = True
    assert not leaks(build(config), mask=mask)


@pytest.mark.parametrize("config", LEAKING.values(), ids=LEAKING.keys())
def test_minmax_coordinates_read_the_future(config):
    assert leaks(build(config))


def test_the_leak_check_sees_a_bidirectional_mixer():
    for config in BIDIRECTIONAL.values():
        assert leaks(build(config, causal=False))


@pytest.mark.parametrize("config", BIDIRECTIONAL.values(), ids=BIDIRECTIONAL.keys())
def test_the_bidirectional_form_sees_the_future(config):
    mixer = build(config, causal=False)
    hidden = hidden_states()
    # The mean sees every token; without it a far key may be outside the window.
    moved = hidden + torch.randn(D_MODEL, generator=torch.Generator().manual_seed(3))
    other = torch.cat((hidden[:, :1], moved[:, 1:]), dim=1)
    assert not torch.allclose(mixer(hidden)[:, 0], mixer(other)[:, 0], atol=1e-5)


@every_form
def test_padded_tokens_change_nothing_at_real_ones(config, causal):
    mixer = build(config, causal=causal)
    mask = torch.zeros(2, SEQ_LEN, dtype=torch.bool)
    mask[0, 30:] = mask[1, 3:9] = mask[1, :1] = True
    hidden, other = hidden_states(), hidden_states()
    other[mask] = 30 * hidden_states(seed=9)[mask]
    assert torch.equal(mixer(hidden, mask)[~mask], mixer(other, mask)[~mask])
    assert not torch.equal(mixer(hidden)[~mask], mixer(other)[~mask])


@every_form
def test_no_padding_is_a_mask_of_false(config, causal):
    mixer, hidden = build(config, causal=causal), hidden_states()
    mask = torch.zeros(2, SEQ_LEN, dtype=torch.bool)
    torch.testing.assert_close(mixer(hidden, mask), mixer(hidden), rtol=1e-5, atol=1e-6)


@every_form
def test_wholly_padded_rows_stay_finite(config, causal):
    mixer, hidden = build(config, causal=causal), hidden_states().requires_grad_()
    mask = torch.tensor([[True], [False]]).expand(2, SEQ_LEN)
    out = mixer(hidden, mask)
    out.square().sum().backward()
    torch.testing.assert_close(out[0], mixer.out.bias.expand(SEQ_LEN, -1))
    assert torch.isfinite(out).all()
    assert torch.isfinite(hidden.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in mixer.parameters() if p.requires_grad)


@every_variant
@pytest.mark.parametrize("seq_len", [1, 7, SEQ_LEN])
def test_every_trained_parameter_has_a_finite_gradient(config, seq_len):
    mixer, hidden = build(config), hidden_states(seq_len)
    out = mixer(hidden)
    assert out.shape == hidden.shape
    assert torch.isfinite(out).all()
    out.square().sum().backward()
    for name, parameter in mixer.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            assert torch.isfinite(parameter.grad).all(), name
            assert seq_len < SEQ_LEN or parameter.grad.any(), name


@every_variant
def test_a_seed_gives_the_same_bits(config):
    found = []
    for _ in range(2):
        mixer = build(config, seed=5)
        out = mixer(hidden_states())
        out.square().sum().backward()
        found.append((out, [p.grad for p in mixer.parameters() if p.requires_grad]))
    assert torch.equal(found[0][0], found[1][0])
    assert all(torch.equal(a, b) for a, b in zip(found[0][1], found[1][1], strict=True))
    assert not torch.equal(build(config, seed=6)(hidden_states()), found[0][0])


@every_variant
def test_a_state_dict_carries_everything(config):
    mixer, other = build(config, seed=1), build(config, seed=2)
    assert not torch.equal(other(hidden_states()), mixer(hidden_states()))
    other.load_state_dict(mixer.state_dict())
    assert torch.equal(other(hidden_states()), mixer(hidden_states()))


@every_variant
def test_every_mixer_with_weights_reports_their_entropy(config):
    found = build(config).statistics(hidden_states())
    assert ("entropy" in found) == (config.kind not in WITHOUT_WEIGHTS)
    assert 0 < found.get("entropy", 1.0) < torch.tensor(SEQ_LEN + 1.0).log()


@every_form
def test_more_padding_behind_changes_nothing(config, causal):
    if getattr(config, "num_chunks", None) is not None:
        pytest.skip("a number of chunks divides what is padded too: chunk_size does not")
    mixer, hidden = build(config, causal=causal), hidden_states()
    longer = torch.cat((hidden, hidden_states(29, seed=4)), dim=1)
    mask = torch.arange(SEQ_LEN + 29).expand(2, -1) >= SEQ_LEN
    torch.testing.assert_close(mixer(longer, mask)[:, :SEQ_LEN], mixer(hidden), rtol=1e-4, atol=1e-5)


@every_variant
def test_one_step_at_a_time_is_the_same(config):
    mixer, hidden = build(config), hidden_states()
    if hasattr(mixer, "step"):
        state, found = None, []
        for token in hidden.unbind(1):
            out, state = mixer.step(token, state)
            found.append(out)
        torch.testing.assert_close(torch.stack(found, 1), mixer(hidden), rtol=1e-4, atol=1e-5)
    assert hasattr(mixer, "step") == (config.kind in WITH_STATE)


@every_member
def test_heads_must_divide_the_width(config_type):
    with pytest.raises(OptionError, match="d_model=30 is not divisible by num_heads=4"):
        config_type().build(d_model=30, num_heads=4)

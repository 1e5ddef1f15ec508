"""The short convolution against a loop, and what a block adds up."""

import pytest
import torch

from zeta_core.attention import SoftmaxConfig
from zeta_core.model.block import Block, ShortConv, default_width


@pytest.mark.parametrize("padded", [False, True], ids=["", "padded"])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "centred"])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("seq_len", [1, 2, 9])
def test_the_convolution_is_a_loop_over_neighbours(width, causal, seq_len, padded):
    torch.manual_seed(0)
    conv, hidden = ShortConv(4, width, causal=causal).double(), torch.randn(2, seq_len, 4).double()
    mask = torch.zeros(2, seq_len, dtype=torch.bool)
    mask[0, seq_len // 2] = padded
    first = width - 1 if causal else width // 2
    expected = conv.conv.bias.expand(2, seq_len, 4).clone()
    for row in range(2):
        for token in range(seq_len):
            for step in range(width):
                at = token - first + step
                if 0 <= at < seq_len and not mask[row, at]:
                    expected[row, token] += conv.conv.weight[:, 0, step] * hidden[row, at]
    torch.testing.assert_close(conv(hidden, mask if padded else None), expected)


def test_a_block_adds_its_mixer_and_its_mlp():
    torch.manual_seed(0)
    block = Block(8, SoftmaxConfig().build(8, 2), d_mlp=12, short_conv=3, dropout=0.0)
    hidden = torch.randn(2, 7, 8)
    mixed = hidden + block.mixer(block.short_conv(block.mixer_norm(hidden)))
    torch.testing.assert_close(block(hidden), mixed + block.mlp(block.mlp_norm(mixed)))
    assert block.mlp[0].weight.shape == (12, 8)


def test_a_block_without_a_convolution():
    block = Block(8, SoftmaxConfig().build(8, 2), d_mlp=12, short_conv=0, dropout=0.0)
    hidden = torch.randn(2, 7, 8)
    assert block.short_conv is None
    assert torch.equal(block.mixer_input(hidden), block.mixer_norm(hidden))


def test_swiglu_and_rms_are_their_formulas():
    torch.manual_seed(0)
    block = Block(8, SoftmaxConfig().build(8, 2), d_mlp=12, short_conv=0, dropout=0.0, norm="rms", mlp="swiglu")
    x = torch.randn(2, 5, 8)
    weight = torch.rand(8)
    block.mlp_norm.weight.data = weight
    normed = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight
    torch.testing.assert_close(block.mlp_norm(x), normed)
    gate, up = block.mlp.gate_up.weight[:12], block.mlp.gate_up.weight[12:]
    gated = (x @ gate.T) * torch.sigmoid(x @ gate.T) * (x @ up.T)
    torch.testing.assert_close(block.mlp(x), gated @ block.mlp.down.weight.T)


@pytest.mark.parametrize("d_model", [8, 64, 192, 768])
def test_gates_cost_no_parameters(d_model):
    plain, gated = (default_width(kind, d_model) for kind in ("gelu", "swiglu"))
    assert plain == 4 * d_model and gated % 8 == 0
    assert 2 * plain * d_model <= 3 * gated * d_model < 2 * plain * d_model + 3 * 8 * d_model

"""The selective scan against its recurrence, and Mamba's block against transformers' where that is installed."""

import importlib.util

import pytest
import torch
from attention.plain import MASK, built, states
from torch.nn.functional import silu, softplus

from zeta_core.attention.mamba import MambaConfig


def expected(mixer, hidden, mask):
    keep = torch.ones(hidden.shape[:2]) if mask is None else (~mask).double()
    rows = []
    for row in range(len(hidden)):
        x, gate = mixer.in_proj(hidden[row]).chunk(2, dim=-1)
        x = x * keep[row, :, None]
        h, found = torch.zeros(x.shape[1], mixer.config.state_size, dtype=x.dtype), []
        for i in range(len(x)):
            taps = mixer.conv1d.weight[:, 0]
            back = [t for t in range(taps.shape[1]) if i - t >= 0]
            u = silu(sum(taps[:, -1 - t] * x[i - t] for t in back) + mixer.conv1d.bias) * keep[row, i]
            dt, into, out_of = mixer.x_proj(u).split(mixer.sizes)
            dt = softplus(mixer.dt_proj(dt)) * keep[row, i]
            h = (-dt[:, None] * mixer.A_log.exp()).exp() * h + dt[:, None] * into * u[:, None]
            found.append((h @ out_of + mixer.D * u) * silu(gate[i]))
        rows.append(torch.stack(found))
    return mixer.out(torch.stack(rows))


@pytest.mark.parametrize("chunk", [64, 7])
def test_it_is_the_recurrence(chunk, monkeypatch):
    monkeypatch.setattr("zeta_core.attention.mamba.CHUNK", chunk)
    mixer = built(MambaConfig(state_size=5))
    for mask in (None, MASK):
        found, right = (states().requires_grad_() for _ in range(2))
        out, plain = mixer(found, mask), expected(mixer, right, mask)
        keep = slice(None) if mask is None else ~mask
        torch.testing.assert_close(out[keep], plain[keep])
        everything = list(mixer.parameters())
        own = torch.autograd.grad(out[keep].square().sum(), [found, *everything])
        loops = torch.autograd.grad(plain[keep].square().sum(), [right, *everything])
        torch.testing.assert_close(own, loops)


@pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="needs pip install 'zeta-attention[baselines]'"
)
def test_transformers_block_is_the_same():
    from transformers import MambaConfig as TheirConfig
    from transformers.models.mamba.modeling_mamba import MambaMixer

    torch.manual_seed(0)
    own = MambaConfig().build(32, 2)
    theirs = MambaMixer(TheirConfig(hidden_size=32, state_size=16, use_mambapy=False), layer_idx=0)
    weights = {name.replace("out.weight", "out_proj.weight"): x for name, x in own.state_dict().items()}
    theirs.load_state_dict({name: x for name, x in weights.items() if name != "out.bias"})
    hidden = torch.randn(2, 90, 32)
    torch.testing.assert_close(own(hidden) - own.out.bias, theirs(hidden), rtol=1e-4, atol=1e-5)

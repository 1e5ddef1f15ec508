"""Rotary positions against turning complex numbers, and what only distances may decide."""

import pytest
import torch

from zeta_core.attention import SoftmaxConfig
from zeta_core.attention.softmax import rotated
from zeta_core.errors import OptionError


@pytest.mark.parametrize("first", [0, 5])
@pytest.mark.parametrize("d", [2, 6])
def test_pairs_are_complex_numbers_that_turn(d, first):
    x = torch.randn(2, 3, 7, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found, half = rotated(x, first), d // 2
    for t in range(7):
        for i in range(half):
            turn = torch.polar(torch.ones(()).double(), torch.tensor((first + t) * 10_000.0 ** (-2 * i / d)).double())
            turned = torch.complex(x[..., t, i], x[..., t, i + half]) * turn
            pair = torch.complex(found[..., t, i], found[..., t, i + half])
            torch.testing.assert_close(pair, turned, rtol=1e-5, atol=1e-5)


def test_only_distances_decide():
    torch.manual_seed(0)
    mixer = SoftmaxConfig(rotary=True).build(16, 2)
    hidden = torch.randn(1, 6, 16)
    near, far = (q @ k.mT for q, k, _ in (mixer.projected(hidden), mixer.projected(hidden, first=1000)))
    torch.testing.assert_close(near, far, rtol=1e-3, atol=1e-4)
    plain = SoftmaxConfig().build(16, 2)
    plain.load_state_dict(mixer.state_dict())
    assert not torch.allclose(plain(hidden), mixer(hidden), atol=1e-4)


def test_an_odd_width_is_refused():
    with pytest.raises(OptionError, match="d_k=3 is odd"):
        SoftmaxConfig(rotary=True, d_k=3).build(16, 2)

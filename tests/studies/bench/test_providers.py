"""Every provider: it gives what its definition says, and says why where it cannot run."""

import pytest
import torch
from studies.bench.shapes import request, shape

from zeta_core.attention import AttentionConfig
from zeta_core.config import kinds
from zeta_core.studies.bench.measure import Bench
from zeta_core.studies.bench.providers import AnyProvider, MixerProvider
from zeta_core.studies.bench.providers.provider import past, softmax_attention

CPU = torch.device("cpu")
EVERY = [config_type(kind=kind) for kind, config_type in kinds(AnyProvider).items()]
HERE = [provider for provider in EVERY if provider.missing(shape(), CPU, False) is None]


def test_each_has_a_definition_of_its_own():
    assert len({provider.kind for provider in EVERY}) == len(EVERY) >= 12
    assert {"zeta_reference", "sdpa_flash", "sdpa_math", "naive", "flex_window", "exact_topk"} <= {
        provider.kind for provider in HERE
    }


def test_every_mixer_of_the_library_can_be_timed():
    operators = {"zeta", "softmax", "exact_topk"}  # by zeta_*, sdpa_* and exact_topk
    assert set(kinds(AttentionConfig)) - operators <= set(kinds(AnyProvider))


@pytest.mark.parametrize("kind", kinds(MixerProvider))
def test_rounding_to_bf16_leaves_a_mixer_s_choices_alone(kind):
    size = shape(seq_len=150, dtype="bf16")
    assert Bench(CPU).difference(MixerProvider(kind=kind), size, "forward") is None


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("provider", HERE, ids=lambda provider: provider.kind)
def test_output_and_gradients_are_the_definition_s(provider, causal):
    size = shape(seq_len=150, causal=causal)
    if provider.missing(size, CPU, False):
        pytest.skip("causal alone")  # said by the provider itself
    bench = Bench(CPU)
    assert bench.difference(provider, size, "forward") is None
    if provider.missing(size, CPU, True) is None:
        assert bench.difference(provider, size, "forward_backward") is None


@pytest.mark.parametrize("provider", EVERY, ids=lambda provider: provider.kind)
def test_each_answers_on_a_cpu(provider):
    for mode in ("forward", "forward_backward"):
        found = Bench(CPU).run(request(provider, mode))
        assert found.status == "ok" or (found.status == "skipped" and found.reason)
        assert found.backend
        if found.status == "ok":
            assert found.time_ms_p20 <= found.time_ms <= found.time_ms_p80
            assert found.peak_mib > 0


@pytest.mark.parametrize("provider", EVERY, ids=lambda provider: provider.kind)
def test_longer_sequences_need_more(provider):
    short, long = (provider.needs_bytes(shape(seq_len=length), True) for length in (1024, 4096))
    assert long >= 4 * short
    assert provider.needs_bytes(shape(), True) > provider.needs_bytes(shape(), False)


def test_all_pairs_at_65536_do_not_fit_a_gpu():
    size = shape(seq_len=65_536, heads=8, d_v=64, dtype="bf16")
    need = {provider.kind: provider.needs_bytes(size, False) / 2**30 for provider in EVERY}
    assert need["sdpa_math"] > 256  # two fp32 matrices of 8 x 65,536^2
    assert need["naive"] > 192  # three in bf16
    assert need["sdpa_flash"] < 1 and need["zeta_triton"] < 1


def test_attention_by_formula():
    q, k, v = torch.randn(3, 1, 1, 5, 4, dtype=torch.float64)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(softmax_attention(q, k, v, past(5)), expected)
    assert past(4, 2).long().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]

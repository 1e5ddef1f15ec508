"""The benchmark runs and prints what it measured; what a step reads does not grow with the text."""

from statistics import median

import pytest
import torch
from generate.decoders import decoder, words

from zeta_core.attention import ZetaConfig
from zeta_core.generate import benchmark, decoding_state
from zeta_core.generate.buffer import Buffer

SMALL = ["--chunk", "16", "--d-model", "16", "--layers", "1", "--heads", "2"]


def test_a_table(capsys):
    assert benchmark.main([*SMALL, "--seq", "96,32", "--steps", "20"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert [line.split()[:2] for line in lines if line.startswith(("zeta  ", "softmax  "))] == [
        ["zeta", "32"], ["zeta", "96"], ["softmax", "32"], ["softmax", "96"],
    ]  # fmt: skip
    assert "chunks of 16" in lines[0] and "zeta: a token behind 96 others takes" in out


@pytest.mark.parametrize(
    ("words_given", "message"),
    [(["--seq", "0"], "--seq '0'"), (["--seq", "4096,many"], "by commas"), (["--heads", "3"], "num_heads=3")],
)
def test_bad_requests_are_one_line(capsys, words_given, message):
    assert benchmark.main([*SMALL, *words_given]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


@pytest.mark.parametrize("flag", ["--chunk", "--steps", "--layers"])
def test_counts_are_positive(capsys, flag):
    with pytest.raises(SystemExit):
        benchmark.main([flag, "0"])
    assert "must be a whole number above 0" in capsys.readouterr().err


def test_time_is_nearly_the_same_behind_sixteen_times_the_text():
    """The bound of 2 at 65,536 and 4,096 tokens, in small; the least of three, since others may use the processor."""
    model = benchmark.ModelConfig(d_model=16, num_layers=1, positions="none")
    config, cpu = ZetaConfig(chunk_size=64), torch.device("cpu")
    ratios = []
    for _ in range(3):
        short, long = benchmark.measure(config, model, (512, 8192), 64, cpu)
        assert len(short.steps_ms) == len(long.steps_ms) == 64
        ratios.append(median(long.steps_ms) / median(short.steps_ms))
    assert min(ratios) < 2


def test_memory_is_that_of_the_keys_and_values():
    """Buffers have room for half as much again at most, and nothing has a width that grows with the text."""
    network = decoder(ZetaConfig(chunk_size=8, top_k=6, refine=2), num_layers=1)
    state = decoding_state(network)
    state.prefill(words(700))
    for token in words(120).unbind(1):
        state.step(token)
    (cache,) = state.caches
    buffers = [found for found in vars(cache).values() if isinstance(found, Buffer)]
    assert len(buffers) == 2 and all(found.length == 820 for found in buffers)
    assert all(found.whole.shape[-2] <= 1.5 * 820 + 64 for found in buffers)
    (keys,) = cache.selection.lists
    assert len(keys) == 816 and keys.order.shape == (4, 816)

"""Ratios, the crossover and the growth, on rows whose answers are known."""

import pytest
from rows import bench_row

from zeta_core.studies.bench.plot import plot
from zeta_core.studies.bench.presets import PROVIDERS
from zeta_core.studies.bench.summary import compare_with, dense_providers, growth, timed

LENGTHS = (1024, 2048, 4096)


def table():
    rows = []
    for n in LENGTHS:
        rows.append(bench_row(provider="zeta_triton", seq_len=n, time_ms=n / 1024))
        rows.append(bench_row(provider="sdpa_flash", seq_len=n, time_ms=(n / 1536) ** 2))
        rows.append(bench_row(provider="sdpa_math", seq_len=n, time_ms=100.0))
        rows.append(bench_row(provider="flex_window", seq_len=n, time_ms=0.01))
    rows.append(bench_row(provider="zeta_triton", seq_len=8192, time_ms=None, status="oom"))
    rows.append(bench_row(provider="zeta_triton", seq_len=1024, time_ms=0.1, points="equal"))
    rows.append(bench_row(provider="zeta_triton", seq_len=1024, time_ms=3.0, num_chunks=4))
    return rows


def test_against_the_fastest_dense():
    found = compare_with(timed(table()), dense_providers())
    assert found.ours == "zeta_triton"
    assert found.ratios == {
        1024: ("sdpa_flash", pytest.approx((1024 / 1536) ** 2)),
        2048: ("sdpa_flash", pytest.approx((2048 / 1536) ** 2 / 2)),
        4096: ("sdpa_flash", pytest.approx((4096 / 1536) ** 2 / 4)),
    }
    assert found.crossover == 4096
    assert found.growth == pytest.approx(1.0)


def test_ahead_nowhere_and_everywhere():
    assert compare_with(timed(table()), ["flex_window"]).crossover is None
    assert compare_with(timed(table()), ["sdpa_math"]).crossover == 1024
    assert compare_with(timed(table()), ["naive"]).ratios == {}
    assert compare_with(timed([bench_row(provider="naive", time_ms=1.0)]), ["naive"]) is None


def test_the_reference_stands_in_where_there_are_no_kernels():
    rows = [bench_row(provider="zeta_reference", time_ms=1.0), bench_row(provider="naive", time_ms=3.0)]
    assert compare_with(timed(rows), ["naive"]).ratios == {1024: ("naive", 3.0)}
    assert compare_with(timed(rows), ["naive"]).growth is None


def test_growth_is_the_exponent():
    frame = timed([bench_row(provider="naive", seq_len=n, time_ms=5 * n**1.7) for n in LENGTHS])
    assert growth(frame.set_index("seq_len")["time_ms"]) == pytest.approx(1.7)


def test_dense_are_those_over_all_pairs():
    assert set(dense_providers()) == {"sdpa_cudnn", "sdpa_flash", "sdpa_efficient", "sdpa_math", "naive"}


def test_a_picture_is_drawn_of_what_there_is(tmp_path):
    rows = [*table(), bench_row(provider="zeta_triton", mode="forward_backward", timing="graph", time_ms=2.0)]
    plot(rows, tmp_path / "results" / "bench.png")
    assert (tmp_path / "results" / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["bench.png"]


def test_every_provider_can_be_drawn(tmp_path):
    rows = [bench_row(provider=name, seq_len=n, time_ms=1.0) for name in PROVIDERS for n in LENGTHS]
    plot(rows, tmp_path / "bench.png")
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")

"""What is timed, from flags, files and presets."""

import pytest

from zeta_core.config import kinds, to_yaml
from zeta_core.errors import ConfigError
from zeta_core.studies.bench.config import BenchRun, make_bench
from zeta_core.studies.bench.presets import BY_DEFAULT, PRESETS, PROVIDERS, TUNED, grids
from zeta_core.studies.bench.providers import MixerProvider
from zeta_core.studies.ranges import whole_numbers


def one(**flags):
    (run,) = make_bench(flags={f"--{name}": (name, value) for name, value in flags.items()})
    return run


def test_a_laptop_gets_what_needs_no_tuning_at_a_few_lengths():
    run = one()
    assert run.providers == BY_DEFAULT and len(run.seq_lens) == 3
    assert set(PROVIDERS) - set(BY_DEFAULT) == {*kinds(MixerProvider), *TUNED}
    assert (run.device, run.dtype, run.timings, run.batch) == ("cpu", "fp32", ("eager",), 1)


def test_a_gpu_gets_the_lengths_of_the_table():
    (values,) = grids("default", gpu=True)
    run = BenchRun.model_validate(values)
    assert run.seq_lens == (4096, 8192, 16_384, 32_768, 65_536)
    assert (run.batch, run.heads, run.d_v, run.top_k, run.num_chunks) == (1, 8, 64, 32, 8)
    assert run.timings == ("eager", "graph")
    (paper,) = grids("paper", gpu=True)
    assert (paper["batch"], paper["preset"]) == (32, "paper")


@pytest.mark.parametrize("gpu", [True, False])
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_builds(preset, gpu):
    for values in grids(preset, gpu):
        run = BenchRun.model_validate({**values, "device": "cpu", "dtype": "fp32"})
        assert list(run.requests())
        assert run.preset == preset


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["4096"], (4096,)),
        (["16", "8,64"], (16, 8, 64)),
        (["4096..65536"], (4096, 8192, 16_384, 32_768, 65_536)),
        (["3..13"], (3, 6, 12)),
        (["5..5", "7"], (5, 7)),
    ],
)
def test_lengths(texts, expected):
    assert whole_numbers("--seq", texts, least=1) == expected


@pytest.mark.parametrize("text", ["0", "abc", "-1", "8..4", "1.5", "", "4..", "0..8"])
def test_no_lengths(text):
    with pytest.raises(ConfigError, match=r"--seq .*must be whole numbers of 1 or more"):
        whole_numbers("--seq", [text], least=1)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"providers": ("zeta_tritn",)}, r"'zeta_tritn' is not one of the providers .*did you mean 'zeta_triton'"),
        ({"providers": ()}, "at least one"),
        ({"providers": ("naive", "naive")}, "naive is there twice"),
        ({"points": ("raindrops",)}, "must be one of 'random'"),
        ({"providers": ("sdpa_math",), "top_k": 3}, "--top_k: none of sdpa_math has top_k.*zeta_triton"),
        ({"providers": ("naive",), "points": ("equal",)}, "none of naive has points"),
        ({"seq_lens": (4,)}, "num_chunks=8 is more than the shortest of seq_lens, 4"),
        ({"d_v": 0}, "d_v=0"),
        ({"seq_lens": (64, 64)}, "64 is there twice"),
        ({"budget_s": 0.0}, "budget_s"),
    ],
)
def test_bad_requests(flags, message):
    with pytest.raises(ConfigError, match=message) as caught:
        one(**flags)
    assert len(caught.value.lines) == 1


def test_an_unknown_preset():
    with pytest.raises(ConfigError, match=r"'papr' is not one of default, paper, long, operator \(did you mean"):
        make_bench(preset="papr")


def test_settings_and_files_reach_every_field(tmp_path):
    file = tmp_path / "bench.yaml"
    file.write_text(to_yaml({"kind": "bench", "seq_lens": [64], "top_k": 4, "providers": ["zeta_reference"]}))
    (run,) = make_bench(config=file, settings=["history_mean=false", "timeout_s=5.0"])
    assert (run.seq_lens, run.top_k, run.history_mean, run.timeout_s) == ((64,), 4, False, 5.0)


def test_only_providers_with_coordinates_are_timed_at_several_points():
    run = one(providers=("zeta_reference", "naive"), points=("equal", "drifting"), seq_lens=(64,), modes=("forward",))
    found = [(request.provider.kind, request.shape.points) for request in run.requests()]
    assert found == [("zeta_reference", "equal"), ("zeta_reference", "drifting"), ("naive", "equal")]


def test_eager_comes_before_graph():
    run = one(providers=("naive",), timings=("graph", "eager"), seq_lens=(64, 32), modes=("forward",))
    assert [(request.shape.seq_len, request.timing) for request in run.requests()] == [
        (32, "eager"), (32, "graph"), (64, "eager"), (64, "graph"),
    ]  # fmt: skip


def test_grids_that_flags_make_equal_are_timed_once():
    flags = {"--seq": ("seq_lens", (64,)), "--providers": ("providers", ("zeta_reference",)), "--batch": ("batch", 2)}
    flags |= {"--heads": ("heads", 2), "--k": ("top_k", 8), "--mode": ("modes", ("forward",))}
    assert len(make_bench(preset="operator")) > 1 == len(make_bench(preset="operator", flags=flags))

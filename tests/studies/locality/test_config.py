"""What is measured, from flags, files and settings."""

import pytest

from zeta_core.config import to_yaml
from zeta_core.errors import ConfigError
from zeta_core.studies.locality.config import LocalityRun, make_locality
from zeta_core.studies.ranges import whole_numbers


def one(**flags):
    return make_locality(flags={f"--{name}": (name, value) for name, value in flags.items()})


def test_the_defaults_are_the_paper_s_grid():
    run = one(device="cpu")
    assert run.d_ks == (1, 2, 3, 8, 32, 64, 128) and run.seq_lens == (512, 2048)
    assert run.points == ("uniform", "gaussian", "clustered", "projected") and run.bits == (12,)
    assert run.num_neighbours == 64 and len(run.seeds) > 2
    assert [run.curves_of(d_k) for d_k in (1, 3, 128)] == [(1,), (1, 3, 6), (1,)]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1,2", "3"], (1, 2, 3)),
        ([" 7 "], (7,)),
        (["0,1"], (0, 1)),
        (["512..4096"], (512, 1024, 2048, 4096)),
        (["3..13,1"], (3, 6, 12, 1)),
        (["5,5"], (5, 5)),
        (None, None),
    ],
)
def test_whole_numbers(texts, expected):
    assert whole_numbers("--dk", texts) == expected


@pytest.mark.parametrize("text", ["", "a", "1.5", "-1", "8..4", "0..4", "4..", "1,,2", "1;2"])
def test_no_whole_numbers(text):
    with pytest.raises(ConfigError, match=r"--dk '.*': must be whole numbers by commas") as caught:
        whole_numbers("--dk", [text])
    assert len(caught.value.lines) == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"points": ("unifrm",)}, r"'unifrm': must be one of 'uniform'.*did you mean 'uniform'"),
        ({"points": ()}, "at least one"),
        ({"points": ("uniform", "uniform")}, "uniform is there twice"),
        ({"d_ks": (2, 2)}, "2 is there twice"),
        ({"seeds": ()}, "at least one"),
        ({"curves": ()}, "at least one"),
        ({"curves": (2,)}, "must be 1, 3 or 6"),
        ({"curves": (3,), "d_ks": (2,)}, "curves=3 needs d_k=3"),
        ({"curves": (3,), "d_ks": (2, 3)}, "d_k=2 of d_ks has none of curves=3"),
        ({"curves": (6,), "num_neighbours": 4, "d_ks": (3,)}, "curves=6 cannot share num_neighbours=4"),
        ({"num_neighbours": 512}, "num_neighbours=512 must be less than the shortest of seq_lens, 512"),
        ({"seq_lens": (64,)}, "num_neighbours=64 must be less"),
        ({"num_neighbours": 0}, "must be more than 0"),
        ({"d_ks": (0,)}, "must be at least 1"),
        ({"d_ks": (129,)}, "must be at most 128"),
        ({"bits": (17,)}, "must be at most 16"),
        ({"bits": ("twelve",)}, "whole number"),
        ({"num_examples": 5}, "--num_examples: num_examples needs a checkpoint"),
        ({"checkpoint": "x", "d_ks": (3,)}, "--d_ks: d_ks is for random points"),
        ({"kind": "bench"}, "must be 'locality'"),
    ],
)
def test_bad_requests(flags, message):
    with pytest.raises(ConfigError, match=message) as caught:
        one(**flags)
    assert len(caught.value.lines) == 1


def test_settings_files_and_flags_reach_every_field(tmp_path):
    file = tmp_path / "locality.yaml"
    file.write_text(to_yaml({"kind": "locality", "d_ks": [3], "seq_lens": [64], "num_neighbours": 8}))
    run = make_locality(
        config=file, settings=["seeds=[5]", "curves=[3]"], flags={"--num-neighbours": ("num_neighbours", 9)}
    )
    assert (run.d_ks, run.seq_lens, run.num_neighbours, run.seeds, run.curves) == ((3,), (64,), 9, (5,), (3,))


@pytest.mark.parametrize("flags", [{}, {"checkpoint": "a-run"}])
def test_a_configuration_as_it_is_written_is_read_back(flags):
    run = one(device="cpu", **flags)
    values = run.model_dump(mode="json")
    assert LocalityRun.model_validate(values) == run
    assert ("d_ks" in values) == ("checkpoint" not in values) == ("num_examples" not in values)

"""Every mixer trains on a CPU: a few steps through all of `zeta train`, with one number of parameters."""

import math

import pytest
from studies.sittings import tiny, zeta

from zeta_core.attention import AttentionConfig
from zeta_core.config import kinds
from zeta_core.records import read_rows

WANTED = 6_000


@pytest.mark.parametrize("kind", kinds(AttentionConfig))
def test_every_mixer_trains(tmp_path, capsys, kind):
    options = ["--attention", kind, "--set", f"model.match_parameters={WANTED}", "--steps", "4"]
    argv = tiny(tmp_path, *options)
    if kind not in ("zeta", "exact_topk"):
        argv = without(argv, "--chunks")
    if "top_k" not in kinds(AttentionConfig)[kind].model_fields:
        argv = without(argv, "--k")
    assert zeta(argv) == 0
    (row, *_) = read_rows(tmp_path / "results" / "train.csv")
    assert (row["attention"], row["status"]) == (kind, "ok")
    assert 0 <= float(row["value"]) <= 1 and math.isfinite(float(row["value"]))
    assert abs(int(row["parameters"]) - WANTED) < 0.05 * WANTED
    assert "d_mlp=" in capsys.readouterr().err


def without(argv, flag):
    """A command line without one flag and its value."""
    place = argv.index(flag)
    return argv[:place] + argv[place + 2 :]


@pytest.mark.parametrize("kind", [kind for kind, found in kinds(AttentionConfig).items() if not found.bidirectional])
def test_a_form_that_a_mixer_has_not_is_refused_in_a_line(tmp_path, capsys, kind):
    argv = ["train", "mqar", "--attention", kind, "--set", "model.form=encoder", "--out", str(tmp_path)]
    assert zeta(argv) == 2
    shown = capsys.readouterr().err
    assert len(shown.splitlines()) == 1
    assert f"attention.kind='{kind}' is causal alone; these have a bidirectional form: zeta, softmax" in shown

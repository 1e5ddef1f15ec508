"""Every mixer trains on a CPU: a few steps through all of `zeta train`, with one number of parameters."""

import math

import pytest
from studies.sittings import tiny, zeta

from zeta_core.attention import AttentionConfig
from zeta_core.config import kinds
from zeta_core.records import read_rows
from zeta_core.studies.train_rows import unbound_warning, unreachable_warning
from zeta_core.studies.train_run import make_run

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


REFUSED = {
    "parameters": (["model.match_parameters=100"], "match_parameters=100: the nearest that this mixer comes to is"),
    "rotary": (["attention.rotary=true", "attention.d_k=3"], "rotary=true turns pairs of dimensions, and d_k=3"),
    "adaptive": (["model.head=adaptive"], "reaches none of cutoffs"),
}


@pytest.mark.parametrize(("settings", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_network_that_cannot_be_built_is_refused_before_anything_is_written(settings, message, tmp_path, capsys):
    argv = ["train", "mqar", "--attention", "softmax", "--out", str(tmp_path / "out"), "--wandb", "off"]
    assert zeta([*argv, *(word for setting in settings for word in ("--set", setting))]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_window_that_is_too_narrow_is_warned_of_by_its_name():
    flags = {"--attention": ("attention.kind", "sliding_window")}
    run = make_run("mqar", settings=["attention.window=1", "model.short_conv=0"], flags=flags)
    assert "with this window" in (line := unreachable_warning(run, run.task.build()) or "") and "chunk" not in line
    assert "--set attention.window=2" in (unbound_warning(run) or "")

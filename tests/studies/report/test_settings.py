"""Rows of different settings never stand in one mean."""

import pytest
from studies.report.made_up import SOFTMAX, ablate_row, sweep, train_row

from zeta_core.records import AblateRow
from zeta_core.studies.report.ablate import sweeps, swept, tables, values
from zeta_core.studies.report.settings import NOT_SETTINGS, groups
from zeta_core.studies.report.train import tables as train_tables

OTHERS = {
    "task": "listops", "data_fingerprint": "other", "device": "A CPU", "dtype": "fp16", "impl": "triton",
    "torch": "3",
    "d_model": 64, "num_layers": 4, "num_heads": 4, "short_conv": 0, "d_k": 2, "top_k": 16, "num_chunks": 4,
    "chunk_size": 64, "score": "inverse_euclidean", "gamma": "1.0", "curves": 3, "history_mean": False,
    "local_window": 16, "projection": "linear", "coordinates": "layernorm", "selection": "exact",
    "visibility": "token",
    "refine": 2, "seq_len": 64, "batch_size": 32, "learning_rate": 3e-3, "steps": 20, "metric": "loss",
}  # fmt: skip


def test_every_column_is_a_setting_or_named_as_none():
    assert {*OTHERS, *NOT_SETTINGS, "slice", "attention", "system"} == set(AblateRow.__dataclass_fields__)


@pytest.mark.parametrize("column", OTHERS)
def test_runs_that_differ_in_a_column_are_two_settings(column):
    rows = [train_row(seed=0), train_row(seed=1), train_row(seed=2, **{column: OTHERS[column]})]
    assert sorted(map(len, groups(rows, ()))) == [1, 2]


@pytest.mark.parametrize("column", sorted(set(OTHERS) - {"d_k"}))
def test_sweeps_of_two_bases_are_two_tables(column):
    first = sweep("dk", "d_k", {1: 0.5, 3: 0.9})
    second = sweep("dk", "d_k", {1: 0.1, 3: 0.2}, **{column: OTHERS[column]})
    assert len(sweeps([*first, *second])) == len(tables([*first, *second])) == 2
    assert {round(found["3"].mean, 6) for found in map(values, sweeps([*first, *second]))} == {0.9, 0.2}


def test_the_two_systems_are_two_tables():
    full = {"system": "transformer", "selection": "all", "visibility": "token", "history_mean": False}
    assert len(sweeps([*sweep("dk", "d_k", {1: 0.5}), *sweep("dk", "d_k", {1: 0.9}, **full)])) == 2


def test_what_an_axis_changes_comes_from_the_axis():
    assert swept("dk") == {"d_k"} and swept("k") == {"top_k"}
    assert swept("curves") == {"curves"}  # k is the same for all of them: 48, or 24, each a sweep of its own
    assert swept("softmax") == {"score", "attention"}
    assert {"short_conv", "local_window", "history_mean", "selection", "visibility", "refine"} == swept("parts")
    assert swept("attention,model.d_model") == {"attention", "d_model"}
    assert swept("task.seq_len") == {"seq_len", "data_fingerprint"}


def test_curves_at_two_numbers_of_keys_stay_apart():
    rows = [*sweep("curves", "curves", {1: 0.9, 3: 0.8}, top_k=48), *sweep("curves", "curves", {1: 0.5}, top_k=24)]
    assert sorted(len(group) for group in sweeps(rows)) == [3, 6]


def test_a_mixer_without_top_k_stands_in_the_sweeps_of_both():
    """dot_product is softmax over all keys: the same run belongs to the sweep at k 32 and to that at k 16."""
    rows = [ablate_row("softmax", "dot_product", 0.7, **SOFTMAX)]
    rows += [ablate_row("softmax", "cauchy", 0.9, top_k=top_k) for top_k in (32, 16)]
    assert [sorted(row.axis_value for row in group) for group in sweeps(rows)] == [["cauchy", "dot_product"]] * 2
    wider = ablate_row("softmax", "dot_product", 0.1, d_k=8, **{k: v for k, v in SOFTMAX.items() if k != "d_k"})
    assert len(sweeps([*rows, wider])) == 3


def test_mixers_of_a_sweep_share_a_table_whatever_width_softmax_has():
    exact = {"attention": "exact_topk", "curves": None, "selection": None, "refine": None}
    rows = [ablate_row("attention", "zeta"), ablate_row("attention", "exact_topk", **exact)]
    rows.append(ablate_row("attention", "softmax", **{**SOFTMAX, "d_k": None}))
    assert [len(group) for group in sweeps(rows)] == [3]
    rows.append(ablate_row("attention", "exact_topk", **{**exact, "top_k": 8}))
    assert sorted(len(group) for group in sweeps(rows)) == [1, 3]


def test_runs_without_a_score_are_counted_and_named():
    rows = [*sweep("dk", "d_k", {1: 0.5, 3: 0.9}), ablate_row("dk", 1, None, seed=4, d_k=1)]
    rows += [ablate_row("dk", 8, None, status="oom", seed=seed, d_k=8) for seed in (0, 1)]
    rows.append(ablate_row("dk", 1, 0.0, slice="pairs=4", d_k=1))
    (table,) = tables(rows)
    by_value = {row[0]: row for row in table.rows}
    assert by_value["1"][1:7] == ("0.5000", "0.0010", "0.4990", "0.5010", "3", "1 failed")
    assert by_value["8"][1:7] == ("-", "-", "-", "-", "0", "2 oom")
    assert "The paper on dk: flat from 3 up" in table.notes[0] and "top_k=32" in table.notes[1]
    assert "d_k=" not in table.notes[1]


def test_trained_models_of_a_base_are_one_table():
    rows = [train_row(seed=0), train_row(seed=1, value=0.8), train_row(seed=2, status="killed"), train_row(d_k=1)]
    rows += [train_row(**SOFTMAX, d_model=256, value=1.0), train_row(slice="pairs=4", value=0.1)]
    narrow, wide = train_tables(rows)
    assert [row[0] for row in narrow.rows] == ["zeta, d_k=3", "zeta, d_k=1"]
    assert narrow.rows[0][1] == "0.8500" and narrow.rows[0][5:8] == ("2", "1 killed", "-")
    assert wide.rows[0][7] == "1.0000"  # the paper's, at this width
    assert train_tables([]) == []


def test_variants_are_one_sweep_whatever_they_differ_in():
    rows = [
        ablate_row("variants", "softmax", **SOFTMAX, tokens_per_s=2000.0),
        ablate_row("variants", "zeta", local_window=32, tokens_per_s=1000.0),
        ablate_row("variants", "long", seq_len=4096, batch_size=8, data_fingerprint="other"),
    ]
    (table,) = tables(rows)
    assert [line[0] for line in table.rows] == ["softmax", "zeta", "long"]
    assert [line[-1] for line in table.rows] == ["2,000", "1,000", "-"] and table.head[-1] == "tokens/s"
    (setting,) = [note for note in table.notes if note.startswith("Setting: ")]
    assert "top_k=32" in setting and "d_model=128" in setting and "steps=3000" in setting
    assert not any(name in setting for name in ("local_window", "seq_len", "batch_size"))

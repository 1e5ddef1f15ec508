"""Scores on questions: what stands in the table, and what the rows say to the two claims."""

from dataclasses import replace

import pytest
from rows import COMMON
from studies.report.made_up import results
from studies.report.test_claims import verdict

from zeta_core.records import ZeroShotRow
from zeta_core.studies.report.zero_shot import guessed, tables


def row(questions="piqa", gamma="trained", value=0.6, *, metric="acc", attention="zeta", stderr=0.01, cut=0):
    return ZeroShotRow(
        **{**COMMON, "task": "language"}, run_id=f"{questions}{gamma}{metric}", seed=0, checkpoint="language-zeta-1",
        attention=attention, d_model=64, num_layers=2, parameters=1000, questions=questions, num_questions=1838,
        metric=metric, gamma=gamma, value=value, stderr=stderr, chance=0.5, num_cut=cut, harness="0.4.13",
    )  # fmt: skip


def test_a_table_a_model():
    (table,) = tables([row(), row(value=0.51, metric="acc_norm", cut=12)])
    assert table.title == "zeta, width 64, 2 layers: language-zeta-1"
    assert table.rows[0] == ("piqa", "trained", "1,838", "acc", "60.0", "1.0", "50.0", "no")
    assert table.rows[1][4:] == ("51.0", "1.0", "50.0", "yes")
    assert any("12 answers" in note for note in table.notes)


@pytest.mark.parametrize(("value", "expected"), [(0.529, True), (0.471, True), (0.531, False), (0.469, False)])
def test_two_standard_errors_tell_from_guessing(value, expected):
    assert guessed(row(value=value, stderr=0.015)) is expected


@pytest.mark.parametrize(("number", "expected"), [(1, True), (4, True), (5, False)])
def test_a_few_wrong_answers_are_like_guessing(number, expected):
    """Of five that are all wrong, guessing's own error is 0.5 / 5**0.5 = 0.224."""
    stderr = None if number == 1 else 0.0
    assert guessed(replace(row(value=0.0), num_questions=number, stderr=stderr)) is expected


def test_scores_without_the_paper_s_are_no_verdict():
    assert verdict("Zero-shot after pre-training", results(zero_shot=[row(), row("boolq")])) == "not shown"
    assert verdict("Zero-shot after pre-training", results(zero_shot=[row(attention="softmax")])) == "not run"


@pytest.mark.parametrize(
    ("trained", "fixed", "expected"),
    [
        (0.6, 0.55, "reproduced"),
        (0.6, 0.609, "reproduced"),
        (0.6, 0.62, "not reproduced"),
        (0.505, 0.51, "not shown"),
    ],
)
def test_gamma_transfers_if_no_other_is_better(trained, fixed, expected):
    rows = [row(value=trained), row(value=fixed, gamma="1"), row("boolq", value=0.9)]
    assert verdict("gamma transfers", results(zero_shot=rows)) == expected


def test_gamma_needs_a_second_one():
    assert verdict("gamma transfers", results(zero_shot=[row()])) == "not run"

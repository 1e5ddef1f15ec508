"""The rules of the Long Range Arena and of WikiText-103, on made-up rows at both sides of their bounds."""

import math

import pytest
from studies.report.made_up import ablate_row, results, train_row
from studies.report.test_claims import verdict

from zeta_core.studies import paper
from zeta_core.studies.report.claims.benchmarks import on_wikitext


def test_long_range_arena():
    at = dict(zip(paper.LRA_TASKS, paper.LRA_ACCURACY["ZETA"], strict=True))
    rows = [train_row(task=task, value=points / 100 - 0.009, examples=2000) for task, points in at.items()]
    assert verdict("Long Range Arena, listops", results(train=rows)) == "reproduced"
    assert verdict("Long Range Arena, average", results(train=rows)) == "reproduced"
    low = [train_row(task=task, value=points / 100 - 0.011, examples=2000) for task, points in at.items()]
    assert verdict("Long Range Arena, listops", results(train=low)) == "not reproduced"
    assert verdict("Long Range Arena, average", results(train=low)) == "not reproduced"
    assert verdict("Long Range Arena, average", results(train=rows[:4])) == "not run"


def test_a_task_made_smaller_says_nothing_of_the_long_range_arena():
    rows = [train_row(task=task, value=0.99, examples=1999) for task in paper.LRA_TASKS]
    assert verdict("Long Range Arena, text", results(train=rows)) == "not shown"
    assert verdict("Long Range Arena, average", results(train=rows)) == "not run"


@pytest.mark.parametrize(("nats", "expected"), [(3.28, "reproduced"), (3.30, "not reproduced")])
def test_perplexity(nats, expected):
    rows = [train_row(task="language", metric="loss", value=nats, source="wikitext103, gpt2_bpe")]
    assert verdict("WikiText-103, 124M", results(train=rows)) == expected


def test_perplexity_of_a_sweep():
    """As experiments/language/ makes them: a run that two axes share counts once."""
    text = {"task": "language", "metric": "loss", "source": "wikitext103, gpt2_bpe"}

    def of(width, nats, axis="variants"):
        return ablate_row(axis, "zeta_paper", nats, d_model=width, run_id=f"run-{width}", **text)

    rows = [of(768, 3.2), of(768, 3.2, axis="attention")]
    (finding,) = on_wikitext(results(ablate=rows))
    assert finding[0] == math.exp(3.2) and len(finding[2]) == 1 and finding[1].startswith("zeta_paper, ")
    assert verdict("WikiText-103, 124M", results(ablate=rows)) == "reproduced"
    start = "WikiText-103: a 239M"
    assert verdict(start, results(ablate=rows)) == "not run"
    assert verdict(start, results(ablate=[*rows, of(1024, 3.1)])) == "reproduced"
    assert verdict(start, results(ablate=[*rows, of(1024, 3.3)])) == "not reproduced"


@pytest.mark.parametrize("source", ["python_stdlib 3.11.7, bytes", "wikitext103, bytes", ""])
def test_perplexities_of_other_text_or_tokens_are_not_compared(source):
    rows = [train_row(task="language", metric="loss", value=1.5, source=source)]
    assert verdict("WikiText-103, 124M", results(train=rows)) == "not run"

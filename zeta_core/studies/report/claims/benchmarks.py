"""Claims on the Long Range Arena and WikiText-103."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from zeta_core.config import kinds
from zeta_core.records import TrainRow
from zeta_core.tasks import TaskConfig

from ... import paper
from ..claim import Claim, Finding, Verdict
from ..rows import by
from ..sections import Results
from ..settings import groups, main_scores
from ..spread import POINT, Spread, counted, spread
from ..train import TRAIN
from .sweeps import setting_of

PERPLEXITY_SLACK = 0.5
WIKITEXT = "wikitext103, gpt2_bpe"
"""The source of rows that the paper's perplexities are compared with."""


def _score(rows: Sequence[TrainRow]) -> Spread:
    return spread((row.status, row.value) for row in rows)


def of_task(results: Results, task: str, attention: str = "zeta") -> list[list[TrainRow]]:
    """Trained models of a mixer on a task, a list for each setting."""
    rows = main_scores(results.of(TRAIN))
    return groups([row for row in rows if row.task == task and row.attention == attention], ())


def accuracy_verdict(found: Spread, printed: float) -> Verdict:
    """reproduced: the mean is at most a point below the paper's."""
    return "not shown" if found.mean is None else "reproduced" if found.mean >= printed - POINT else "not reproduced"


def lra(task: str) -> Callable[[Results], list[Finding]]:
    """ZETA's test accuracy beside the paper's."""
    printed = paper.lra_accuracy(task)["ZETA"] / 100

    def find(results: Results) -> list[Finding]:
        found = []
        for runs in of_task(results, task):
            score = _score(runs)
            if score.mean is not None:
                n, first = counted(score.n, "seed"), runs[0]
                figure = f"{100 * score.mean:.2f} %"
                found.append(Finding(accuracy_verdict(score, printed), figure, setting_of(first), first.device, n))
        return found

    return find


def average(results: Results) -> list[Finding]:
    """The mean over the five tasks, of the best setting of each, on one device."""
    found = []
    rows = [row for row in main_scores(results.of(TRAIN)) if row.task in paper.LRA_TASKS and row.attention == "zeta"]
    for (device,), here in by(rows, "device").items():
        best = []
        for task in paper.LRA_TASKS:
            scores = [_score(runs).mean for runs in groups([row for row in here if row.task == task], ())]
            best.append(max((score for score in scores if score is not None), default=None))
        if None not in best:
            mean = sum(score for score in best if score is not None) / len(best)
            low = min(row.n for row in [_score(runs) for runs in groups(here, ())])
            verdict: Verdict = "reproduced" if mean >= paper.LRA_AVERAGE["ZETA"] / 100 - POINT else "not reproduced"
            found.append(
                Finding(verdict, f"{100 * mean:.2f} %", "best setting of each task", device, counted(low, "seed"))
            )
    return found


def perplexity(results: Results) -> list[Finding]:
    """exp of the test loss in nats a token, of models on WikiText-103 by GPT-2's tokens; others do not compare."""
    found = []
    for runs in of_task(results, "language"):
        if runs[0].source != WIKITEXT:
            continue
        score, first = _score(runs), runs[0]
        if score.mean is not None and first.metric == "loss":
            value = math.exp(score.mean)
            limit = paper.WIKITEXT_PERPLEXITY["ZETA"] + PERPLEXITY_SLACK
            verdict: Verdict = "reproduced" if value <= limit else "not reproduced"
            setting = f"{setting_of(first)}, data {first.data_fingerprint}"
            found.append(Finding(verdict, f"perplexity {value:.1f}", setting, first.device, counted(score.n, "seed")))
    return found


def _train(task: str) -> str:
    return f"`zeta train {task}`" if task in kinds(TaskConfig) else f"none yet: the task {task} is not there"


def _lra_claim(task: str) -> Claim:
    printed = paper.lra_accuracy(task)
    others = ", ".join(f"{name} {score:.2f}" for name, score in printed.items() if name != "ZETA")
    return Claim(
        f"Long Range Arena, {task}: ZETA's accuracy", "Long Range Arena table",
        f"{printed['ZETA']:.2f} % ({others})",
        "mean at most one point below it", _train(task), lra(task),
    )  # fmt: skip


_wiki = paper.WIKITEXT_PERPLEXITY
BENCHMARKS = (
    *(_lra_claim(task) for task in paper.LRA_TASKS),
    Claim(
        "Long Range Arena, average of five tasks: ZETA above the Transformer and the other baselines",
        "Long Range Arena table",
        ", ".join(f"{name} {score:.2f}" for name, score in paper.LRA_AVERAGE.items()) + " %",
        "ZETA's average at most one point below it", "; ".join(sorted({_train(task) for task in paper.LRA_TASKS}))
        if all(task in kinds(TaskConfig) for task in paper.LRA_TASKS) else "none yet: not all five tasks are there",
        average,
    ),
    Claim(
        "WikiText-103, 124M parameters: ZETA's perplexity is that of the Transformer", "table of perplexities",
        ", ".join(f"{name} {value:.1f}" for name, value in _wiki.items()),
        f"at most {PERPLEXITY_SLACK} above ZETA's {_wiki['ZETA']}; the setting says which data and size",
        _train("language"), perplexity,
    ),
    Claim(
        "WikiText-103: a 239M ZETA is lower", "in words", "no figure", "lower than the 124M ZETA's",
        _train("language"),
    ),
    Claim(
        "ZETA against the baselines: " + ", ".join(paper.BASELINES), "all tables", "see the rows above",
        "as the paper orders them in its tables",
        "none yet: no command runs them all on the paper's tasks (`zeta ablate attention --task mqar` trains each)",
    ),
    Claim(
        "Not meant as a drop-in for pre-trained models", "in words", "no figure",
        "a pre-trained model whose attention is replaced by ZETA loses what it had learned",
        "none yet: no command loads other pre-trained models",
    ),
)  # fmt: skip

"""Claims on the Long Range Arena and WikiText-103."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from zeta_core.config import kinds
from zeta_core.records import AblateRow, TrainRow
from zeta_core.tasks import TaskConfig

from ... import paper
from ..ablate import ABLATE
from ..claim import Claim, Finding, Verdict
from ..rows import by
from ..sections import Results
from ..settings import MIXER, groups, main_scores
from ..spread import POINT, Spread, counted, spread
from ..train import TRAIN
from .sweeps import setting_of

PERPLEXITY_SLACK = 0.5
WIKITEXT = "wikitext103, gpt2_bpe"
"""The source of rows that the paper's perplexities are compared with."""
WIKITEXT_FILES = "experiments/language/wikitext103_"
SMALLEST_TEST: int = 2_000
"""Test examples of the smallest of the suite's tasks, ListOps: the presets that a laptop trains have fewer."""


def _score(rows: Sequence[TrainRow]) -> Spread:
    return spread((row.status, row.value) for row in rows)


def of_task(results: Results, task: str, attention: str = "zeta") -> list[list[TrainRow]]:
    """Trained models of a mixer on a task, a list for each setting."""
    rows = main_scores(results.of(TRAIN))
    return groups([row for row in rows if row.task == task and row.attention == attention], ())


def is_whole(row: TrainRow) -> bool:
    """Whether a score is of a test split as large as the suite's, not of a task made smaller."""
    return row.examples is not None and row.examples >= SMALLEST_TEST


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
                verdict = accuracy_verdict(score, printed) if is_whole(first) else "not shown"
                found.append(Finding(verdict, figure, setting_of(first), first.device, n))
        return found

    return find


def average(results: Results) -> list[Finding]:
    """The mean over the five tasks, of the best setting of each, on one device."""
    found = []
    rows = [
        row for row in main_scores(results.of(TRAIN))
        if row.task in paper.LRA_TASKS and row.attention == "zeta" and is_whole(row)
    ]  # fmt: skip
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


def on_wikitext(results: Results) -> list[tuple[float, str, Sequence[TrainRow]]]:
    """ZETA's perplexities on WikiText-103 by GPT-2's tokens, each with its setting and runs; others do not compare.

    exp of the test loss in nats a token; of `zeta train`, and of sweeps' runs, which several axes may share."""
    swept = {row.trained: row for row in main_scores(results.of(ABLATE)) if row.system == "zeta"}
    rows = [*main_scores(results.of(TRAIN)), *swept.values()]
    kept = [row for row in rows if (row.task, row.attention, row.source) == ("language", "zeta", WIKITEXT)]
    found: list[tuple[float, str, Sequence[TrainRow]]] = []
    for runs in groups(kept, ()):
        score, first = _score(runs), runs[0]
        if score.mean is not None and first.metric == "loss":
            name = f"{first.axis_value}, " if isinstance(first, AblateRow) else ""
            setting = f"{name}{setting_of(first)}, data {first.data_fingerprint}"
            found.append((math.exp(score.mean), setting, runs))
    return found


def perplexity(results: Results) -> list[Finding]:
    """Each perplexity beside the paper's."""
    limit = paper.WIKITEXT_PERPLEXITY["ZETA"] + PERPLEXITY_SLACK
    return [
        Finding(
            "reproduced" if value <= limit else "not reproduced", f"perplexity {value:.1f}", setting,
            runs[0].device, counted(_score(runs).n, "seed"),
        )
        for value, setting, runs in on_wikitext(results)
    ]  # fmt: skip


def larger_is_lower(results: Results) -> list[Finding]:
    """Each perplexity of a wider model beside those of the paper's 124M model, the mixer's options and the device
    being the same."""
    found = []
    everything = on_wikitext(results)
    for value, setting, runs in everything:
        options = _options(runs[0])
        for other, _, base in everything:
            if runs[0].d_model > base[0].d_model == paper.WIKITEXT_WIDTH and options == _options(base[0]):
                verdict: Verdict = "reproduced" if value < other else "not reproduced"
                figure = f"perplexity {value:.1f} (at width {base[0].d_model}: {other:.1f})"
                n = counted(min(_score(runs).n, _score(base).n), "seed")
                found.append(Finding(verdict, figure, setting, runs[0].device, n))
    return found


def _options(row: TrainRow) -> list[object]:
    return [row.device, row.short_conv, *(getattr(row, name) for name in MIXER)]


def _train(task: str) -> str:
    there = task in kinds(TaskConfig)
    command = f"`zeta train --config experiments/lra/{task}_zeta.yaml`"
    return command if there else f"none yet: the task {task} is not there"


def _lra_claim(task: str) -> Claim:
    printed = paper.lra_accuracy(task)
    others = ", ".join(f"{name} {score:.2f}" for name, score in printed.items() if name != "ZETA")
    return Claim(
        f"Long Range Arena, {task}: ZETA's accuracy", "Long Range Arena table",
        f"{printed['ZETA']:.2f} % ({others})",
        f"mean at most one point below it, over {SMALLEST_TEST:,} test examples or more", _train(task), lra(task),
    )  # fmt: skip


_wiki = paper.WIKITEXT_PERPLEXITY
BENCHMARKS = (
    *(_lra_claim(task) for task in paper.LRA_TASKS),
    Claim(
        "Long Range Arena, average of five tasks: ZETA above the Transformer and the other baselines",
        "Long Range Arena table",
        ", ".join(f"{name} {score:.2f}" for name, score in paper.LRA_AVERAGE.items()) + " %",
        f"ZETA's average at most one point below it, over {SMALLEST_TEST:,} test examples of each or more",
        "; ".join(sorted({_train(task) for task in paper.LRA_TASKS}))
        if all(task in kinds(TaskConfig) for task in paper.LRA_TASKS) else "none yet: not all five tasks are there",
        average,
    ),
    Claim(
        "WikiText-103, 124M parameters: ZETA's perplexity is that of the Transformer", "table of perplexities",
        ", ".join(f"{name} {value:.1f}" for name, value in _wiki.items()),
        f"at most {PERPLEXITY_SLACK} above ZETA's {_wiki['ZETA']}; the setting says which data and size",
        f"`zeta ablate --config {WIKITEXT_FILES}124m.yaml`", perplexity,
    ),
    Claim(
        "WikiText-103: a 239M ZETA is lower", "in words", "no figure", "lower than that of a ZETA of width "
        f"{paper.WIKITEXT_WIDTH} with the same options",
        f"`zeta ablate --config {WIKITEXT_FILES}239m.yaml`", larger_is_lower,
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

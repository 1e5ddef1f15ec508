"""Claims on questions that a language model was not trained on."""

from __future__ import annotations

from ... import paper
from ..claim import Claim, Finding, Verdict
from ..rows import by
from ..sections import Results
from ..spread import POINT, counted
from ..zero_shot import ZERO_SHOT, guessed

COMMAND = "`zeta eval RUN` after `zeta ablate --config experiments/language/cosmo_124m.yaml`"


def scores(results: Results) -> list[Finding]:
    """The mean accuracy over the sets; the paper's own values are not known, so it is no verdict."""
    found = []
    for (checkpoint, gamma), rows in by(results.of(ZERO_SHOT), "checkpoint", "gamma").items():
        asked = [row for row in rows if row.metric == "acc" and row.value is not None]
        if gamma != "trained" or rows[0].attention != "zeta" or not asked:
            continue
        mean = sum(row.value for row in asked if row.value is not None) / len(asked)
        chance = sum(row.chance for row in asked) / len(asked)
        alike = sum(map(guessed, asked))
        figure = (
            f"{100 * mean:.1f} % over {len(asked)} sets, where guessing comes to {100 * chance:.1f} %; {alike} of "
            "them cannot be told from guessing"
        )
        found.append(Finding("not shown", figure, f"{checkpoint}", rows[0].device, counted(len(asked), "set")))
    return found


def transfers(results: Results) -> list[Finding]:
    """The mean accuracy with gamma as it was trained on the text, beside gamma as training starts it."""
    found = []
    for (checkpoint,), rows in by(results.of(ZERO_SHOT), "checkpoint").items():
        by_gamma = {
            gamma: {row.questions: row for row in group if row.metric == "acc" and row.value is not None}
            for (gamma,), group in by(rows, "gamma").items()
        }
        trained = by_gamma.pop("trained", {})
        for gamma, others in by_gamma.items():
            shared = sorted(trained.keys() & others.keys())
            if not shared:
                continue
            ours = sum(trained[name].value or 0 for name in shared) / len(shared)
            theirs = sum(others[name].value or 0 for name in shared) / len(shared)
            alike = all(guessed(trained[name]) and guessed(others[name]) for name in shared)
            verdict: Verdict = "not shown" if alike else "reproduced" if ours >= theirs - POINT else "not reproduced"
            figure = f"{100 * ours:.1f} % with gamma as trained, {100 * theirs:.1f} % with gamma {gamma}"
            found.append(Finding(verdict, figure, checkpoint, rows[0].device, counted(len(shared), "set")))
    return found


ZERO_SHOT_CLAIMS = (
    Claim(
        f"Zero-shot after pre-training on COSMO: ZETA-122M is comparable with {' and '.join(paper.ZERO_SHOT_MODELS)}",
        f"table over {', '.join(paper.ZERO_SHOT_SETS)}", "values not known to us",
        "no rule without those values: the figure beside what guessing comes to", COMMAND, scores,
    ),
    Claim(
        "gamma transfers to tasks not trained on", "in words", "no figure",
        f"with gamma as trained the mean accuracy over the sets is at most {100 * POINT:.0f} point below that with "
        "any other, on sets where one of them is better than guessing",
        f"{COMMAND}, with `--gamma trained,reset,1`", transfers,
    ),
)  # fmt: skip

"""Claims on d_K, k, scores, gamma and curves: sweeps of ablate.csv."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import mean

from zeta_core.config import kinds
from zeta_core.tasks import TaskConfig

from ... import paper
from ...ablate.config import SEPARATOR, System
from ..ablate import ABLATE, sweeps
from ..claim import Claim, Finding, Verdict
from ..sections import Results
from ..spread import POINT, Spread, compare, counted, means
from .sweeps import PERFECT, Rule, enough, in_sweeps, setting_of

NEAR_PERFECT = 0.95
HURTS = 0.05
EUCLIDEAN = ("cauchy", "negative_euclidean", "inverse_euclidean")
ON: dict[System, str] = {"transformer": "on a Transformer with full attention", "zeta": "on ZETA"}
POINTS = f"{100 * POINT:.0f} point"


def _by_number(found: Mapping[str, Spread], low: float, high: float = float("inf")) -> list[Spread]:
    """The values of a numeric axis between two bounds that have a score."""
    return [spread for value, spread in found.items() if low <= float(value) <= high and spread.mean is not None]


def flat(found: Mapping[str, Spread], low: float, high: float = float("inf")) -> Verdict | None:
    """reproduced: every mean between the bounds is within a point of the best there."""
    inside = _by_number(found, low, high)
    if len(inside) < 2:
        return None
    if not enough(inside):
        return "not shown"
    return "reproduced" if max(means(inside)) - min(means(inside)) <= POINT else "not reproduced"


def low_d_k_hurts(found: Mapping[str, Spread]) -> Verdict | None:
    """reproduced: d_K = 1 is more than 5 points below the best from 3 on; partly: more than one point."""
    one, more = found.get(str(paper.DK_HURTS)), _by_number(found, paper.DK_FLAT_FROM)
    if one is None or one.mean is None or not more:
        return None
    if not enough([one, *more]):
        return "not shown"
    gap = max(means(more)) - one.mean
    return "reproduced" if gap > HURTS else "partly" if gap > POINT else "not reproduced"


def near_perfect(found: Mapping[str, Spread]) -> Verdict | None:
    """reproduced: every d_K from 2 on is at 95 % or above; partly: some are."""
    more = _by_number(found, paper.DK_NEAR_PERFECT_FROM)
    if not more:
        return None
    met = [score >= NEAR_PERFECT for score in means(more)]
    return "reproduced" if all(met) else "partly" if any(met) else "not reproduced"


def best_k(found: Mapping[str, Spread]) -> Verdict | None:
    """reproduced: k = 32 is within a point of the best k measured."""
    best, scored = found.get(str(paper.K_BEST)), [spread for spread in found.values() if spread.mean is not None]
    if best is None or best.mean is None or len(scored) < 2:
        return None
    if not enough([best]):
        return "not shown"
    return "reproduced" if max(means(scored)) - best.mean <= POINT else "not reproduced"


def both_perfect(one: Spread, other: Spread) -> bool:
    """Whether there is no room for one to be better."""
    return all(spread.mean is not None and spread.mean >= PERFECT for spread in (one, other))


def above(pairs: Mapping[tuple[str, str], tuple[Spread, Spread]]) -> Verdict:
    """Of pairs of which the first should be better. reproduced: clearly so in all; partly: in some; not shown: no
    pair can tell, for too few seeds, overlapping intervals, or because both are perfect."""
    found = ["unclear" if both_perfect(*pair) else compare(*pair) for pair in pairs.values()]
    if all(order == "above" for order in found):
        return "reproduced"
    if "above" in found:
        return "partly"
    return "not reproduced" if {"below", "equal"} & set(found) else "not shown"


def above_others(one: str, *others: str) -> Rule:
    """One value of an axis against some others."""

    def rule(found: Mapping[str, Spread]) -> Verdict | None:
        if one not in found or not all(other in found for other in others):
            return None
        return above({(one, other): (found[one], found[other]) for other in others})

    return rule


def euclidean_above_dot(found: Mapping[str, Spread]) -> Verdict | None:
    """Each Euclidean score against dot-product softmax, at each d_K up to 4 (values are `score,d_K`)."""
    pairs = {}
    for d_k in range(1, paper.EUCLIDEAN_UP_TO_DK + 1):
        dot = found.get(f"dot_product{SEPARATOR}{d_k}")
        for score in EUCLIDEAN:
            one = found.get(f"{score}{SEPARATOR}{d_k}")
            if one is not None and dot is not None:
                pairs[f"{score} {d_k}", "dot_product"] = (one, dot)
    return above(pairs) if pairs else None


def curves_work(found: Mapping[str, Spread]) -> Verdict | None:
    """reproduced: three and six curves are at most a point below one; partly: one of them."""
    if not all(str(curves) in found for curves in paper.CURVES):
        return None
    one, *more = (found[str(curves)] for curves in paper.CURVES)
    if one.mean is None or not enough([one, *more]):
        return "not shown"
    met = [score >= one.mean - POINT for score in means(more)]
    return "reproduced" if all(met) else "partly" if any(met) else "not reproduced"


COLLAPSED, EXPLODED = 0.05, 0.95
"""Shares of the entropy of equal weights below and above which it counts as collapsed and as exploded."""


def entropies(results: Results) -> list[Finding]:
    """Mean entropy by gamma, as a share of the logarithm of the number of candidates (top_k keys and the mean)."""
    rows = [row for row in results.of(ABLATE) if (row.axis, row.system, row.slice) == ("gamma", "zeta", "all")]
    found = []
    for sweep in sweeps(rows):
        shares: dict[str, list[float]] = {}
        for row in sweep:
            if row.entropy_nats is not None and row.top_k is not None:
                share = row.entropy_nats / math.log(row.top_k + bool(row.history_mean))
                shares.setdefault(row.axis_value, []).append(share)
        by_value = {value: mean(of_value) for value, of_value in shares.items()}
        if "trained" not in by_value or len(by_value) < 2:
            continue
        inside = {value: COLLAPSED <= share <= EXPLODED for value, share in by_value.items()}
        verdict: Verdict = (
            "partly" if all(inside.values()) else "reproduced" if inside["trained"] else "not reproduced"
        )
        figure = ", ".join(f"{value}: {100 * share:.0f} %" for value, share in by_value.items())
        runs = counted(min(map(len, shares.values())), "seed")
        found.append(Finding(verdict, figure, setting_of(sweep[0]), sweep[0].device, runs))
    return found


def _command(name: str, task: str = "mqar") -> str:
    """The experiment's file, the command if there is none, or that the task is not there yet."""
    if task == "mqar" or (task, name) == ("listops", "dk"):
        return f"`zeta ablate --config experiments/ablate/{task}_{name}.yaml`"
    if task in kinds(TaskConfig):
        return f"`zeta ablate {name} --task {task}`"
    return f"none yet: the task {task} is not there"


def _d_k(system: System, task: str) -> tuple[Claim, ...]:
    where = f"{ON[system]}, {task}"
    as_measured = "flat from 3 up, worse below" + (", near perfect from 2 on" if task == "mqar" else "")
    printed = as_measured if task != "mqar" or system == "transformer" else "not measured there on MQAR"
    shared = (f"ablation of d_K, {'in words' if task == 'mqar' else 'figure'}", printed)
    claims = [
        Claim(f"d_K = 1 hurts ({where})", *shared,
              f"d_K = 1 is more than {100 * HURTS:.0f} points below the best d_K from 3 on; partly: more than one",
              _command("dk", task), in_sweeps("dk", system, low_d_k_hurts, task)),
        Claim(f"d_K from 3 up is flat ({where})", *shared,
              f"all d_K from 3 on are within {POINTS} of the best of them",
              _command("dk", task), in_sweeps("dk", system, lambda found: flat(found, paper.DK_FLAT_FROM), task)),
    ]  # fmt: skip
    if task == "mqar":
        claims.append(
            Claim(f"d_K from 2 up is near perfect ({where})", *shared,
                  f"all d_K from 2 on are at {100 * NEAR_PERFECT:.0f} % or above; partly: some",
                  _command("dk", task), in_sweeps("dk", system, near_perfect, task))
        )  # fmt: skip
    return tuple(claims)


def _scores(system: System) -> Claim:
    printed = "Cauchy above both" if system == "transformer" else "not measured there"
    return Claim(
        f"Cauchy beats negative and inverse Euclidean ({ON[system]})", "in words, MQAR", printed,
        f"more than {POINTS} above, intervals apart, for both; partly: for one", _command("softmax"),
        in_sweeps("softmax", system, above_others(*EUCLIDEAN)),
    )  # fmt: skip


_low, _high = paper.K_FLAT
ABLATION_CLAIMS = (
    *_d_k("transformer", "mqar"),
    *_d_k("zeta", "mqar"),
    *_d_k("zeta", "listops"),
    *_d_k("zeta", "image"),
    _scores("transformer"),
    _scores("zeta"),
    Claim(
        f"Euclidean scores beat the dot product for d_K <= {paper.EUCLIDEAN_UP_TO_DK} ({ON['transformer']})",
        "ablation, in words", "above at each d_K up to 4",
        f"each of the three more than {POINTS} above, intervals apart, at each d_K; partly: some",
        _command("softmax_dk"), in_sweeps(f"softmax{SEPARATOR}dk", "transformer", euclidean_above_dot),
    ),
    Claim(
        f"k from {_low} to {_high} is flat ({ON['zeta']})", "ablation of k, in words", "flat",
        f"all k from {_low} to {_high} are within {POINTS} of the best of them",
        _command("k"), in_sweeps("k", "zeta", lambda found: flat(found, _low, _high)),
    ),
    Claim(
        f"k = {paper.K_BEST} is best ({ON['zeta']})", "in words", f"k = {paper.K_BEST}",
        f"within {POINTS} of the best k measured", _command("k"), in_sweeps("k", "zeta", best_k),
    ),
    Claim(
        f"Trained gamma is better than gamma = {paper.GAMMA_FIXED:g}", "ablation of gamma", "better",
        f"more than {POINTS} above, intervals apart", _command("gamma"),
        in_sweeps("gamma", "zeta", above_others("trained", str(paper.GAMMA_FIXED))),
    ),
    Claim(
        "Three and six Z-order curves that share k work as well as one", "variants, no table", "no figure",
        f"at most {POINTS} below one curve; partly: one of them", _command("curves"),
        in_sweeps("curves", "zeta", curves_work),
    ),
    Claim(
        "Trained gamma prevents collapse or explosion of entropy", "in words", "no figure",
        f"with gamma trained the weights' mean entropy is between {100 * COLLAPSED:.0f} and {100 * EXPLODED:.0f} % "
        "of that of all candidates alike, and with some fixed gamma it is not; partly: with each fixed one too",
        _command("gamma"), entropies,
    ),
)  # fmt: skip

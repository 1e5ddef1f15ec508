"""Claims on locality and recall: rows of locality.csv, from random points or a trained run's own heads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean

from zeta_core.records import LocalityRow

from ... import paper
from ...locality.summary import mean_recall
from ..claim import Claim, Finding, Verdict
from ..locality import LOCALITY, of_points, overlap
from ..rows import by
from ..sections import Results
from ..spread import counted

NEAR = 0.05
"""The paper's range is read off a figure by eye: five points more or less are within it."""
SLACK = 0.01
COMMAND = "`zeta locality` (`make locality`)"
OF_RUN = "`zeta train mqar`, then `zeta locality --checkpoint RUN`"
SOURCE = "figure of locality, its points not described"


def default_clouds(results: Results) -> list[LocalityRow]:
    """Rows of the paper's setting: 64 neighbours, one curve, 12 bits."""
    wanted = (paper.LOCALITY_NEIGHBOURS, 1, 12)
    return [row for row in of_points(results.of(LOCALITY)) if (row.num_neighbours, row.curves, row.bits) == wanted]


def overlaps(d_ks: Sequence[int], seq_len: int) -> Callable[[Results], list[Finding]]:
    """Whether the overlap lies in the paper's range, for every d_K and each distribution that was measured."""

    def find(results: Results) -> list[Finding]:
        found = []
        rows = [row for row in default_clouds(results) if row.seq_len == seq_len and row.d_k in d_ks]
        for (device,), here in by(rows, "device").items():
            inside, texts, seeds = [], [], set()
            for (points,), of_points_ in by(here, "points").items():
                shown = []
                for d_k in d_ks:
                    spread = overlap([row for row in of_points_ if row.d_k == d_k])
                    if spread.mean is None:
                        continue
                    low, high = paper.LOCALITY_OVERLAP[d_k][seq_len]
                    inside.append(low - NEAR <= spread.mean <= high + NEAR)
                    shown.append(f"{100 * spread.mean:.0f}")
                    seeds.add(spread.n)
                texts.append(f"{points} {', '.join(shown)}")
            if inside:
                verdict: Verdict = "reproduced" if all(inside) else "partly" if any(inside) else "not reproduced"
                setting = f"{seq_len:,} points, {paper.LOCALITY_NEIGHBOURS} neighbours, one curve"
                found.append(Finding(verdict, f"{'; '.join(texts)} %", setting, device, counted(min(seeds), "seed")))
        return found

    return find


def recall(results: Results) -> list[Finding]:
    """Mean recall over the layers and heads of each checkpoint, over all queries and over those with a choice."""
    found = []
    rows = [row for row in results.of(LOCALITY) if row.checkpoint and row.head is not None]
    for (device, checkpoint), here in by(rows, "device", "checkpoint").items():
        everywhere, choosing = mean_recall(here), mean_recall(here, "recall_choosing")
        first = here[0]
        setting = f"{checkpoint}: {first.task}, d_K {first.d_k}, k {first.top_k}, {first.seq_len} tokens"
        n = counted(len(here), "head")
        if everywhere is None or choosing is None:
            found.append(Finding("not shown", "no query has a choice", setting, device, n))
            continue
        met = [share > paper.LOCALITY_RECALL for share in (everywhere, choosing)]
        verdict: Verdict = "reproduced" if all(met) else "partly" if any(met) else "not reproduced"
        text = f"{100 * everywhere:.1f} %; {100 * choosing:.1f} % of queries with a choice"
        found.append(Finding(verdict, text, setting, device, n))
    return found


def several_heads(results: Results) -> list[Finding]:
    """Measured share of keys that all heads miss, against p^heads, in each layer and for each kind of key."""
    found = []
    rows = [row for row in results.of(LOCALITY) if row.checkpoint and row.head is None]
    for (device, checkpoint), here in by(rows, "device", "checkpoint").items():
        known = [
            (row.miss, row.miss_all_predicted, row.miss_all_measured) for row in here
            if None not in (row.miss, row.miss_all_predicted, row.miss_all_measured)
        ]  # fmt: skip
        if not known:
            continue
        one, predicted, measured = (
            mean(float(share or 0) for share in column) for column in zip(*known, strict=True)
        )
        as_said = all((share or 0) <= (guess or 0) + SLACK for _, guess, share in known)
        verdict: Verdict = "reproduced" if as_said else "partly" if measured < one - SLACK else "not reproduced"
        if one <= SLACK:
            verdict = "not shown"
        text = f"one head misses {100 * one:.1f} %, all miss {100 * measured:.1f} % (p^h: {100 * predicted:.1f} %)"
        setting = f"{checkpoint}: {here[0].num_heads} heads"
        found.append(Finding(verdict, text, setting, device, f"{len(known)} layers and kinds of keys"))
    return found


def distances(results: Results) -> list[Finding]:
    """Overlap of points whose neighbours were taken in 128 dimensions, before a random map to 3, against points that
    lie in 3 dimensions: what the curve alone loses is in both."""
    found = []
    rows = [row for row in default_clouds(results) if row.d_k == 3]
    for (device, seq_len), here in by(rows, "device", "seq_len").items():
        mapped, direct = (overlap([row for row in here if row.points == name]) for name in ("projected", "gaussian"))
        if mapped.mean is None or direct.mean is None:
            continue
        chance = paper.LOCALITY_NEIGHBOURS / (seq_len - 1)
        kept = (mapped.mean - chance) / (direct.mean - chance)
        verdict: Verdict = "reproduced" if kept >= 0.9 else "partly" if kept >= 0.5 else "not reproduced"
        after, before, by_chance = (f"{100 * share:.0f} %" for share in (mapped.mean, direct.mean, chance))
        text = f"{after} after the map, {before} without one ({by_chance} by chance)"
        setting = f"{seq_len:,} points, a random linear map; the trained projection is not measured"
        found.append(Finding(verdict, text, setting, device, counted(mapped.n, "seed")))
    return found


def _overlap_claim(d_ks: tuple[int, ...], seq_len: int) -> Claim:
    low, high = (f"{100 * end:.0f}" for end in paper.LOCALITY_OVERLAP[d_ks[0]][seq_len])
    several = f"{d_ks[0]} to {d_ks[-1]}" if len(d_ks) > 1 else str(d_ks[0])
    return Claim(
        f"Of 64 true neighbours, found among 64 on the curve: d_K {several}, N {seq_len:,}",
        SOURCE,
        f"about {low} %" if low == high else f"{low} to {high} %",
        f"the mean is in the range, {100 * NEAR:.0f} points more or less, for each d_K and distribution; "
        "partly: for some",
        COMMAND,
        overlaps(d_ks, seq_len),
    )


_miss, _heads = paper.HEADS_MISS
LOCALITY_CLAIMS = (
    *(_overlap_claim(d_ks, seq_len) for d_ks in ((1, 2, 3), (32,), (128,)) for seq_len in (512, 2048)),
    Claim(
        "Over 60 % of the true top-k are found on average",
        "in words",
        f"over {100 * paper.LOCALITY_RECALL:.0f} %",
        "mean recall over all layers and heads is above it, over all queries and over those that see more than k "
        "keys; partly: over one of them",
        OF_RUN,
        recall,
    ),
    Claim(
        "Several heads make up for a miss: all h heads miss with probability p^h",
        "in words",
        f"p = {_miss}, {_heads} heads: {100 * _miss**_heads:.2f} %",
        "measured at most one point above p^h in every layer and kind of key; partly: fewer misses than one head's",
        OF_RUN,
        several_heads,
    ),
    Claim(
        "The projection keeps distances as random projections (Johnson-Lindenstrauss) promise",
        "in words",
        "no figure",
        "a random map from 128 dimensions to 3 keeps 90 % of the overlap that points in 3 dimensions have, less what "
        "chance gives; partly: half",
        COMMAND,
        distances,
    ),
)

"""Each rule on made-up rows at both sides of its bounds."""

import re
from pathlib import Path

import pytest
from rows import bench_row
from studies.report.made_up import GPU, SOFTMAX, ablate_row, head_row, locality_row, results, sweep, train_row

from zeta_core.studies.report.claim import Claim, Finding, judge
from zeta_core.studies.report.claims import CLAIMS
from zeta_core.studies.report.claims.ablations import low_d_k_hurts
from zeta_core.studies.report.sections import Results
from zeta_core.studies.report.spread import compare, spread

ROOT = Path(__file__).parents[3]
ALL = [claim for claims in CLAIMS.values() for claim in claims]
FULL = {"system": "transformer", "selection": "all", "visibility": "token", "history_mean": False}


def verdict(start, rows):
    """Of the one claim whose text begins so."""
    (claim,) = [claim for claim in ALL if claim.text.startswith(start)]
    return judge(claim, rows).verdict


def of(*values):
    return spread(("ok", value) for value in values)


def test_every_claim_says_what_it_takes():
    assert len({claim.text for claim in ALL}) == len(ALL)
    for claim in ALL:
        assert claim.rule and claim.paper and claim.source and claim.command
        assert judge(claim, Results({})) == judge(Claim("", "", "", "", ""), Results({}))
        assert judge(claim, Results({})).verdict == "not run"
        assert all((ROOT / file).exists() for file in re.findall(r"experiments/\S+\.yaml", claim.command))


def test_when_two_scores_differ():
    assert compare(of(0.9, 0.92), of(0.8, 0.82)) == "above"
    assert compare(of(0.8, 0.82), of(0.9, 0.92)) == "below"
    assert compare(of(0.9, 0.9), of(0.891, 0.891)) == "equal"
    assert compare(of(0.9, 0.9), of(0.889, 0.889)) == "above"
    assert compare(of(0.7, 0.99), of(0.6, 0.9)) == "unclear"  # intervals overlap
    assert compare(of(0.9), of(0.1)) == "unclear"  # one seed


def test_settings_that_disagree_are_partly():
    def judged(*verdicts):
        found = [Finding(verdict, "", "", "A, 2 threads" if verdict == "partly" else GPU, "") for verdict in verdicts]
        return judge(Claim("", "", "", "", "", lambda _: found), Results({}))

    assert judged("reproduced", "not reproduced").verdict == "partly"
    assert judged("reproduced", "not shown").verdict == "reproduced"
    assert judged("not shown").verdict == "not shown"
    found = judged("not shown", "partly", "reproduced").findings
    assert [finding.verdict for finding in found] == ["reproduced", "partly", "not shown"]  # the GPU's first


def timed(zeta, flash, lengths=(4096, 8192, 65_536), **changes):
    """Rows of both providers; functions of the length."""
    shared = {"preset": "paper", "timing": "graph", "device": GPU, **changes}
    return [
        bench_row(provider=name, seq_len=length, time_ms=float(ms(length)), run_id=f"{name}{length}{mode}", mode=mode,
                  **shared)
        for mode in ("forward", "forward_backward") for length in lengths
        for name, ms in (("zeta_triton", zeta), ("sdpa_flash", flash))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("start", "ratio", "expected"),
    [
        ("Forward at 65,536 tokens is", 9.5, "reproduced"),
        ("Forward at 65,536 tokens is", 9.3, "partly"),
        ("Forward at 65,536 tokens is", 0.9, "not reproduced"),
        ("Forward + backward", 11.7, "reproduced"),
        ("Forward + backward", 11.5, "partly"),
        ("Forward + backward", 1.0, "not reproduced"),
    ],
)
@pytest.mark.parametrize("stem", ["bench", "bench_operator"])
def test_speed_ups(start, ratio, expected, stem):
    assert verdict(start, results(**{stem: timed(lambda n: n, lambda n: ratio * n)})) == expected


def test_a_speed_up_needs_the_longest_length_and_both_sides_timed_alike():
    start = "Forward at 65,536 tokens is"
    assert verdict(start, results(bench=timed(lambda n: n, lambda n: 20 * n, lengths=(4096, 8192)))) == "not run"
    eager = timed(lambda n: n, lambda n: 5 * n, timing="eager")
    graph = [row for row in timed(lambda n: n / 9, lambda n: n) if row.provider == "zeta_triton"]
    assert verdict(start, results(bench=[*eager, *graph])) == "partly"  # Flash has no graph: eager against eager
    other = timed(lambda n: n, lambda n: 2 * n, points="equal")
    assert verdict(start, results(bench=other)) == "not run"


def test_growth_and_crossover():
    linear, square = (lambda n: n / 1000), (lambda n: n * n / 1000 / 8000)
    assert verdict("ZETA's time grows", results(bench=timed(linear, square))) == "reproduced"
    assert verdict("ZETA's time grows", results(bench=timed(lambda n: n**1.21, square))) == "not reproduced"
    assert verdict("ZETA's time grows", results(bench=timed(linear, lambda n: n**1.6))) == "partly"
    assert verdict("ZETA is faster than Flash from", results(bench=timed(linear, square))) == "reproduced"
    late = timed(linear, lambda n: n * n / 1000 / 9000)
    assert verdict("ZETA is faster than Flash from", results(bench=late)) == "partly"
    never = timed(linear, lambda n: n / 1001)
    assert verdict("ZETA is faster than Flash from", results(bench=never)) == "not reproduced"


@pytest.mark.parametrize(("mib", "expected"), [(172.0, "reproduced"), (174.0, "not reproduced")])
def test_memory(mib, expected):
    rows = timed(lambda n: n, lambda n: n, timing="eager")
    rows = [bench_row(**{**row.__dict__, "peak_mib": mib if "zeta" in row.provider else 100.0}) for row in rows]
    assert verdict("Forward at 65,536 needs more memory", results(bench=rows)) == expected


def test_plain_torch_and_mamba():
    ours = timed(lambda n: n, lambda n: n, timing="eager")
    naive = [bench_row(provider="naive", preset="paper", device=GPU, seq_len=4096)]
    plain = "Attention in plain torch"
    assert verdict(plain, results(bench=[*ours, *naive])) == "not shown"
    ended = bench_row(provider="naive", preset="paper", device=GPU, seq_len=8192, status="oom", time_ms=None)
    assert verdict(plain, results(bench=[*ours, *naive, ended])) == "reproduced"
    skipped = {"seq_len": 8192, "status": "skipped", "time_ms": None}
    for reason, expected in (("needs 386.0 GiB, 139.3 are free", "reproduced"), ("not installed", "not shown")):
        untried = bench_row(provider="naive", preset="paper", device=GPU, reason=reason, **skipped)
        assert verdict(plain, results(bench=[*ours, *naive, untried])) == expected
    graph = bench_row(provider="naive", preset="paper", device=GPU, seq_len=8192, timing="graph")
    assert verdict(plain, results(bench=[*ours, *naive, ended, graph])) == "partly"
    runs = bench_row(provider="naive", preset="paper", device=GPU, seq_len=65_536)
    assert verdict(plain, results(bench=[*ours, *naive, runs])) == "not reproduced"
    for factor, expected in ((1.1, "reproduced"), (0.9, "not reproduced")):
        mamba = bench_row(provider="mamba", preset="paper", device=GPU, seq_len=65_536, time_ms=factor * 65_536)
        assert verdict("Mamba's forward", results(bench=[*ours, mamba])) == expected


@pytest.mark.parametrize(
    ("overlaps", "expected"),
    [((0.76, 0.85, 0.94), "reproduced"), ((0.74, 0.85, 0.9), "partly"), ((0.96, 0.7, 0.5), "not reproduced")],
)
def test_overlaps(overlaps, expected):
    rows = [
        locality_row(d_k=d_k, overlap=overlap, seed=seed)
        for d_k, overlap in enumerate(overlaps, 1) for seed in (0, 1)
    ]  # fmt: skip
    start = "Of 64 true neighbours, found among 64 on the curve: d_K 1 to 3, N 512"
    assert verdict(start, results(locality=rows)) == expected
    assert verdict(start, results(locality=[locality_row(num_neighbours=16)])) == "not run"
    assert verdict(start, results(locality=[locality_row(bits=4)])) == "not run"


def test_recall():
    def recall(everywhere, choosing):
        rows = [head_row(head, recall=everywhere, recall_choosing=choosing) for head in (0, 1)]
        return verdict("Over 60 %", results(locality=rows))

    assert recall(0.61, 0.61) == "reproduced"
    assert recall(0.61, 0.6) == "partly"
    assert recall(0.6, 0.6) == "not reproduced"
    assert recall(1.0, None) == "not shown"


def test_several_heads():
    def heads(one, predicted, measured):
        row = head_row(None, miss=one, miss_all_predicted=predicted, miss_all_measured=measured)
        return verdict("Several heads", results(locality=[row]))

    assert heads(0.4, 0.16, 0.169) == "reproduced"
    assert heads(0.4, 0.16, 0.18) == "partly"
    assert heads(0.4, 0.16, 0.395) == "not reproduced"
    assert heads(0.01, 0.0, 0.0) == "not shown"


def test_distances():
    def kept(mapped, direct=0.526):
        rows = [locality_row(points="projected", overlap=mapped), locality_row(points="gaussian", overlap=direct)]
        return verdict("The projection keeps", results(locality=rows))

    assert [kept(0.52), kept(0.4), kept(0.2)] == ["reproduced", "partly", "not reproduced"]


def parity(zeta, softmax, seeds=2, **changes):
    rows = [train_row(value=zeta, seed=seed, d_model=256) for seed in range(seeds)]
    rows += [train_row(value=softmax, seed=seed, d_model=256, **{**SOFTMAX, **changes}) for seed in range(seeds)]
    return verdict("ZETA matches attention", results(train=rows))


def test_parity_with_attention():
    assert parity(0.9991, 1.0) == "reproduced"
    assert parity(0.998, 1.0) == "partly"  # within a point of attention, short of 99.9 %
    assert parity(0.97, 0.99) == "not reproduced"
    assert parity(0.3, 0.6) == "not shown"  # attention itself has not learned it
    assert parity(1.0, 1.0, seeds=1) == "not shown"
    assert parity(1.0, 1.0, steps=20) == "not shown"  # softmax of another training is no comparison
    rows = sweep("attention,model.d_model", "d_model", {128: 0.2, 256: 1.0})
    assert verdict("ZETA matches attention", results(ablate=rows)) == "not shown"
    assert verdict("ZETA matches attention", results(ablate=sweep("dk", "d_k", {3: 1.0}, d_model=256))) == "not run"


def d_k(means, start, **changes):
    return verdict(start, results(ablate=sweep("dk", "d_k", means, **changes)))


def test_d_k():
    hurts, flat, near = (
        f"d_K {words} (on ZETA, mqar)" for words in ("= 1 hurts", "from 3 up is flat", "from 2 up is near perfect")
    )
    assert d_k({1: 0.84, 3: 0.9}, hurts) == "reproduced"
    assert d_k({1: 0.87, 3: 0.9}, hurts) == "partly"
    assert d_k({1: 0.895, 3: 0.9}, hurts) == "not reproduced"
    assert d_k({1: 0.3, 3: 0.9, 8: 0.909}, flat) == "reproduced"
    assert d_k({1: 0.3, 3: 0.9, 8: 0.911}, flat) == "not reproduced"
    assert d_k({1: 0.3, 3: 0.9}, flat) == "not run"
    assert d_k({1: 0.3, 2: 0.951, 3: 0.96}, near) == "reproduced"
    assert d_k({1: 0.3, 2: 0.94, 3: 0.96}, near) == "partly"
    assert d_k({1: 0.3, 2: 0.94, 3: 0.94}, near) == "not reproduced"


def test_a_sweep_that_cannot_tell_reproduces_nothing():
    flat = "d_K from 3 up is flat (on ZETA, mqar)"
    easy = {1: 0.9999, 2: 1.0, 3: 1.0, 8: 1.0}
    assert d_k(easy, flat) == d_k(easy, "d_K = 1 hurts (on ZETA, mqar)") == "not shown"
    assert d_k({1: 0.01, 3: 0.02, 8: 0.02}, flat) == "not shown"  # nothing was learned
    assert d_k({1: 0.3, 3: 0.9, 8: 0.9}, flat, seeds=1) == "not shown"
    assert low_d_k_hurts({"1": of(0.1, 0.1), "3": spread([("failed", None)])}) is None


def test_d_k_on_the_transformer_is_a_claim_of_its_own():
    rows = results(ablate=sweep("dk", "d_k", {1: 0.5, 3: 0.9, 8: 0.9}, **FULL))
    assert verdict("d_K = 1 hurts (on a Transformer", rows) == "reproduced"
    assert verdict("d_K = 1 hurts (on ZETA, mqar)", rows) == "not run"


def scores(**means):
    return results(ablate=sweep("softmax", "score", means))


def test_scores():
    start = "Cauchy beats negative and inverse Euclidean (on ZETA)"
    assert verdict(start, scores(cauchy=0.9, negative_euclidean=0.88, inverse_euclidean=0.8)) == "reproduced"
    assert verdict(start, scores(cauchy=0.9, negative_euclidean=0.893, inverse_euclidean=0.8)) == "partly"
    assert verdict(start, scores(cauchy=0.8, negative_euclidean=0.9, inverse_euclidean=0.9)) == "not reproduced"
    assert verdict(start, scores(cauchy=0.9, negative_euclidean=0.8)) == "not run"
    perfect = {"cauchy": 1.0, "negative_euclidean": 1.0, "inverse_euclidean": 1.0, "normalized_dot": 0.2}
    assert verdict(start, scores(**perfect)) == "not shown"


def test_euclidean_scores_against_the_dot_product():
    def against(dot, cauchy=0.9):
        rows = []
        for value, mean in (("cauchy,3", cauchy), ("negative_euclidean,3", 0.9), ("dot_product,3", dot)):
            own = SOFTMAX if value.startswith("dot") else {**FULL, "score": value.partition(",")[0]}
            changes = {**own, "system": "transformer"}
            rows += [ablate_row("softmax,dk", value, mean, seed=seed, **changes) for seed in (0, 1)]
        return verdict("Euclidean scores beat", results(ablate=rows))

    assert [against(0.8), against(0.8, cauchy=0.8), against(0.9)] == ["reproduced", "partly", "not reproduced"]


def test_k():
    def k(means):
        rows = results(ablate=sweep("k", "top_k", means))
        return verdict("k from 16 to 48 is flat", rows), verdict("k = 32 is best", rows)

    assert k({2: 0.1, 16: 0.9, 32: 0.905, 48: 0.9}) == ("reproduced", "reproduced")
    assert k({2: 0.1, 16: 0.8, 32: 0.9, 48: 0.9}) == ("not reproduced", "reproduced")
    assert k({2: 0.95, 16: 0.9, 32: 0.9}) == ("reproduced", "not reproduced")


def test_entropy():
    """The entropy of 33 equal weights is 3.5 nats."""

    def entropy(trained, fixed):
        rows = [
            row
            for value, nats in (("trained", trained), ("1.0", fixed))
            for row in sweep("gamma", "gamma", {value: 0.9}, entropy_nats=nats)
        ]
        return verdict("Trained gamma prevents collapse", results(ablate=rows))

    assert entropy(2.0, 3.45) == "reproduced" and entropy(2.0, 0.1) == "reproduced"
    assert entropy(2.0, 2.5) == "partly"
    assert entropy(0.1, 2.0) == "not reproduced" and entropy(3.45, 3.45) == "not reproduced"
    assert entropy(None, None) == "not run"


def test_gamma_and_curves():
    def gamma(means):
        return verdict("Trained gamma is better", results(ablate=sweep("gamma", "gamma", means)))

    assert gamma({"trained": 0.9, "1.0": 0.8}) == "reproduced"
    assert gamma({"trained": 0.9, "1.0": 0.895}) == "not reproduced"
    assert gamma({"trained": 0.9, "0.5": 0.8}) == "not run"

    def curves(three, six):
        rows = sweep("curves", "curves", {1: 0.9, 3: three, 6: six}, top_k=48)
        return verdict("Three and six", results(ablate=rows))

    assert [curves(0.95, 0.891), curves(0.9, 0.8), curves(0.8, 0.8)] == ["reproduced", "partly", "not reproduced"]

"""Mean, spread and interval of made-up rows."""

import numpy as np
import pytest

from zeta_core.studies.ablate.summary import bootstrap, summarise


def row(axis_value, value, status="ok", system="zeta", part="all", reachable="1.0"):
    return {
        "axis_value": axis_value, "value": value, "status": status, "system": system, "slice": part,
        "metric": "accuracy", "reachable": reachable,
    }  # fmt: skip


def test_seeds_of_a_value_are_one_cell():
    rows = [
        row("1", "0.5"), row("3", "0.9", reachable="0.7"), row("1", "0.7"), row("1", "", status="failed"),
        row("1", "0.1", part="pairs=4"), row("1", "1.0", system="transformer"),
    ]  # fmt: skip
    one, three, transformer = summarise(rows)
    assert (one.axis_value, one.n, one.failed) == ("1", 2, 1)
    assert one.mean == pytest.approx(0.6) and one.std == pytest.approx(np.std([0.5, 0.7], ddof=1))
    assert (three.n, three.std, three.low, three.reachable) == (1, None, None, 0.7)
    assert (transformer.system, transformer.mean) == ("transformer", 1.0)


def test_other_slices_are_cells_of_their_own():
    rows = [row("1", "0.5"), row("1", "0.1", part="pairs=4"), row("1", "0.3", part="pairs=4")]
    assert [(cell.part, cell.mean) for cell in summarise(rows, ("all", "pairs=4"))] == [
        ("all", 0.5),
        ("pairs=4", 0.2),
    ]


def test_a_value_whose_runs_all_failed():
    (cell,) = summarise([row("1e+30", "", status="failed", reachable="")])
    assert (cell.n, cell.failed, cell.mean, cell.reachable) == (0, 1, None, None)


def test_the_interval_covers_the_mean_as_often_as_it_says():
    generator = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        low, high = bootstrap(generator.normal(3, 1, size=40))
        hits += low <= 3 <= high
    assert 0.9 <= hits / 200 <= 0.99
    assert bootstrap(np.array([2.0, 2.0, 2.0])) == (2.0, 2.0)
    assert bootstrap(np.array([1.0, 3.0])) == bootstrap(np.array([1.0, 3.0]))

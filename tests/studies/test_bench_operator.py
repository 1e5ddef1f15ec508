"""The operator's benchmark: what is timed, and what a row says."""

import csv

import pytest
import torch

from zeta_core.studies import bench_operator as bench

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(bench, "SECONDS_A_ROW", 0.0)


def small(provider, mode="forward", **other):
    return bench.Case(provider, mode, 32, heads=2, d_v=8, top_k=4, **other)


def test_points_are_what_their_names_say():
    found = {name: bench.points(small("zeta_reference", points=name), CPU) for name in bench.POINTS}
    assert len(found["vocabulary"][0].reshape(-1, 3).unique(dim=0)) <= 64
    assert len(torch.cat(found["equal"]).reshape(-1, 3).unique(dim=0)) == 1
    assert ((found["clusters"][0] - 0.5).abs() > 0.39).all()
    assert (found["drifting"][1][..., 16:, :].mean() - found["drifting"][1][..., :16, :].mean()) > 0.4
    assert all(side.min() >= 0 and side.max() <= 1 for pair in found.values() for side in pair)


def test_forward_is_without_gradients_and_backward_gives_all_of_them():
    assert not bench.call_of(small("zeta_reference"), CPU)().requires_grad
    shapes = [g.shape for g in bench.call_of(small("zeta_reference", "forward_backward"), CPU)()]
    assert shapes == [(1, 2, 32, 3), (1, 2, 32, 3), (1, 2, 32, 8), ()]
    assert len(bench.call_of(small("sdpa_flash", "forward_backward"), CPU)()) == 3


def test_a_provider_that_cannot_run_is_a_row(capsys):
    row = bench.measure(small("sdpa_cudnn"), CPU)
    assert (row.status, row.time_ms) == ("skipped", None)
    assert "sdpa_cudnn" in capsys.readouterr().out


def test_rows_are_written_as_they_come(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bench", "--seq", "32", "--out", str(tmp_path)])
    bench.main()
    with (tmp_path / "results" / "bench_operator.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["provider"], row["mode"]) for row in rows] == [
        ("zeta_reference", "forward"),
        ("sdpa_flash", "forward"),
        ("zeta_reference", "forward_backward"),
        ("sdpa_flash", "forward_backward"),
    ]
    assert all(float(row["time_ms_p20"]) <= float(row["time_ms"]) <= float(row["time_ms_p80"]) for row in rows)
    assert len({row["run_id"] for row in rows}) == 4

"""Rows are written as they come, whatever becomes of each."""

import csv

import pytest

from zeta_core.errors import RequestError
from zeta_core.studies.bench import study
from zeta_core.studies.bench.config import make_bench
from zeta_core.studies.bench.measure import Measurement
from zeta_core.studies.bench.study import run_bench


class Watching:
    def __init__(self):
        self.rows, self.total = [], 0

    def begin(self, total, device):
        self.total = total

    def next(self, request):
        pass

    def row(self, row):
        self.rows.append(row)

    def say(self, text):
        pass


FLAGS = {
    "--seq": ("seq_lens", (32,)),
    "--k": ("top_k", 4),
    "--budget": ("budget_s", 0.01),
    "--providers": ("providers", ("zeta_reference", "sdpa_flash", "sdpa_cudnn")),
}


def read(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_rows(tmp_path):
    watching = Watching()
    result = run_bench(make_bench(flags=FLAGS), out=tmp_path, monitor=watching)
    rows = read(tmp_path / "results" / "bench.csv")
    assert len(rows) == len(result.rows) == watching.total == 6 and not result.bad
    assert [(row["provider"], row["mode"], row["status"]) for row in rows] == [
        ("zeta_reference", "forward", "ok"),
        ("zeta_reference", "forward_backward", "ok"),
        ("sdpa_flash", "forward", "ok"),
        ("sdpa_flash", "forward_backward", "ok"),
        ("sdpa_cudnn", "forward", "skipped"),
        ("sdpa_cudnn", "forward_backward", "skipped"),
    ]
    assert all(float(row["time_ms_p20"]) <= float(row["time_ms"]) <= float(row["time_ms_p80"]) for row in rows[:4])
    assert len({row["run_id"] for row in rows}) == 6
    ours, flash = rows[0], rows[2]
    assert (ours["d_k"], ours["top_k"], ours["num_chunks"], ours["history_mean"]) == ("3", "4", "8", "True")
    assert (flash["d_k"], flash["top_k"], flash["num_chunks"], flash["history_mean"]) == ("64", "", "", "")
    assert flash["backend"].startswith("FLASH_ATTENTION, torch ") and ours["cache"] == "warm"
    assert "CUDA" in rows[4]["reason"]


def test_a_second_run_replaces_its_rows_and_other_settings_stay(tmp_path):
    flags = {"--providers": ("providers", ("sdpa_flash",)), "--mode": ("modes", ("forward",))}
    for length in (32, 48, 32):
        run_bench(make_bench(flags={**flags, "--seq": ("seq_lens", (length,))}), out=tmp_path, monitor=Watching())
    assert [row["seq_len"] for row in read(tmp_path / "results" / "bench.csv")] == ["48", "32"]


def test_the_operator_preset_has_a_file_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(study.Worker, "measure", lambda *_: Measurement("failed", "not today"))
    result = run_bench(make_bench(preset="operator"), out=tmp_path, monitor=Watching())
    assert result.table == tmp_path / "results" / "bench_operator.csv"
    assert len(result.bad) == len(result.rows) == len(read(result.table)) > 0


def test_nothing_is_timed_where_nothing_can_be_written(tmp_path):
    (tmp_path / "results").write_text("a file")
    with pytest.raises(RequestError, match="is no folder"):
        run_bench(make_bench(flags=FLAGS), out=tmp_path, monitor=Watching())

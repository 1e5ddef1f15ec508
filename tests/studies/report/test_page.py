"""The page: what is committed is what the rows give, and every table and figure is on it."""

import re
from pathlib import Path

import pytest
from rows import bench_row
from studies.report.made_up import GPU, head_row, locality_row, sweep, train_row

from zeta_core.errors import RequestError
from zeta_core.records import append_rows
from zeta_core.studies.readme import fill
from zeta_core.studies.report.bench import tables as bench_tables
from zeta_core.studies.report.locality import tables as locality_tables
from zeta_core.studies.report.study import make_report, write_report
from zeta_core.studies.report.table import markdown

ROOT = Path(__file__).parents[3]


def test_the_committed_report_is_what_the_committed_rows_give():
    """`make report` after a change of results/ or of the report."""
    assert (ROOT / "REPORT.md").read_text() == make_report(ROOT, ROOT / "results").text


def test_the_committed_figures_are_those_of_the_report():
    named = set(re.findall(r"\(results/figures/(.*?)\.png\)", (ROOT / "REPORT.md").read_text()))
    assert named == {path.stem for path in (ROOT / "results" / "figures").glob("*.png")}


def test_the_tables_of_the_readme_are_those_of_the_committed_rows():
    text = (ROOT / "README.md").read_text()
    assert fill(text, ROOT / "results") == text


def test_markdown_cells_stay_cells():
    assert markdown(("a", "b"), [("1 | 2", "x\ny")]) == "| a | b |\n|---|---|\n| 1 \\| 2 | x y |"


@pytest.fixture
def folders(tmp_path):
    here, committed = tmp_path / "out", tmp_path / "committed"
    append_rows(here / "results" / "ablate.csv", sweep("dk", "d_k", {1: 0.5, 3: 0.9, 8: 0.9}))
    append_rows(committed / "ablate.csv", sweep("dk", "d_k", {1: 0.88, 3: 0.9, 8: 0.9}, device="Another GPU"))
    append_rows(here / "results" / "train.csv", [train_row()])
    return here, committed


def test_both_folders_stand_beside_each_other(folders):
    here, committed = folders
    report = make_report(here, committed)
    (line,) = [line for line in report.text.splitlines() if "d_K = 1 hurts (on ZETA, mqar)" in line and "**" in line]
    verdict, _, _, evidence, ours, devices, command = [cell.strip() for cell in line.strip("|").split(" | ")]
    assert verdict == "**partly**" and "1: 0.880, 3: 0.900, 8: 0.900" in evidence and "3 seeds" in evidence
    assert ours.startswith("**reproduced**: 1: 0.500") and devices == f"Another GPU, {GPU}"
    assert command == "`zeta ablate --config experiments/ablate/mqar_dk.yaml`"
    assert "## Trained models" in report.text and "## Ablations" in report.text
    assert not (here / "REPORT.md").exists()


def test_of_many_settings_some_are_shown_and_the_rest_counted(folders):
    here, committed = folders
    for steps in (10, 20, 30, 40):
        append_rows(committed / "ablate.csv", sweep("dk", "d_k", {1: 0.5, 3: 0.9, 8: 0.9}, steps=steps))
    text = make_report(here, committed).text
    assert (
        "and 1 more setting |" in text and "[mqar, 512 tokens, width 128, 10 steps, 3 seeds]: reproduced<br>" in text
    )


def test_this_machine_decides_where_the_evidence_cannot(folders):
    here, committed = folders
    (committed / "ablate.csv").unlink()
    append_rows(committed / "ablate.csv", sweep("dk", "d_k", {1: 1.0, 3: 1.0, 8: 1.0}))
    (line,) = [
        line for line in make_report(here, committed).lines["Ablations"]
        if line.claim.text == "d_K = 1 hurts (on ZETA, mqar)"
    ]  # fmt: skip
    assert (line.evidence.verdict, line.verdict) == ("not shown", "reproduced")


def test_figures_are_written_whole_and_named_once(folders):
    here, committed = folders
    append_rows(here / "results" / "ablate.csv", sweep("dk", "d_k", {1: 0.5, 3: 0.6}, top_k=8))
    report = make_report(here, committed)
    written = write_report(report)
    assert len(written) == len(set(written)) == 3
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)
    assert {path.stem for path in written} == set(re.findall(r"figures/(.*?)\.png", report.text))
    assert (here / "REPORT.md").read_text() == report.text
    assert not list(here.rglob(".*"))


def test_an_evidence_folder_that_is_not_there(folders):
    with pytest.raises(RequestError, match="--evidence"):
        make_report(folders[0], folders[0] / "nowhere")


def test_times_beside_the_paper_s_and_what_has_none():
    rows = [bench_row(provider=name, seq_len=4096, device=GPU, peak_mib=5.0) for name in ("zeta_triton", "naive")]
    rows.append(bench_row(provider="zeta_triton", seq_len=8192, device=GPU))
    rows.append(bench_row(provider="naive", seq_len=8192, device=GPU, status="oom", time_ms=None, peak_mib=None))
    rows.append(bench_row(provider="naive", seq_len=4096, device=GPU, batch=2, time_ms=7.0))
    rows.append(bench_row(provider="mamba", seq_len=4096, device=GPU, status="skipped", time_ms=None))
    times, memory, other = [table for table in bench_tables(rows) if table.title.startswith(("ms", "MiB"))][:3]
    assert times.head == ("provider", "timing", "4,096", "8,192", "calls", "without a time")
    assert times.rows[1] == ("naive", "eager", "1 (1 to 1)", "oom", "9", "1 oom")
    assert ("paper: ZETA", "A100, shape not given", "5.6", "11", "-", "") in times.rows
    assert memory.rows[0][2] == "5.0" and memory.figure is not None
    assert "batch 2" in other.title and other.rows[0][2] == "7 (7 to 7)"


def test_overlaps_beside_the_paper_s_and_heads():
    rows = [locality_row(d_k=d_k, overlap=0.5 + 0.01 * seed, seed=seed) for d_k in (1, 3, 8) for seed in (0, 1)]
    rows += [head_row(head, recall=0.7, recall_choosing=0.5) for head in (0, 1)]
    rows.append(head_row(None, miss=0.4, miss_all_predicted=0.16, miss_all_measured=0.2))
    lengths = [locality_row(seq_len=seq_len) for seq_len in (1024, 2048)]
    assert [table.figure.stem for table in locality_tables([*rows, *lengths]) if table.figure] == [
        "locality-dk", "locality-length-64"
    ]  # fmt: skip
    cloud, picture, recall, misses = locality_tables([locality_row(bits=2, seed=9), *rows])
    assert cloud.rows[2] == ("512", "3", "1", "12", "50.5", "0.7", "50.0", "51.0", "2", "", "80-90")
    assert cloud.rows[3][-1] == "-" and picture.figure is not None and not picture.head
    assert recall.rows[0][3] == "70.0" and recall.rows[0][-1] == "over 60" and recall.rows[0][9] == "50.0"
    assert misses.rows[0][-3:] == ("40.0", "16.0", "20.0")

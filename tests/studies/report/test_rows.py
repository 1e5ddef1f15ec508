"""CSVs as they are found: older ones, broken ones, others' ones."""

import pytest
from rows import bench_row, toy
from studies.report.made_up import train_row

from zeta_core.errors import RequestError
from zeta_core.records import BenchRow, TrainRow, append_rows
from zeta_core.studies.report.bench import OPERATOR
from zeta_core.studies.report.rows import read


def test_rows_come_back_as_they_were_written(tmp_path):
    rows = [train_row(seed=0), train_row(seed=1, status="failed", chunk_size=64, num_chunks=None, history_mean=False)]
    append_rows(tmp_path / "train.csv", rows)
    assert read(tmp_path / "train.csv", TrainRow) == rows
    assert read(tmp_path / "nothing.csv", TrainRow) == []


def test_an_older_file_lacks_columns_that_came_later(tmp_path):
    path = tmp_path / "bench.csv"
    row = bench_row(preset="operator", backend="", cache="cleared")
    names = [name for name in row.__dict__ if name not in ("preset", "backend", "cache", "reason")]
    cells = ("" if row.__dict__[name] is None else str(row.__dict__[name]) for name in names)
    path.write_text(",".join(names) + "\n" + ",".join(f'"{cell}"' for cell in cells) + "\n")
    assert read(path, BenchRow, OPERATOR.older) == [row]
    with pytest.raises(RequestError, match="has no column preset"):
        read(path, BenchRow)


def test_a_line_that_a_kill_cut_short_is_left_out(tmp_path):
    append_rows(tmp_path / "train.csv", [train_row()])
    with (tmp_path / "train.csv").open("a") as file:
        file.write("train,mqar-ze")
    assert len(read(tmp_path / "train.csv", TrainRow)) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("study,run_id\ntrain,a\n", "has no column status (and"),
        ("some other file\n", "has no column study (and"),
        (b"\xff\xfe\x00\n", "byte 0 is not UTF-8"),
    ],
)
def test_another_file_is_one_line(tmp_path, text, words):
    path = tmp_path / "train.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(RequestError, match=words.replace("(", r"\(")) as caught:
        read(path, TrainRow)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (",0.9,", ",almost,", "row 1: value='almost': must be a valid number"),
        (",ok,", ",splendid,", "row 1: status='splendid': must be 'ok'"),
        (",zeta,", ",zeta,,,", "row 1 is not as long as the header"),
        (",zeta,128", ",zeta", "row 1 is not as long as the header"),
    ],
)
def test_a_broken_row_is_named_with_its_column(tmp_path, old, new, words):
    path = tmp_path / "train.csv"
    append_rows(path, [train_row()])
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    with pytest.raises(RequestError) as caught:
        read(path, TrainRow)
    assert f"{path}: {words}" in str(caught.value)


def test_rows_of_another_study_lack_a_column(tmp_path):
    append_rows(tmp_path / "train.csv", [toy("a")])
    with pytest.raises(RequestError, match="has no column attention"):
        read(tmp_path / "train.csv", TrainRow)

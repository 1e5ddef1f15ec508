"""Which files rows may be added to."""

import pytest
from rows import ToyRow, toy

from zeta_core.errors import RequestError
from zeta_core.records import append_rows
from zeta_core.table_check import check_table


@pytest.fixture
def path(tmp_path):
    return tmp_path / "toy.csv"


@pytest.mark.parametrize("kept", [0, 1, 9, -1, None], ids=["empty", "a byte", "cut short", "no end", "whole"])
def test_a_table_of_ours_is_taken(path, kept):
    check_table(path, ToyRow, ["run_id", "value"])
    assert not path.exists()
    append_rows(path, [toy("a")])
    header = path.read_bytes().splitlines(keepends=True)[0]
    path.write_bytes(path.read_bytes() if kept is None else header[:kept])
    before = path.read_bytes()
    check_table(path, ToyRow, ["run_id", "value"])
    assert path.read_bytes() == before


def test_an_older_table_is_taken_without_columns_that_were_added_later(path):
    path.write_text("run_id,value\na,0.5\n")
    check_table(path, ToyRow, ["run_id", "value"])
    append_rows(path, [toy("b")])


def test_a_folder_is_no_table(path):
    path.mkdir()
    with pytest.raises(RequestError, match=r"toy\.csv: rows cannot be added to it: Is a directory; move it away"):
        check_table(path, ToyRow, ["run_id"])

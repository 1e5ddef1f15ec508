"""Row files survive several writers, kills and full disks."""

import multiprocessing
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from rows import append_many, later, toy

from zeta_core.errors import StorageError
from zeta_core.records import append_rows, read_rows, run_id, versions

TESTS = Path(__file__).parent


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results" / "toy.csv"


def values(path):
    return [(row["run_id"], row["value"]) for row in read_rows(path)]


def test_rows_come_back_as_they_were_given(path):
    append_rows(path, [toy("a", 0.1), toy("a", None, seed=3)])
    append_rows(path, [toy("b", 1 / 3)])
    assert values(path) == [("a", "0.1"), ("a", ""), ("b", repr(1 / 3))]
    first = read_rows(path)[0]
    assert (first["device"], first["wall_s"], first["peak_mib"]) == ("A CPU, 1 threads", "", "1.5")
    assert path.read_text().count("study,run_id") == 1


def test_no_file_has_no_rows(path):
    assert read_rows(path) == []


def test_rows_of_the_same_run_are_replaced(path):
    append_rows(path, [toy("a", 0.1), toy("a", 0.2)])
    append_rows(path, [toy("b", 0.3)])
    append_rows(path, [toy("a", 0.4)])
    assert values(path) == [("b", "0.3"), ("a", "0.4")]


def test_added_columns_keep_older_rows(path):
    append_rows(path, [toy("old", 0.1)])
    append_rows(path, [later("new", "x, y")])
    append_rows(path, [toy("older", 0.2)])
    rows = read_rows(path)
    assert [(row["run_id"], row["extra"]) for row in rows] == [("old", ""), ("new", "x, y"), ("older", "")]
    assert values(path)[0] == ("old", "0.1")
    assert len({len(row) for row in rows}) == 1


@pytest.mark.parametrize("kept", [1, 30, -1])
def test_a_line_that_a_kill_cut_short_is_dropped(path, kept):
    append_rows(path, [toy("a", 0.1)])
    whole = path.read_bytes()
    append_rows(path, [toy("b", 0.2)])
    line = path.read_bytes()[len(whole) :]
    path.write_bytes(whole + line[:kept])
    assert values(path) == [("a", "0.1")]
    append_rows(path, [toy("c", 0.3)])
    assert values(path) == [("a", "0.1"), ("c", "0.3")]
    assert path.read_bytes().startswith(whole)


@pytest.mark.parametrize("left", ["empty", "header", "half a header", "header without its end"])
def test_a_file_without_rows_is_begun_again(path, left):
    append_rows(path, [toy("a", 0.1)])
    header = path.read_bytes().splitlines(keepends=True)[0]
    path.write_bytes({"empty": b"", "header": header, "half a header": header[:9]}.get(left, header[:-1]))
    assert read_rows(path) == []
    append_rows(path, [toy("b", 0.2)])
    assert values(path) == [("b", "0.2")]
    assert path.read_bytes().splitlines(keepends=True)[0] == header


def test_several_processes_lose_and_tear_nothing(path):
    context = multiprocessing.get_context("forkserver")
    writers, number = 4, 20
    processes = [context.Process(target=append_many, args=(path, writer, number)) for writer in range(writers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * writers
    expected = Counter(
        (f"w{writer}-{turn}", value)
        for writer in range(writers)
        for turn in range(number)
        for value in (("2.0", "3.0") if turn % 5 == 0 else ("0.0", "1.0"))
    )
    assert Counter(values(path)) == expected
    assert all(None not in row and row["study"] == "toy" and row["peak_mib"] == "1.5" for row in read_rows(path))
    assert [file.name for file in path.parent.iterdir()] == ["toy.csv"]


FULL_DISK = """
import resource, sys
from pathlib import Path
from rows import later, toy
from zeta_core.errors import StorageError
from zeta_core.records import append_rows
path, run, room = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room,) * 2)
rows = [later("z", "new")] if run == "later" else [toy(run, 9.0)] * 2
try:
    append_rows(path, rows)
except StorageError as error:
    print(error)
    sys.exit(7)
"""


@pytest.mark.parametrize("run", ["new", "a", "later"], ids=["added", "replaced", "rewritten"])
@pytest.mark.parametrize("room", [0, 1, 40])
def test_a_full_disk_leaves_the_file_as_it_was(path, run, room):
    append_rows(path, [toy("a", 0.1), toy("b", 0.2)])
    if run == "a":
        # Rewritten, the file is shorter: it must be too long all the same.
        append_rows(path, [toy("c", value) for value in range(30)])
        room = room - 60 - path.stat().st_size // 2
    before = path.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path), run, str(room)],
        cwd=TESTS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (7, "")
    assert "toy.csv: rows could not be written: File too large" in done.stdout
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["toy.csv"]
    append_rows(path, [toy("d", 0.3)])
    assert values(path)[-1] == ("d", "0.3")


def test_a_path_that_cannot_be_read_says_so(tmp_path):
    (tmp_path / "train.csv").mkdir()
    for action in (read_rows, lambda path: append_rows(path, [toy("a")])):
        with pytest.raises(StorageError, match=r"train\.csv.*Is a directory"):
            action(tmp_path / "train.csv")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="rows could not be written"):
        append_rows(tmp_path / "file" / "train.csv", [toy("a")])


def test_a_file_that_is_no_text_says_so_and_is_left_alone(path):
    path.parent.mkdir()
    path.write_bytes(b"\xff\xfe\x00bad\n")
    for action in (read_rows, lambda path: append_rows(path, [toy("a")])):
        with pytest.raises(StorageError, match=r"toy\.csv.*UTF-8"):
            action(path)
    assert path.read_bytes() == b"\xff\xfe\x00bad\n"


def test_an_id_is_of_the_configuration_and_the_data():
    assert run_id("mqar-zeta", {"a": 1, "b": 2}, "f") == run_id("mqar-zeta", {"b": 2, "a": 1}, "f")
    found = {run_id("mqar-zeta", {"a": a}, data) for a in (1, 1.0, "1", True, None) for data in ("f", "g")}
    assert len(found) == 10
    assert all(name.startswith("mqar-zeta-") and len(name) == 20 for name in found)


def test_versions_are_those_here():
    found = versions()
    assert found.python == sys.version.split()[0]
    assert found.torch

"""A run's folder: its lock, its state, and metrics that a resumed run writes once."""

import csv
import multiprocessing
import os
import signal

import pytest

from zeta_core.errors import RequestError, StorageError
from zeta_core.run_folder import RunFolder, check_writable


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "runs" / "mqar-zeta-0123456789")


def metrics(folder):
    with (folder.path / "metrics.csv").open() as file:
        return [(int(row["step"]), float(row["loss"])) for row in csv.DictReader(file)]


def hold(folder, ready):
    with folder.locked():
        ready.set()
        signal.pause()


def test_nothing_is_made_before_it_is_written_to(folder, tmp_path):
    assert not folder.exists() and folder.status() == ""
    folder.cut_metrics(5)
    assert list(tmp_path.iterdir()) == []


def test_the_lock_keeps_others_out(folder):
    with (
        folder.locked(),
        pytest.raises(RequestError, match="mqar-zeta-0123456789: another process is at this run"),
        RunFolder(folder.path).locked(),
    ):
        pass
    with folder.locked():
        pass


def test_the_lock_ends_with_a_killed_process(folder):
    context = multiprocessing.get_context("forkserver")
    ready = context.Event()
    process = context.Process(target=hold, args=(folder, ready))
    process.start()
    assert ready.wait(60)
    with pytest.raises(RequestError, match="another process"), folder.locked():
        pass
    process.kill()
    process.join()
    with folder.locked():
        pass


def test_the_state_is_kept(folder):
    with folder.locked():
        folder.set_status("running")
        assert folder.status() == "running"
        folder.set_status("failed", "the loss is nan at step 3")
    assert RunFolder(folder.path).status() == "failed"
    assert "the loss is nan at step 3" in (folder.path / "state.json").read_text()
    assert not folder.exists()
    folder.write("config.yaml", "kind: train\n")
    assert folder.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '"ok"', "{}", "null", "7"])
def test_a_broken_state_is_no_state(folder, text):
    folder.path.mkdir(parents=True)
    (folder.path / "state.json").write_text(text)
    assert folder.status() == ""


def test_files_are_replaced_whole(folder, monkeypatch):
    with folder.locked():
        folder.write("config.yaml", "old\n")

        def fail(*args):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "replace", fail)
        with pytest.raises(StorageError, match=r"config\.yaml: cannot be written: No space left on device"):
            folder.write("config.yaml", "new\n")
    assert (folder.path / "config.yaml").read_text() == "old\n"


def test_metrics_keep_their_digits(folder):
    with folder.locked():
        folder.add_metrics({"step": 2, "loss": 1 / 3})
        folder.add_metrics({"step": 4, "loss": float("nan")})
    assert (folder.path / "metrics.csv").read_text() == f"step,loss\n2,{1 / 3!r}\n4,nan\n"


@pytest.mark.parametrize(
    ("step", "kept"), [(0, []), (1, []), (2, [2]), (5, [2, 4]), (6, [2, 4, 6]), (100, [2, 4, 6])]
)
def test_metrics_after_a_step_are_cut(folder, step, kept):
    with folder.locked():
        for at in (2, 4, 6):
            folder.add_metrics({"step": at, "loss": float(at)})
        folder.cut_metrics(step)
        folder.add_metrics({"step": 99, "loss": 0.0})
    assert metrics(folder) == [*((at, float(at)) for at in kept), (99, 0.0)]


def test_a_row_that_a_kill_cut_short_is_cut(folder):
    with folder.locked():
        for at in (2, 4):
            folder.add_metrics({"step": at, "loss": float(at)})
        path = folder.path / "metrics.csv"
        path.write_bytes(path.read_bytes()[:-2])
        folder.cut_metrics(4)
        folder.add_metrics({"step": 4, "loss": 4.0})
    assert metrics(folder) == [(2, 2.0), (4, 4.0)]


def test_the_log_has_a_line_for_each_text(folder):
    with folder.locked():
        folder.log("first")
        folder.log("second")
    lines = (folder.path / "log.txt").read_text().splitlines()
    assert [line.split(maxsplit=2)[2] for line in lines] == ["first", "second"]


def test_a_folder_that_can_be_written_is_left_as_it_was(tmp_path):
    check_writable(tmp_path)
    check_writable(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match="file is no folder; choose another"):
        check_writable(tmp_path / "file")
    with pytest.raises(RequestError, match="file is no folder; choose another"):
        check_writable(tmp_path / "file" / "out")
    with pytest.raises(RequestError, match="--out /proc/zeta: /proc cannot be written"):
        check_writable(type(tmp_path)("/proc/zeta"))
    (tmp_path / "file").unlink()
    (tmp_path / "folder").mkdir(0o500)
    if os.geteuid():
        with pytest.raises(RequestError, match="cannot be written"):
            check_writable(tmp_path / "folder")


def test_a_path_under_a_file_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="lock: cannot be written"), RunFolder(tmp_path / "file" / "run").locked():
        pass


def test_metrics_that_an_older_version_began_keep_its_columns(folder):
    with folder.locked():
        folder.add_metrics({"step": 2, "loss": 0.5})
        folder.add_metrics({"step": 4, "speed": 9.0, "loss": 0.25})
    assert metrics(folder) == [(2, 0.5), (4, 0.25)]

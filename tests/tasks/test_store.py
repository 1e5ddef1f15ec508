"""Examples on disk: what is written is read, by any number of processes, and nothing broken is used."""

import json
import os
import resource
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from tasks.stores import COUNTS, content, interrupted, killed, produce, produce_two, sequence, spec

from zeta_core.errors import DataError, DataMissing, RunFailed, StorageError
from zeta_core.tasks.store import MANIFEST, Stored, data_root, open_folder, open_spec
from zeta_core.tasks.store_write import import_rows, make


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ZETA_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def test_data_live_where_the_variable_says(root, monkeypatch):
    assert data_root() == root and spec().folder.parent == root
    monkeypatch.delenv("ZETA_DATA")
    monkeypatch.setenv("HOME", "/home/x")
    assert str(data_root()) == "/home/x/.cache/zeta"


def test_the_folder_is_named_by_the_parameters():
    assert spec().folder.name.startswith("toy-small-")
    assert spec().folder != spec(parameters={"a": 2, "train": 23}).folder
    assert spec().folder == spec(parameters={"train": 23, "a": 1}).folder


def test_what_is_written_is_read():
    data = make(spec(), produce, COUNTS)
    for split, number in COUNTS.items():
        stored = data.split(split)
        assert len(stored) == number and stored.labels.tolist() == [i % 3 for i in range(number)]
        assert stored.lengths().tolist() == [i % 7 + 1 for i in range(number)]
        for i, found in enumerate(stored.sequences(np.arange(number))):
            assert found.dtype == np.uint16 and np.array_equal(found, sequence(split, i))
    assert data.manifest.splits["train"].classes == [8, 8, 7]
    assert data.majority == 3 / 8


def test_files_are_mapped_and_not_held_open():
    data = make(spec(), produce, COUNTS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 4, hard))
    try:
        stored = data.split("train")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(stored.shards) == 6 and stored.sequence(22).tolist() == sequence("train", 22).tolist()
    with pytest.raises(ValueError, match="read-only"):
        stored.sequence(22)[0] = 1


def test_two_documents():
    stored = make(spec(num_documents=2), produce_two, COUNTS).split("test")
    assert stored.sequence(6, 1).tolist() == sequence("test", 6, 1).tolist()
    assert stored.sequence(6).tolist() == sequence("test", 6).tolist()


def test_any_number_of_workers_writes_the_same_bytes(root, monkeypatch):
    make(spec(), produce, COUNTS)
    one = content(spec().folder)
    monkeypatch.setenv("ZETA_DATA", str(root.with_name("other")))
    make(spec(), produce, COUNTS, workers=2)
    assert content(spec().folder) == one and len(one) == 3 * 10 + 1


def test_making_goes_on_where_it_was_stopped():
    with pytest.raises(KeyboardInterrupt):
        make(spec(), interrupted, COUNTS)
    with pytest.raises(DataMissing, match="zeta data make toy"):
        open_spec(spec())
    seen = []
    data = make(spec(), produce, COUNTS, report=lambda *given: seen.append(given))
    assert [given for given in seen if not given[3]] == [("train", 4, 23, False), ("train", 8, 23, False)]
    assert seen[-1] == ("test", 8, 8, True) and len(data.split("train")) == 23
    seen.clear()
    make(spec(), produce, COUNTS, report=lambda *given: seen.append(given))
    assert seen == []


def test_a_killed_worker_is_said_and_what_was_made_is_kept(root, monkeypatch):
    with pytest.raises(RunFailed, match=r"was killed .*; what was made is kept"):
        make(spec(), killed, COUNTS, workers=2)
    with pytest.raises(DataMissing):
        open_spec(spec())
    make(spec(), produce, COUNTS, notes=lambda: {"words": 3})
    again = content(spec().folder)
    monkeypatch.setenv("ZETA_DATA", str(root.with_name("other")))
    assert make(spec(), produce, COUNTS, notes=lambda: {"words": 3}).manifest.notes == {"words": 3}
    assert content(spec().folder) == again


def test_where_the_first_process_is_killed_the_others_end(root):
    command = [sys.executable, "-m", "tasks.stores"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        worker = psutil.Process(int(process.stdout.readline()))
        process.kill()
    until = time.monotonic() + 10
    while worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < until, "it waits for work that nobody will give it"
        time.sleep(0.05)


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_broken_shard_is_one_line_and_made_again(damage):
    make(spec(), produce, COUNTS)
    before, file = content(spec().folder), spec().folder / "train/00002/tokens.npy"
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-3])
    else:
        file.unlink()
    with pytest.raises(DataError, match=r"tokens.npy: (has \d+ bytes instead of|is missing).*zeta data make toy"):
        open_spec(spec())
    make(spec(), produce, COUNTS)
    assert content(spec().folder) == before


def test_a_folder_of_other_parameters_is_never_used():
    make(spec(), produce, COUNTS)
    text = (spec().folder / MANIFEST).read_text()
    (spec().folder / MANIFEST).write_text(text.replace('"a": 1', '"a": 7'))
    with pytest.raises(DataError, match=r"was made with a=7, not 1; .*zeta data make toy"):
        open_spec(spec())
    with pytest.raises(DataError, match="holds the task toy, not other"):
        open_folder(spec().folder, "zeta data make other", task="other")
    assert open_folder(spec().folder, "", task="toy").manifest.parameters["a"] == 7
    make(spec(), produce, COUNTS)
    assert (spec().folder / MANIFEST).read_text() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is not a manifest"), ("[]", "is not a manifest"), ('{"format": 99}', "is in format 99, and this")],
)
def test_a_broken_manifest(text, message):
    make(spec(), produce, COUNTS)
    (spec().folder / MANIFEST).write_text(text)
    with pytest.raises(DataError, match=message):
        open_spec(spec())
    assert len(make(spec(), produce, COUNTS).split("test")) == 8


def test_the_fingerprint_is_of_the_parameters_and_of_every_example():
    data = make(spec(), produce, COUNTS)
    manifest = json.loads((spec().folder / MANIFEST).read_text())
    assert data.manifest.fingerprint == open_spec(spec()).manifest.fingerprint
    assert make(spec(parameters={"a": 2}), produce, COUNTS).manifest.fingerprint != data.manifest.fingerprint
    other = make(spec(label="x", parameters={"a": 1, "train": 22}), produce, {**COUNTS, "train": 22})
    assert other.manifest.splits["train"].fingerprint != manifest["splits"]["train"]["fingerprint"]


def rows(split, number):
    for i in range(number):
        yield (sequence(split, i),), i % 3


def test_an_import_replaces_only_once_it_is_whole():
    data = import_rows(spec(), {split: rows(split, n) for split, n in COUNTS.items()}, notes={"left_out": 2})
    assert data.manifest.notes == {"left_out": 2} and data.manifest.splits["train"].examples == 23
    assert content(data.folder / "train") == content(make(spec(label="x"), produce, COUNTS).folder / "train")

    def broken():
        yield from rows("train", 5)
        raise DataError("line 6")

    with pytest.raises(DataError, match="line 6"):
        import_rows(spec(), {"train": broken()})
    assert len(Stored(data.folder, "train", open_spec(spec()).manifest)) == 23
    import_rows(spec(), {"train": rows("train", 2)})
    assert len(open_spec(spec()).split("train")) == 2 and open_spec(spec()).majority is None
    assert not list(data_root().glob(".*.partial"))


def test_a_root_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ZETA_DATA", str(tmp_path / "file"))
    with pytest.raises(StorageError, match="cannot be written"):
        make(spec(), produce, COUNTS)

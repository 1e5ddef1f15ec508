"""Film reviews: three forms of the same files, what is held out, and what a batch has."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tasks.imports import bring_in, texts
from tasks.official import imdb, json_lines, review

from zeta_core.errors import DataError, DataMissing
from zeta_core.tasks.imported import PADDING, held_out, subset
from zeta_core.tasks.text import TextConfig


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ZETA_DATA", str(tmp_path / "data"))
    return tmp_path


def everything(data):
    return {
        split: set(zip(texts(data, split), data.split(split).labels.tolist(), strict=True))
        for split in ("train", "validation", "test")
    }


def test_the_official_tree(root):
    data = bring_in(TextConfig, imdb(root / "aclImdb"))
    found = everything(data)
    wanted = {
        split: {(review(split, label, i).encode(), label) for label in (0, 1) for i in range(10)}
        for split in ("train", "test")
    }
    assert found["test"] == wanted["test"]
    assert found["train"] | found["validation"] == wanted["train"] and not found["train"] & found["validation"]
    assert {split: len(data.split(split)) for split in found} == {"train": 18, "validation": 2, "test": 20}
    assert data.manifest.notes == {"unlabelled_left_out": 1, "source": "imdb"}


def test_json_lines_and_the_package_give_the_same(root, monkeypatch):
    tree = everything(bring_in(TextConfig, imdb(root / "aclImdb")))
    lines = json_lines(root / "lines")
    assert everything(bring_in(TextConfig, lines)) == tree
    rows = {
        split: [json.loads(line) for line in (lines / f"{split}.jsonl").read_text().splitlines()]
        for split in ("train", "test")
    }
    asked = []

    def load_dataset(name, *, split):
        asked.append((name, split))
        return rows[split]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    assert everything(bring_in(TextConfig, "datasets:stanfordnlp/imdb")) == tree
    assert asked == [("stanfordnlp/imdb", "train"), ("stanfordnlp/imdb", "test")]


def test_the_package_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"install it with: pip install 'zeta-attention\[datasets\]'"):
        bring_in(TextConfig, "datasets:imdb")

    def load_dataset(name, *, split):
        raise ConnectionError("no network\nat all")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    with pytest.raises(DataError, match=r"datasets:imdb: the train split was not found \(no network at all\)"):
        bring_in(TextConfig, "datasets:imdb")


def test_a_validation_file_is_taken_as_it_is(root):
    lines = json_lines(root / "lines")
    (lines / "validation.jsonl").write_text('{"text": "Good.", "label": "pos"}\n')
    data = bring_in(TextConfig, lines)
    assert len(data.split("train")) == 20 and texts(data, "validation") == [b"Good."]
    assert data.split("validation").labels.tolist() == [1]


def test_files_may_have_other_names(root):
    lines = json_lines(root / "lines")
    (lines / "train.jsonl").rename(lines / "all.jsonl")
    with pytest.raises(DataError, match=r"train.jsonl: there is no such file, so no train split; --split train=NAME"):
        bring_in(TextConfig, lines)
    assert len(bring_in(TextConfig, lines, train="all.jsonl").split("train")) == 18


def test_a_tenth_is_held_out_by_contents_alone():
    contents = [f"review {i}".encode() for i in range(200)]
    mask = held_out(contents)
    out = {content for content, one in zip(contents, mask, strict=True) if one}
    assert len(out) == 20
    assert out == set(sorted(contents, key=lambda content: hashlib.sha256(content).digest())[:20])
    other = contents[::-1]
    assert {content for content, one in zip(other, held_out(other), strict=True) if one} == out
    twice = held_out([*contents, *contents])
    assert (twice[:200] == twice[200:]).all() and twice.sum() == 40


def test_a_batch_has_bytes_classes_and_padding(root):
    bring_in(TextConfig, imdb(root / "aclImdb"))
    task = TextConfig(seq_len=50).build()
    part = task.parts["test"][0]
    batch = part.batch(np.arange(20))
    assert batch.tokens.shape == (20, 50) and batch.tokens.dtype == torch.int64
    for row, mask, label in zip(batch.tokens, batch.key_padding_mask, batch.labels.tolist(), strict=True):
        text = bytes(row[~mask].tolist())
        assert (f" {('dull', 'fine')[label]} " in text.decode(errors="ignore")) and len(text) <= 50
        assert (row[mask] == PADDING).all()
    assert (task.vocab_size, task.max_len, task.num_classes, task.majority) == (257, 50, 2, 0.5)
    assert (task.source, part.name) == ("imdb", "imdb")


def test_subsets_lie_within_each_other_and_are_mixed():
    assert subset(7, None).tolist() == subset(7, 9).tolist() == list(range(7))
    few, more = subset(1000, 100), subset(1000, 300)
    assert len(few) == 100 and set(few.tolist()) < set(more.tolist()) and (np.diff(more) > 0).all()
    assert 30 < (few < 500).sum() < 70


def test_the_fingerprint_is_of_the_files_and_the_settings(root):
    bring_in(TextConfig, imdb(root / "aclImdb"))
    first = TextConfig(seq_len=50).build().fingerprint
    assert TextConfig(seq_len=50).build().fingerprint == first
    assert TextConfig(seq_len=49).build().fingerprint != first
    assert TextConfig(seq_len=50, num_train=5).build().fingerprint != first
    code = "from zeta_core.tasks.text import TextConfig; print(TextConfig(seq_len=50).build().fingerprint)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": "7"}, capture_output=True, text=True
    )
    assert done.stdout.strip() == first
    (root / "aclImdb" / "test" / "pos" / "9_7.txt").write_text("Another one, number 10.")
    bring_in(TextConfig, root / "aclImdb")
    assert TextConfig(seq_len=50).build().fingerprint != first


def test_before_the_import_the_files_are_named():
    with pytest.raises(
        DataMissing, match=r"text: needs IMDB's reviews .*train/pos/\*.txt.*zeta data import text PATH"
    ):
        TextConfig().build()


def spoiled(root, name, content):
    path = imdb(root / "aclImdb", each=2)
    (path / name).write_bytes(content)
    return path


def test_what_is_wrong_with_a_tree_is_named(root):
    path = spoiled(root, "test/pos/1_7.txt", b"Caf\xe9")
    with pytest.raises(DataError, match=r"test/pos/1_7.txt: byte 3 is not UTF-8"):
        bring_in(TextConfig, path)
    (path / "test/pos/1_7.txt").write_bytes(b" \n")
    with pytest.raises(DataError, match=r"test/pos/1_7.txt: the document is empty; --drop-empty leaves"):
        bring_in(TextConfig, path)
    data = bring_in(TextConfig, path, drop_empty=True)
    assert len(data.split("test")) == 3 and data.manifest.notes["empty_left_out"] == 1
    (path / "test" / "so-so").mkdir()
    with pytest.raises(DataError, match=r"test/so-so: is none of the classes neg, pos"):
        bring_in(TextConfig, path)
    (path / "test" / "so-so").rmdir()
    shutil.rmtree(path / "test" / "neg")
    (path / "test" / "neg").mkdir()
    with pytest.raises(DataError, match=r"test/neg: holds no \*.txt"):
        bring_in(TextConfig, path)
    shutil.rmtree(path / "test")
    with pytest.raises(DataError, match=r"aclImdb/test: there is no such folder; a split needs test/pos"):
        bring_in(TextConfig, path)


WRONG_LINES = {
    "no JSON": ("{'text': 1}", "is not JSON"),
    "no object": ("[1]", "is not an object"),
    "no text": ('{"label": 1}', "must be an object with `text`"),
    "no label": ('{"text": "a"}', "and `label`"),
    "a label too many": ('{"text": "a", "label": 2}', "label=2 is none of the classes 0 (neg), 1 (pos)"),
    "a label of another type": ('{"text": "a", "label": true}', "label=True is none of the classes"),
    "empty": ('{"text": "", "label": 0}', "the document is empty"),
    "half a character": ('{"text": "\\ud800", "label": 0}', "half of a surrogate pair"),
}


@pytest.mark.parametrize(("line", "message"), WRONG_LINES.values(), ids=WRONG_LINES.keys())
def test_a_wrong_line_is_named(line, message, root):
    path = json_lines(root / "lines", each=2)
    with (path / "test.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError) as raised:
        bring_in(TextConfig, path)
    assert "test.jsonl:5: " in str(raised.value) and message in str(raised.value)


def test_empty_lines_are_passed_over(root):
    path = json_lines(root / "lines", each=2)
    with (path / "test.jsonl").open("a") as file:
        file.write("\n\n")
    assert len(bring_in(TextConfig, path).split("test")) == 4


def test_other_folders_and_files_are_refused(root):
    (root / "nothing").mkdir()
    for path in (root / "nothing", root / "gone"):
        with pytest.raises(DataError, match=r"does not have IMDB's reviews \(a folder with train/pos"):
            bring_in(TextConfig, path)
    path = json_lines(root / "lines", each=2)
    (path / "test.jsonl").write_bytes(b'{"text": "a", "label": 1}\n{"text": "\xff", "label": 1}\n')
    with pytest.raises(DataError, match=r"test.jsonl:2: byte 10 of the line is not UTF-8"):
        bring_in(TextConfig, path)
    (path / "test.jsonl").write_text("")
    with pytest.raises(DataError, match=r"test.jsonl: holds no lines"):
        bring_in(TextConfig, path)

"""Where text comes from: what is read, how it is put in splits, and what is refused in one line."""

import gzip
import json
import lzma
import sys
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tasks.corpora import corpus, json_lines, text_of, wiki

from zeta_core.errors import DataError, DataMissing
from zeta_core.tasks.corpus_spool import in_splits
from zeta_core.tasks.language import LanguageConfig
from zeta_core.tasks.language_sources import Source, articles, cut


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ZETA_DATA", str(tmp_path / "data"))
    return tmp_path


def contents(source):
    return [one.content.decode() for one in source.documents()]


def test_the_standard_library_without_its_tests():
    source = Source("python_stdlib")
    names = [path.as_posix() for path, _ in source.files()]
    assert any(name.endswith("/json/decoder.py") for name in names) and len(names) > 400
    assert not any(part in name for name in names for part in ("/test/", "/tests/", "/site-packages/"))
    assert source.identity() == Source("python_stdlib").identity()


def test_text_files(root):
    folder = root / "texts"
    (folder / "b").mkdir(parents=True)
    for name in ("b/2.txt", "1.txt", "3.txt", "left.md"):
        (folder / name).write_text(name)
    assert contents(Source("text", folder)) == ["1.txt", "3.txt", "b/2.txt"]


@given(st.binary(max_size=300))
def test_a_single_file_is_cut_at_ends_of_lines(content):
    documents = list(cut(content))
    assert b"".join(one.content for one in documents) == content
    assert [one.split for one in documents] == ["train", "validation", "test"]
    for one, after in zip(documents, documents[1:]):  # noqa: B905, RUF007
        assert not after.content or one.content.endswith(b"\n")


def test_a_single_file_is_its_own_three_splits(root):
    lines = [f"line {index}\n" for index in range(200)]
    (root / "a.txt").write_text("".join(lines))
    data = corpus(root / "a.txt", source="text").make()
    found = [bytes(data.split(split).sequence(0)[:-1].tolist()).decode() for split in ("train", "validation", "test")]
    assert "".join(found) == "".join(lines)
    assert [len(text.splitlines()) for text in found] == pytest.approx([180, 10, 10], abs=2)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.xz"])
def test_json_lines(root, name):
    content = b'{"text": "one"}\n\n{"text": "two", "id": 7}\n'
    packed = {"gz": gzip.compress, "xz": lzma.compress}.get(name.rpartition(".")[2], bytes)(content)
    (root / name).write_bytes(packed)
    assert contents(Source("jsonl", root / name)) == contents(Source("jsonl", root)) == ["one", "two"]
    assert contents(Source("jsonl", root / name, max_documents=1)) == ["one"]


def test_articles_are_cut_at_titles_alone(root):
    text = (wiki(root, "test") / "wiki.test.tokens").read_text()
    found = articles(text)
    assert len(found) == 4 and "".join(found) == text
    assert articles("no title") == ["no title"] and "".join(articles("x\n" + text)) == "x\n" + text


@given(st.lists(st.integers(0, 40), min_size=3, max_size=120).filter(lambda keys: len(set(keys)) >= 3))
def test_splits_are_disjoint_and_whole(keys):
    found = in_splits([bytes([key]) for key in keys], [None] * len(keys), "x")
    assert sorted(np.concatenate(list(found.values())).tolist()) == list(range(len(keys)))
    parts = [{keys[index] for index in indices} for indices in found.values()]
    assert all(parts) and sum(map(len, parts)) == len(set(keys))
    assert len(parts[1]) == len(parts[2]) == max(1, round(len(set(keys)) / 20))


def test_documents_with_equal_contents_stay_together(root):
    rows = [{"text": text_of(index % 40)} for index in range(120)]
    (root / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = corpus(root / "a.jsonl").make()
    seen = [
        {one.tobytes() for one in data.split(s).sequences(np.arange(len(data.split(s))))}
        for s in data.manifest.splits
    ]
    assert sum(map(len, seen)) == 40 == len(set.union(*seen))


def test_blank_documents_are_left_out_and_counted(root):
    path = json_lines(root / "a.jsonl", 30)
    path.write_text(path.read_text() + '{"text": " \\n"}\n' * 3)
    data = corpus(path).make()
    assert data.manifest.notes["blank_left_out"] == 3
    assert sum(record.examples for record in data.manifest.splits.values()) == 30


GOOD = "".join(json.dumps({"text": text_of(index)}) + "\n" for index in range(5))
WRONG_LINES = {
    "broken": ('{"text": "a"', r"a.jsonl:6: is not JSON \("),
    "a list": ("[1]", r"a.jsonl:6: is not an object"),
    "no field": ('{"txt": "a"}', r"a.jsonl:6: has no text in the field 'text' \(it has txt\); set task.text_field"),
    "a number": ('{"text": 3}', r"a.jsonl:6: has no text in the field 'text'"),
    "half a pair": ('{"text": "\\ud800"}', r"a.jsonl:6: the text has half of a surrogate pair"),
}


@pytest.mark.parametrize(("line", "message"), WRONG_LINES.values(), ids=WRONG_LINES.keys())
def test_a_wrong_line_is_named(root, line, message):
    (root / "a.jsonl").write_text(GOOD + line + "\n")
    with pytest.raises(DataError, match=message) as caught:
        corpus(root / "a.jsonl").make()
    assert "\n" not in str(caught.value)


def test_files_that_are_no_text(root):
    (root / "a.jsonl").write_bytes(GOOD.encode() + b'{"text": "\xe9"}\n')
    with pytest.raises(DataError, match=r"a.jsonl:6: byte 10 of the line is not UTF-8"):
        corpus(root / "a.jsonl").make()
    (root / "a.txt").write_bytes(b"ab\xff")
    with pytest.raises(DataError, match=r"a.txt: byte 2 is not UTF-8"):
        corpus(root / "a.txt", source="text").make()
    for name, whole in (("a.jsonl.xz", lzma.compress(GOOD.encode())), ("a.jsonl.gz", gzip.compress(GOOD.encode()))):
        for content in (whole[: len(whole) // 2], b"nothing packed"):
            (root / name).write_bytes(content)
            with pytest.raises(DataError, match=rf"{name}: cannot be unpacked after line \d"):
                corpus(root / name).make()


def test_what_is_missing_or_empty(root):
    for source, message in (
        ("text", "source=text needs task.path: a text file, or a folder"),
        ("jsonl", "source=jsonl needs task.path: a file of JSON lines"),
        ("wikitext103", "source=wikitext103 needs task.path: a folder with wiki.train.tokens"),
        ("datasets", "source=datasets needs task.dataset_name: the name of a data set"),
    ):
        with pytest.raises(DataError, match=message):
            LanguageConfig(source=source).build()
    with pytest.raises(DataMissing, match=r"none: there is no such file or folder; task.path must be a text file"):
        corpus(root / "none", source="text").build()
    (root / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: holds no documents; task.path must be a text file, or a folder"):
        corpus(root / "empty", source="text").make()
    (root / "empty.txt").write_text(" \n")
    with pytest.raises(DataError, match=r"empty.txt: has no documents, or blank ones alone"):
        corpus(root / "empty.txt", source="text").make()
    two = json_lines(root / "two.jsonl", 2)
    with pytest.raises(DataError, match=r"two.jsonl: has 2 different documents, and needs 3 at least, one a split"):
        corpus(two).make()


def test_a_corpus_too_short_for_one_window(root):
    (root / "a.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n{"text": "c"}\n')
    config = corpus(root / "a.jsonl")
    config.make()
    with pytest.raises(DataError, match=r"has 2 tokens to train on, less than one window of seq_len=16"):
        config.build()
    assert len(corpus(root / "a.jsonl", seq_len=2).build().parts["train"][0]) == 1


def test_wikitext_without_its_training_file(root):
    folder = wiki(root / "wiki", "valid", "test")
    with pytest.raises(
        DataMissing, match=r"wiki.train.tokens: there is no such file; get it from https://.*eval_source"
    ):
        corpus(folder, source="wikitext103").make()
    (root / "nothing").mkdir()
    with pytest.raises(DataMissing, match=r"nothing: has neither wiki.valid.tokens nor wiki.test.tokens"):
        corpus(json_lines(root / "a.jsonl"), eval_source="wikitext103", eval_path=root / "nothing").make()


def test_tokenizers_without_their_files(root):
    path = json_lines(root / "a.jsonl")
    with pytest.raises(DataError, match=r"tokenizer=gpt2_bpe needs task.tokenizer_path: a folder with encoder.json"):
        corpus(path, tokenizer="gpt2_bpe").make()
    with pytest.raises(DataError, match=r"tokenizer=json needs task.tokenizer_path: a tokenizer.json"):
        corpus(path, tokenizer="json").load_tokenizer()


def test_a_streamed_data_set(root, monkeypatch):
    asked = []

    def load_dataset(name, subset, *, split, streaming):
        asked.append((name, subset, split, streaming))
        if name == "none":
            raise RuntimeError("not\nfound")
        return ({"text": text_of(index)} if index != 50 else {} for index in range(90))

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    config = LanguageConfig(source="datasets", dataset_name="a/b", dataset_subset="c", max_documents=40, seq_len=16)
    assert config.seconds is None and not config.is_small
    data = config.make()
    assert asked == [("a/b", "c", "train", True)] and data.manifest.notes["source"] == "datasets a/b"
    assert sum(record.examples for record in data.manifest.splits.values()) == 40
    more = {"source": "datasets", "dataset_name": "a/b"}
    with pytest.raises(DataError, match=r"datasets:a/b, row 50: has no text in the field 'text' \(it has nothing\)"):
        LanguageConfig(**more).make()
    with pytest.raises(DataError, match=r"datasets:none: subset None, split train cannot be read \(not found\)"):
        LanguageConfig(**{**more, "dataset_name": "none"}).make()
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"needs the datasets package; .*pip install 'zeta-attention\[language\]'"):
        LanguageConfig(**{**more, "max_documents": 3}).make()

"""The corpus on disk against a plain tokenisation of the same documents, and what the task makes of it."""

import hashlib
import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tasks.corpora import corpus, json_lines, streamed, text_of, wiki
from tasks.stores import content

from zeta_core.errors import DataError, DataMissing
from zeta_core.studies.data import check_data, list_data, make_if_small
from zeta_core.tasks.language import LanguageConfig
from zeta_core.tasks.store import MANIFEST
from zeta_core.tasks.tokenizers import ByteTokenizer, split_words

SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ZETA_DATA", str(tmp_path / "data"))
    return tmp_path


def plain_splits(number, key):
    """The documents of each split by the rule in words. key: of a document, a hash of which decides."""
    digests = {index: hashlib.sha256(key(index)).hexdigest() for index in range(number)}
    different = sorted(set(digests.values()))
    share = max(1, round(len(different) / 20))
    ranks = {digest: rank for rank, digest in enumerate(different)}
    found = {"train": [], "validation": [], "test": []}
    for index in sorted(digests, key=lambda index: (digests[index], index)):
        place = ranks[digests[index]] // share
        found["test" if place == 0 else "validation" if place == 1 else "train"].append(index)
    return found


@pytest.mark.parametrize("ids", [False, True])
def test_shards_are_a_plain_tokenisation(root, ids):
    config = corpus(json_lines(root / "a.jsonl", 90, ids=ids))
    data = config.make()
    splits = plain_splits(90, (lambda i: f"P{i // 2}".encode()) if ids else lambda i: text_of(i).encode())
    totals = data.manifest.notes["totals"]
    for split, documents in splits.items():
        stored, texts = data.split(split), [text_of(index) for index in documents]
        assert [one.tolist() for one in stored.sequences(np.arange(len(stored)))] == [
            [*text.encode(), 256] for text in texts
        ]
        assert stored.sequence(0).dtype == np.uint16
        assert totals[split] == {
            "documents": len(texts),
            "tokens": sum(len(text.encode()) + 1 for text in texts),
            "words": sum(len(text.split()) for text in texts),
            "bytes": sum(len(text.encode()) for text in texts),
        }
    assert sorted(index for documents in splits.values() for index in documents) == list(range(90))
    if ids:
        papers = [{index // 2 for index in documents} for documents in splits.values()]
        assert sum(map(len, papers)) == 45


def test_the_files_do_not_depend_on_the_number_of_workers(root, monkeypatch):
    config = corpus(json_lines(root / "a.jsonl.xz", 200), tokenizer="words", max_vocab=40)
    one = content(config.make().folder)
    monkeypatch.setenv("ZETA_DATA", str(root / "other"))
    other = corpus(root / "a.jsonl.xz", tokenizer="words", max_vocab=40)
    assert content(other.make(workers=2).folder) == one and len(one) > 20


def test_making_goes_on_after_a_kill(root):
    path = json_lines(root / "a.jsonl", 200)
    folder = corpus(path).make().folder
    whole = content(folder)
    (folder / MANIFEST).unlink()
    (folder / "sizes-test.npy").unlink()
    shutil.rmtree(folder / "train/00002")
    (folder / "train/.00002.77").mkdir()
    (folder / "train/00003/tokens.npy").write_bytes(b"half")
    half = folder.with_name(f".{folder.name}.documents.77")
    half.mkdir()
    (half / "documents.bin").write_bytes(b"half")
    with pytest.raises(DataMissing, match="make them with: zeta data make language --set source=jsonl --set path="):
        corpus(path).build()
    made = Counter()
    corpus(path).make(report=lambda split, done, total, fresh: made.update({fresh: 1}))
    assert content(folder) == whole and made[True] == 2 and made[False] > 3
    assert not list(folder.parent.glob(".*.documents*/"))


def test_a_broken_source_leaves_nothing(root):
    path = json_lines(root / "a.jsonl")
    path.write_text(path.read_text() + "{\n")
    with pytest.raises(DataError, match=r"a.jsonl:61: is not JSON"):
        corpus(path).make()
    assert [one.name for one in (root / "data").iterdir() if one.is_dir()] == []


def test_every_token_of_the_test_split_is_scored_once(root):
    path = json_lines(root / "a.jsonl", 90)
    data = corpus(path).make()
    wanted = data.split("test").shards[0].documents[0].tokens.tolist()
    for stride in (None, 1, 5, 16):
        task = corpus(path, stride=stride).build()
        part = task.parts["test"][0]
        assert streamed(part) == (wanted, list(range(1, len(wanted) + 1)))
        assert part.text == tuple(data.manifest.notes["totals"]["test"][name] for name in ("words", "bytes"))
        assert task.parts["train"][0].step == 16 and task.parts["validation"][0].step == (stride or 16)
    assert (task.num_classes, task.metric, task.vocab_size, task.max_len) == (None, "loss", 257, 16)
    assert task.source == "jsonl a.jsonl, bytes"


def test_caps(root):
    path = json_lines(root / "a.jsonl", 200)
    corpus(path).make()
    task = corpus(path, max_train_tokens=33, max_eval_tokens=300).build()
    assert len(task.parts["train"][0]) == 3
    texts = [text_of(index) for index in plain_splits(200, lambda i: text_of(i).encode())["test"]]
    ends = np.cumsum([len(text.encode()) + 1 for text in texts])
    number = int((ends <= 300).sum())
    part = task.parts["test"][0]
    assert 0 < number < len(texts) and len(streamed(part)[0]) == ends[number - 1]
    assert part.text.words == sum(len(text.split()) for text in texts[:number])
    assert corpus(path, max_eval_tokens=1).build().parts["test"][0].text.words == len(texts[0].split())


def test_what_the_fingerprint_depends_on(root):
    path = json_lines(root / "a.jsonl")
    base = corpus(path)
    base.make()
    moved = json_lines(root / "elsewhere" / "b.jsonl")
    assert corpus(moved).dataset().folder == base.dataset().folder
    assert corpus(moved).build().fingerprint == base.build().fingerprint
    assert corpus(path, stride=4).build().fingerprint != base.build().fingerprint
    changed = json_lines(root / "a.jsonl", 61)
    with pytest.raises(DataMissing):
        corpus(changed).build()


def test_words_are_counted_in_the_training_split(root):
    path = json_lines(root / "a.jsonl", 90)
    config = corpus(path, tokenizer="words", max_vocab=8)
    with pytest.raises(DataMissing):
        config.load_tokenizer()
    data = config.make()
    tokenizer = config.load_tokenizer()
    train = [text_of(index) for index in plain_splits(90, lambda i: text_of(i).encode())["train"]]
    counts = Counter(word for text in train for word in split_words(text) if word != "<eos>")
    best = sorted(counts, key=lambda word: (-counts[word], word))[:6]
    assert tokenizer.words[:-1] == ["<unk>", "<eos>", *best]
    assert tokenizer.identity == data.manifest.notes["tokenizer"]
    assert config.build().vocab_size == config.vocab_size == 9 == data.manifest.vocab_size
    assert config.build().parts["test"][0].text.bytes is None
    assert data.split("train").sequence(0).tolist() == [*tokenizer.encode(train[0]).tolist(), 8]
    assert corpus(path, tokenizer="words").make().manifest.vocab_size == len(counts) + 3
    (data.folder / "vocabulary.json").write_text(json.dumps(["<unk>", "<eos>"]))
    with pytest.raises(DataError, match=r"vocabulary.json: is not what the manifest says"):
        corpus(path, tokenizer="words", max_vocab=8).load_tokenizer()


def test_another_corpus_is_a_slice_of_its_own(root):
    path, folder = json_lines(root / "a.jsonl"), wiki(root / "wiki", "valid", "test")
    config = corpus(path, eval_source="wikitext103", eval_path=folder)
    config.make()
    task = config.build()
    names = ["jsonl a.jsonl", "wikitext103 validation", "wikitext103 test"]
    assert [part.name for part in task.parts["test"]] == names
    assert task.source == "jsonl a.jsonl, bytes; tested on wikitext103, too"
    assert [len(task.parts[split]) for split in ("train", "validation")] == [1, 1]
    text = (folder / "wiki.test.tokens").read_text()
    part = task.parts["test"][2]
    assert part.text == (len(text.split()), len(text.encode()))
    scored = [one for one in streamed(part)[0] if one != 256]
    assert bytes(scored).decode() == text and len(streamed(part)[0]) == len(scored) + 4
    same = corpus(path, eval_source="jsonl", eval_path=path, tokenizer="words")
    same.make()
    assert [part.name for part in same.build().parts["test"]] == ["jsonl a.jsonl", "jsonl a.jsonl, whole"]
    assert same.build().parts["test"][1].text.words == sum(len(text_of(index).split()) for index in range(60))


def test_the_official_splits_are_kept_in_order(root):
    folder = wiki(root / "wiki", "train", "valid", "test")
    data = corpus(folder, source="wikitext103").make()
    for split, name in (("train", "train"), ("validation", "valid"), ("test", "test")):
        stored = data.split(split)
        texts = [bytes(one[:-1].tolist()).decode() for one in stored.sequences(np.arange(len(stored)))]
        assert len(texts) == 4 and "".join(texts) == (folder / f"wiki.{name}.tokens").read_text()
        assert all(text.startswith(f" \n = {name} {number} = \n") for number, text in enumerate(texts))


def test_the_default_is_made_by_itself(root, capsys):
    said = []
    config = LanguageConfig(max_eval_tokens=1000)
    make_if_small(config, said.append)
    assert len(said) == 1 and said[0].startswith("language: making tokens of python_stdlib 3.")
    data = config.dataset()
    assert data.manifest.notes["totals"]["train"]["bytes"] > 5e6
    assert config.build().parts["train"][0].batch(np.array([0, 7])).tokens.shape == (2, 256)
    text = ByteTokenizer().decode(data.split("train").sequence(3).tolist())
    compile(text, "a.py", "exec")
    check = check_data(data)
    assert check.shared[("train", "test")] == check.shared[("train", "validation")] == 0
    assert [one.manifest.task for one in list_data()] == ["language"]
    make_if_small(config, said.append)
    assert len(said) == 1


def test_a_check_reads_what_lies_beside_the_shards(root):
    data = corpus(json_lines(root / "a.jsonl")).make()
    assert check_data(data).warnings == []
    (data.folder / "sizes-test.npy").write_bytes(b"")
    with pytest.raises(DataError, match=r"sizes-test.npy: is not what the manifest says of it"):
        check_data(data)


def test_a_corpus_of_another_tokenizer_is_never_used(root):
    path = json_lines(root / "a.jsonl")
    folder = corpus(path).make().folder
    text = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(text.replace('"tokenizer": "bytes"', '"tokenizer": "gpt2_bpe-12"', 1))
    with pytest.raises(DataError, match=r"was made with tokenizer='gpt2_bpe-12', not 'bytes'; .*zeta data make"):
        corpus(path).build()


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("tokenizer_path", "x", "tokenizer=gpt2_bpe or json"),
        ("max_vocab", 9, "tokenizer=words"),
        ("dataset_name", "x", "source=datasets"),
        ("dataset_subset", "x", "source=datasets"),
        ("max_documents", 9, "source=jsonl or datasets"),
    ],
)
def test_options_that_do_nothing_are_refused(field, value, wanted):
    with pytest.raises(ValueError, match=f"{field}={value} does nothing without {wanted}; leave it out"):
        LanguageConfig.model_validate({field: value})


def test_options_that_do_not_fit():
    with pytest.raises(ValueError, match="stride=300 is above seq_len=256; use at most 256"):
        LanguageConfig(stride=300)
    with pytest.raises(ValueError, match="path=x is not read with source=python_stdlib"):
        LanguageConfig(path="x")
    with pytest.raises(ValueError, match="eval_path=x is not read with eval_source=None"):
        LanguageConfig(eval_path="x")


@pytest.mark.skipif(not SHARED.exists(), reason="the real corpora are not there")
def test_the_real_wikitext_counts(root):
    config = corpus(json_lines(root / "a.jsonl"), eval_source="wikitext103", eval_path=SHARED / "wikitext-103")
    config.make()
    validation, test = config.build().parts["test"][1:]
    assert (validation.text.words, test.text.words) == (213_886, 241_211)
    assert (validation.text.bytes, test.text.bytes) == (1_142_309, 1_281_077)
    assert validation.length == 1_142_309 + 60 and test.length == 1_281_077 + 60

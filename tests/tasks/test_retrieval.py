"""Pairs of papers: the official files, and the stand-in's splits and negatives."""

import lzma
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tasks.imports import bring_in, texts
from tasks.official import aan, aan_line, citation_pairs

from zeta_core.attention import ZetaConfig
from zeta_core.errors import DataError, DataMissing
from zeta_core.model import ModelConfig
from zeta_core.tasks.citation_pairs import negative, read_citation_pairs, split_by_cited
from zeta_core.tasks.imported import PADDING
from zeta_core.tasks.retrieval import RetrievalConfig
from zeta_core.training.evaluate import loss_and_hits

REAL = Path(__file__).parents[3] / "shared" / "data" / "citation_pairs"


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ZETA_DATA", str(tmp_path / "data"))
    return tmp_path


def test_the_official_files_as_they_stand(root):
    data = bring_in(RetrievalConfig, aan(root / "tsv_data"))
    for split, name in {"train": "train", "validation": "eval", "test": "test"}.items():
        lines = [aan_line(name, index) for index in range(12)]
        assert texts(data, split) == [line[3].encode() for line in lines]
        assert texts(data, split, 1) == [line[4].encode() for line in lines]
        assert data.split(split).labels.tolist() == [0, 1] * 6
    assert data.manifest.notes == {"source": "aan"}


def test_documents_are_cut_and_padded_to_one_shape(root):
    bring_in(RetrievalConfig, aan(root / "tsv_data"))
    task = RetrievalConfig(seq_len=20).build()
    part = task.parts["test"][0]
    batch = part.batch(np.array([0, 1, 7]))
    assert batch.tokens.shape == batch.second.shape == (3, 20)
    for row, index in enumerate((0, 1, 7)):
        for tokens, mask, text in (
            (batch.tokens, batch.key_padding_mask, aan_line("test", index)[3]),
            (batch.second, batch.second_padding_mask, aan_line("test", index)[4]),
        ):
            assert bytes(tokens[row][~mask[row]].tolist()) == text.encode()[:20]
            assert (tokens[row][mask[row]] == PADDING).all()
    assert (task.num_documents, task.num_classes, task.majority, task.source) == (2, 2, 0.5, "aan")
    model = ModelConfig(form="encoder", pooling="cls").build(
        ZetaConfig(),
        vocab_size=task.vocab_size, max_len=task.max_len, num_classes=2, num_documents=2,
    )  # fmt: skip
    assert loss_and_hits(model, batch)[2] == 3


def test_the_official_files_come_first(root):
    with pytest.raises(DataMissing, match=r"new_aan_pairs.train.tsv, .*pairs.tsv .*zeta data import retrieval PATH"):
        RetrievalConfig().build()
    bring_in(RetrievalConfig, citation_pairs(root / "pairs"))
    stand_in = RetrievalConfig().build()
    assert stand_in.source == "stand-in: ACL citation pairs, split=cited"
    assert stand_in.parts["test"][0].name == stand_in.source
    with pytest.raises(DataMissing):
        RetrievalConfig(source="aan").build()
    bring_in(RetrievalConfig, aan(root / "tsv_data"))
    assert RetrievalConfig().build().source == RetrievalConfig(source="aan").build().source == "aan"
    explicit = RetrievalConfig(source="citation_pairs").build()
    assert explicit.source == stand_in.source and explicit.fingerprint != stand_in.fingerprint


@pytest.mark.parametrize("packed", [True, False])
def test_negatives_are_drawn_within_a_split_and_are_no_true_pairs(root, packed):
    path = citation_pairs(root / "pairs", packed=packed)
    pairs = [tuple(line.split("\t")) for line in (path / "pairs.tsv").read_text().splitlines()[1:]]
    data = bring_in(RetrievalConfig, path)
    cited_in = {}
    for split in ("train", "validation", "test"):
        ids = [
            tuple(text.split(b".")[0].removeprefix(b"On ").decode() for text in both)
            for both in zip(texts(data, split), texts(data, split, 1), strict=True)
        ]
        labels = data.split(split).labels
        assert labels.tolist() == [1, 0] * (len(ids) // 2)
        positive, negatives = ids[::2], ids[1::2]
        assert set(positive) <= set(pairs) and not set(negatives) & set(pairs)
        assert [one for one, _ in positive] == [one for one, _ in negatives]
        cited_in[split] = {cited for _, cited in positive}
        assert {cited for _, cited in negatives} <= cited_in[split]
    assert sum(len(found) for found in cited_in.values()) == len(set.union(*cited_in.values())) == 20
    assert [len(found) for found in cited_in.values()] == [14, 3, 3]
    notes = data.manifest.notes
    assert sum(notes["true_pairs"].values()) == len(pairs) and notes["split"] == "cited"
    assert notes["citing_papers_in_several_splits"] > 0


def test_a_negative_depends_on_its_split_and_index_alone():
    pairs = [(f"C{number}", f"D{number % 40}") for number in range(100)]
    true = set(pairs) | {("D3", "C0")}
    found = [negative("train", index, pairs, true) for index in range(100)]
    assert found == [negative("train", index, pairs, true) for index in range(100)]
    assert found != [negative("test", index, pairs, true) for index in range(100)]
    assert not set(found) & true and ("C0", "D3") not in {negative("train", 0, pairs, true)}
    counts = Counter(cited for _, cited in found)
    assert len(counts) > 30 and max(counts.values()) < 10
    with pytest.raises(DataError, match="'C0' cites every paper of the test split"):
        negative("test", 0, [("C0", "D1"), ("C0", "D2")], {("C0", "D1"), ("C0", "D2")})


def test_the_split_does_not_depend_on_the_order_of_the_pairs():
    pairs = [(f"C{number}", f"D{number % 40}") for number in range(100)]
    one, other = split_by_cited(pairs), split_by_cited(pairs[::-1])
    assert {split: set(found) for split, found in one.items()} == {s: set(found) for s, found in other.items()}
    assert sum(map(len, one.values())) == 100


@pytest.mark.skipif(not REAL.exists(), reason="the citation pairs are not there")
def test_the_real_stand_in():
    notes = {}
    splits = read_citation_pairs(REAL, notes, max_bytes=4000, drop_empty=False)
    assert notes["true_pairs"] == {"train": 1916, "validation": 441, "test": 411}
    assert sum(notes["cited_papers"].values()) == 821
    rows = list(splits["test"])
    assert len(rows) == 822 and all(len(tokens) <= 4000 for documents, _ in rows for tokens in documents)


WRONG_LINES = {
    "columns": ("1\tP\tQ\tsome text", "has 4 columns instead of 5 (label, id1, id2, text1, text2)"),
    "too many columns": ("1\tP\tQ\ta\tb\tc", "has 6 columns instead of 5"),
    "nothing": ("", "has 1 columns instead of 5"),
    "label": ("2\tP\tQ\ta\tb", "label='2' is none of the classes 0, 1"),
    "no label": ("label\tid1\tid2\ttext1\ttext2", "label='label' is none of"),
    "empty": ("1\tP\tQ\ta\t", "text2 is empty; --drop-empty"),
    "empty first": ("1\tP\tQ\t \tb", "text1 is empty; --drop-empty"),
}


@pytest.mark.parametrize(("line", "message"), WRONG_LINES.values(), ids=WRONG_LINES.keys())
def test_a_wrong_line_is_named_and_what_was_there_stays(line, message, root):
    path = aan(root / "tsv_data", each=3)
    bring_in(RetrievalConfig, path)
    before = RetrievalConfig().build().fingerprint
    with (path / "new_aan_pairs.eval.tsv").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError) as raised:
        bring_in(RetrievalConfig, path)
    assert f"new_aan_pairs.eval.tsv:4: {message}" in str(raised.value)
    assert RetrievalConfig().build().fingerprint == before
    assert sorted(one.name for one in (root / "data").iterdir() if not one.name.endswith(".lock")) == [
        RetrievalConfig().dataset().folder.name
    ]


def test_pairs_with_an_empty_document_may_be_left_out(root):
    path = aan(root / "tsv_data", each=3)
    for name in ("train", "test"):
        with (path / f"new_aan_pairs.{name}.tsv").open("a") as file:
            file.write("1\tP\tQ\ta\t\n")
    data = bring_in(RetrievalConfig, path, drop_empty=True)
    assert len(data.split("train")) == 3 and data.manifest.notes["empty_left_out"] == 2


def test_files_that_are_missing_or_broken_are_named(root):
    path = aan(root / "tsv_data", each=3)
    (path / "new_aan_pairs.eval.tsv").rename(path / "dev.tsv")
    with pytest.raises(DataError, match=r"new_aan_pairs.eval.tsv: there is no such file, so no validation split"):
        bring_in(RetrievalConfig, path)
    assert len(bring_in(RetrievalConfig, path, validation="dev.tsv").split("validation")) == 3
    (path / "dev.tsv").write_bytes(b"1\tP\tQ\ta\tb\n0\tP\tQ\t\xe9\tb\n")
    with pytest.raises(DataError, match=r"dev.tsv: byte 16 is not UTF-8"):
        bring_in(RetrievalConfig, path, validation="dev.tsv")
    (path / "dev.tsv").write_text("")
    with pytest.raises(DataError, match=r"dev.tsv: holds no rows"):
        bring_in(RetrievalConfig, path, validation="dev.tsv")
    (root / "nothing").mkdir()
    with pytest.raises(DataError, match=r"nothing: does not have AAN's pairs"):
        bring_in(RetrievalConfig, root / "nothing")


def test_a_broken_stand_in_is_named(root):
    path = citation_pairs(root / "pairs")
    good = (path / "pairs.tsv").read_text()
    for text, message in (
        (good + "C1\n", r"pairs.tsv:\d+: has 1 columns instead of 2"),
        (good + "C1\tX9\n", r"pairs.tsv:\d+: cited_id='X9' is not among the papers"),
        (good + "C1\tC1\n", r"pairs.tsv:\d+: 'C1' cites itself"),
        (good + good.splitlines()[1] + "\n", r"pairs.tsv: has 1 pairs twice"),
        (good.split("\n", 1)[1], r"pairs.tsv:1: must be the header citing_id, cited_id"),
        ("citing_id\tcited_id\n", r"pairs.tsv: holds no rows"),
        ("citing_id\tcited_id\nC0\tD0\n", r"has too few cited papers for a train split"),
    ):
        (path / "pairs.tsv").write_text(text)
        with pytest.raises(DataError, match=message):
            bring_in(RetrievalConfig, path)
    (path / "pairs.tsv").write_text(good)
    packed = (path / "papers.jsonl.xz").read_bytes()
    for content, message in (
        (packed[: len(packed) // 2], "papers.jsonl.xz: cannot be unpacked"),
        (b"no xz", "papers.jsonl.xz: cannot be unpacked"),
        (lzma.compress(b'{"id": "C0"}\n'), r"papers.jsonl.xz:1: must be an object with `id` and `text`"),
        (lzma.compress(b"\xff\n"), r"papers.jsonl.xz:1: byte 0 of the line is not UTF-8"),
    ):
        (path / "papers.jsonl.xz").write_bytes(content)
        with pytest.raises(DataError, match=message):
            bring_in(RetrievalConfig, path)
    (path / "papers.jsonl.xz").unlink()
    with pytest.raises(DataError, match=r"has pairs.tsv but no papers.jsonl.xz"):
        bring_in(RetrievalConfig, path)

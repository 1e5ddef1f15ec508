"""Pairs of citing and cited papers, as a stand-in for Long Range Arena's: 2,768 pairs of 1,549 ACL papers, made from
github.com/WING-NUS/scisumm-corpus (CC BY 4.0).

A folder has pairs.tsv (citing_id, cited_id, with that header) and papers.jsonl.xz or papers.jsonl ({"id", "text"} a
line). Nearly all pairs hang together, so the split is by cited paper: no cited paper is in two splits, and a citing
one may be. For each pair there is a negative: the same citing paper, and the cited paper of another pair of that
split, so that papers are cited about as often in negatives as in positives; never a true pair, whatever its direction
or split."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from zeta_core.errors import DataError

from .imported import is_empty, tokens_of
from .json_lines import encoded, json_lines
from .lines import table_rows
from .store_write import Row
from .task import SPLITS, Split

PAIRS = "pairs.tsv"
PAPERS = ("papers.jsonl.xz", "papers.jsonl")
COLUMNS = ("citing_id", "cited_id")
SHARES = {"train": 0.7, "validation": 0.15, "test": 0.15}
"""Of the cited papers."""
SEED = 0
PARAMETERS: dict[str, object] = {"split": "cited", "shares": SHARES, "negatives": 1, "seed": SEED}


def read_citation_pairs(
    path: Path, notes: dict[str, object], *, max_bytes: int, drop_empty: bool
) -> dict[Split, Iterator[Row]]:
    """Positives and negatives of each split, each positive followed by its negative.

    notes: gets the numbers of pairs and cited papers, and of citing papers that are in several splits.
    Raises: DataError naming the line that is wrong, or the paper that is missing."""
    pairs, papers = _pairs(path / PAIRS), _papers(path)
    for number, pair in enumerate(pairs, 2):
        for name, paper in zip(COLUMNS, pair, strict=True):
            if paper not in papers:
                raise DataError(f"{path / PAIRS}:{number}: {name}={paper!r} is not among the papers")
    splits = split_by_cited(pairs)
    for split in SPLITS:
        if len({cited for _, cited in splits[split]}) < 2:
            raise DataError(f"{path / PAIRS}: has too few cited papers for a {split} split with negatives")
    citing = {split: {one for one, _ in splits[split]} for split in SPLITS}
    several = sum(sum(one in citing[split] for split in SPLITS) > 1 for one in set.union(*citing.values()))
    notes |= {
        "split": "cited",
        "true_pairs": {split: len(splits[split]) for split in SPLITS},
        "cited_papers": {split: len({cited for _, cited in splits[split]}) for split in SPLITS},
        "citing_papers_in_several_splits": several,
    }
    true = set(pairs)
    return {
        split: _rows(
            split, splits[split], true, papers, path / PAIRS, notes, max_bytes=max_bytes, drop_empty=drop_empty
        )
        for split in SPLITS
    }


def split_by_cited(pairs: Sequence[tuple[str, str]]) -> dict[Split, list[tuple[str, str]]]:
    """The pairs of each split, in the given order; the cited papers are shuffled by a counter and cut at SHARES."""
    cited = sorted({cited for _, cited in pairs})
    order = np.argsort(_stream("cited", 0).random_raw(len(cited)), kind="stable")
    ends = np.cumsum([round(share * len(cited)) for share in SHARES.values()])
    ends[-1] = len(cited)
    place = {cited[paper]: int(np.searchsorted(ends, rank, side="right")) for rank, paper in enumerate(order)}
    return {split: [pair for pair in pairs if place[pair[1]] == number] for number, split in enumerate(SPLITS)}


def negative(
    split: Split, index: int, pairs: Sequence[tuple[str, str]], true: set[tuple[str, str]]
) -> tuple[str, str]:
    """The negative of pair number `index` of a split: its citing paper and the cited one of another pair.

    It is drawn from a stream that is the index's own, again and again until it is no true pair.
    Raises: DataError if none is."""
    citing = pairs[index][0]
    for words in _stream(split, index + 1).random_raw((64, 64)):
        for word in words:
            cited = pairs[int(word % np.uint64(len(pairs)))][1]
            if cited != citing and (citing, cited) not in true and (cited, citing) not in true:
                return citing, cited
    raise DataError(f"{citing!r} cites every paper of the {split} split, or nearly; there is no negative for it")


def _stream(purpose: str, index: int) -> np.random.Philox:
    """A stream of words that depends on these alone."""
    key = hashlib.sha256(json.dumps(["citation_pairs", SEED, purpose]).encode()).digest()[:16]
    return np.random.Philox(key=int.from_bytes(key, "little"), counter=index << 64)


def _rows(
    split: Split,
    pairs: Sequence[tuple[str, str]],
    true: set[tuple[str, str]],
    papers: Mapping[str, bytes],
    file: Path,
    notes: dict[str, object],
    *,
    max_bytes: int,
    drop_empty: bool,
) -> Iterator[Row]:
    for index, pair in enumerate(pairs):
        for label, (citing, cited) in ((1, pair), (0, negative(split, index, pairs, true))):
            contents = (papers[citing], papers[cited])
            if not is_empty(contents, f"{file}: {citing}, {cited}", notes, drop_empty=drop_empty):
                yield tuple(tokens_of(content[:max_bytes]) for content in contents), label


def _pairs(file: Path) -> list[tuple[str, str]]:
    found = []
    for number, (citing, cited) in table_rows(file, COLUMNS, has_header=True):
        if citing == cited:
            raise DataError(f"{file}:{number}: {citing!r} cites itself")
        found.append((citing, cited))
    if len(set(found)) < len(found):
        raise DataError(f"{file}: has {len(found) - len(set(found))} pairs twice; keep each once")
    return found


def _papers(path: Path) -> dict[str, bytes]:
    file = next((path / name for name in PAPERS if (path / name).exists()), None)
    if file is None:
        raise DataError(f"{path}: has {PAIRS} but no {PAPERS[0]} with the papers' texts")
    found: dict[str, bytes] = {}
    for place, values in json_lines(file):
        paper, text = values.get("id"), values.get("text")
        if not isinstance(paper, str) or not isinstance(text, str):
            raise DataError(f"{place}: must be an object with `id` and `text`")
        found[paper] = encoded(text, place)
    return found

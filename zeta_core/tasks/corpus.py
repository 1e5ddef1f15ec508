"""Running text as tokens on disk: documents of a source, tokenised once into the store's shards.

An example of the store is a document, each followed by the separator, so that the shards of a split, laid end to end,
are its stream of tokens. Beside them lie what the manifest's notes sum up:

    sizes-train.npy ...    [documents, 2] int64: words (between white space) and UTF-8 bytes of the original text
    vocabulary.json        the words by id, where the tokenizer is made from the training split"""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from zeta_core.errors import DataError

from .corpus_spool import Spool, open_spool, spooled
from .language_sources import Source
from .store import Dataset, Examples, Spec, open_spec, pack
from .store_files import locked, removed, write_whole
from .store_write import Report, make
from .task import SPLITS, Split
from .tokenizers import (
    LINE_END,
    UNKNOWN,
    ByteTokenizer,
    Tokenizer,
    TokenizerKind,
    WordTokenizer,
    from_json,
    gpt2_bpe,
    split_words,
)

VOCABULARY = "vocabulary.json"
FORMAT = 1
"""Raised when the same text would be stored as other tokens than before."""
SHARDS, SMALLEST_SHARD = 64, 32
"""Shards of the training split at most, and documents of each at least."""
BYTES_A_SECOND: Mapping[TokenizerKind, float] = {"bytes": 2e7, "gpt2_bpe": 1.5e6, "json": 1.5e6, "words": 4e6}
"""About how much text one core tokenises."""
Reading = Callable[[int], None]


@lru_cache(maxsize=4)
def load_tokenizer(kind: TokenizerKind, path: Path | None) -> Tokenizer:
    """A tokenizer that needs no corpus. Raises: DataError if its files are missing or not what they should be."""
    if kind == "bytes":
        return ByteTokenizer()
    if path is None:
        wants = "a folder with encoder.json and vocab.bpe" if kind == "gpt2_bpe" else "a tokenizer.json"
        raise DataError(f"tokenizer={kind} needs task.tokenizer_path: {wants}")
    return gpt2_bpe(path) if kind == "gpt2_bpe" else from_json(path)


@dataclass(frozen=True)
class Corpus:
    """A source and what tokenises it. max_vocab: words at most, where they are the tokens.

    words: the tokenizer, where it is another corpus's words; None: made from this one."""

    source: Source
    tokenizer: TokenizerKind
    tokenizer_path: Path | None
    max_vocab: int | None
    again: str
    words: Tokenizer | None = None

    @property
    def counts_words(self) -> bool:
        """Whether the tokenizer is made from this corpus."""
        return self.tokenizer == "words" and self.words is None

    @cached_property
    def spec(self) -> Spec:
        """What the folder of these tokens is of; of a vocabulary still to be counted, its size is not right yet."""
        known = None if self.counts_words else self.words or load_tokenizer(self.tokenizer, self.tokenizer_path)
        chosen = f"words, {self.max_vocab} at most" if known is None else known.identity
        return self._spec(chosen, 1 if known is None else known.vocab_size, SMALLEST_SHARD)

    def _spec(self, tokenizer: str, vocab_size: int, shard_size: int) -> Spec:
        return Spec(
            task="language",
            label=f"{self.source.kind}-{self.tokenizer}",
            parameters={"format": FORMAT, **self.source.identity(), "tokenizer": tokenizer},
            vocab_size=vocab_size,
            num_classes=1,
            again=self.again,
            shard_size=shard_size,
        )

    @property
    def seconds(self) -> float | None:
        """About how long making them takes on one core; None if nobody knows."""
        size = self.source.num_bytes()
        return None if size is None else size / BYTES_A_SECOND[self.tokenizer]

    def dataset(self) -> Dataset:
        """The tokens on disk. Raises: DataMissing if they are not made; DataError, also for a broken source."""
        return open_spec(self.spec)

    def make(self, *, workers: int, report: Report, reading: Reading) -> Dataset:
        """Make the tokens, or the rest of them; the files do not depend on the number of workers.

        What was read and tokenised before a kill is kept, but for a source read half. reading: is told how many
        documents were read. Raises: DataError for a source that is broken; StorageError; RunFailed."""
        folder = self.spec.folder
        place = folder.with_name(f".{folder.name}.documents")
        with locked(folder.with_name(f"{folder.name}.documents")):
            try:
                return self.dataset()
            except DataError:
                for stale in place.parent.glob(f"{place.name}.[0-9]*"):
                    removed(stale)
            where = str(self.source.path or self.source.name or self.source.kind)
            spool = spooled(place, self.source.documents, whole=self.source.whole, where=where, reading=reading)
            if self.counts_words and not (place / VOCABULARY).exists():
                write_whole(place / VOCABULARY, json.dumps(vocabulary(spool, self.max_vocab)).encode())
            produce = Produce(place, self.tokenizer, self.tokenizer_path, self.words)
            counts = {split: len(spool.orders[split]) for split in SPLITS}
            size = max(SMALLEST_SHARD, -(-max(counts.values()) // SHARDS))
            spec = self._spec(str(self.spec.parameters["tokenizer"]), produce.load().vocab_size, size)
            data = make(
                spec,
                produce,
                counts,
                workers=workers,
                report=report,
                notes=lambda: self._notes(spool, produce.load()),
            )
            removed(place)
            return data

    def _notes(self, spool: Spool, tokenizer: Tokenizer) -> dict[str, object]:
        """What the manifest keeps, and the files beside it that this writes."""
        folder, totals, files = self.spec.folder, {}, {}
        contents: dict[str, bytes] = {}
        for split in SPLITS:
            sizes = spool.sizes[spool.orders[split]]
            text = io.BytesIO()
            np.save(text, sizes)
            contents[sizes_name(split)] = text.getvalue()
            words, size = (int(number) for number in sizes.sum(0))
            totals[split] = {
                "documents": len(sizes),
                "tokens": _tokens(folder / split),
                "words": words,
                "bytes": size,
            }
        if self.counts_words:
            contents[VOCABULARY] = (spool.folder / VOCABULARY).read_bytes()
        for name, content in contents.items():
            write_whole(folder / name, content)
            files[name] = hashlib.sha256(content).hexdigest()
        found: dict[str, object] = {"source": self.source.label, "tokenizer": tokenizer.identity}
        found |= {"separator": tokenizer.separator, "totals": totals, "files": files}
        return found | ({"blank_left_out": spool.empty} if spool.empty else {})


@dataclass(frozen=True)
class Produce:
    """Tokenises documents of a spool; can be sent to other processes."""

    spool: Path
    tokenizer: TokenizerKind
    path: Path | None
    words: Tokenizer | None

    def load(self) -> Tokenizer:
        """The tokenizer."""
        if self.tokenizer != "words":
            return load_tokenizer(self.tokenizer, self.path)
        return self.words or read_words(self.spool / VOCABULARY)

    def __call__(self, split: Split, start: int, stop: int) -> Examples:
        """Documents start..stop-1 of a split, each with a separator behind it."""
        tokenizer = self.load()
        found = [
            np.append(tokenizer.encode(text), tokenizer.separator)
            for text in open_spool(self.spool).texts(split, start, stop)
        ]
        return Examples(np.zeros(len(found), dtype=np.int64), (pack(found),))


@lru_cache(maxsize=2)
def read_words(path: Path) -> WordTokenizer:
    """The tokenizer of a vocabulary."""
    return WordTokenizer(json.loads(path.read_bytes()))


def vocabulary(spool: Spool, most: int | None) -> list[str]:
    """The words of the training split, the commonest first, `<unk>` and `<eos>` before them; `most` of them all."""
    counts: Counter[str] = Counter()
    for text in spool.texts("train", 0, len(spool.orders["train"])):
        counts.update(split_words(text))
    for name in (UNKNOWN, LINE_END):
        counts.pop(name, None)
    words = sorted(counts, key=lambda word: (-counts[word], word))
    return [UNKNOWN, LINE_END, *words][:most]


def sizes_name(split: Split) -> str:
    """The file with the words and bytes of a split's documents."""
    return f"sizes-{split}.npy"


def read_beside(data: Dataset, name: str) -> bytes:
    """A file beside the shards. Raises: DataError if it is not what the manifest's notes say."""
    path = data.folder / name
    files = data.manifest.notes.get("files")
    wanted = files.get(name) if isinstance(files, dict) else None
    content = path.read_bytes() if path.is_file() else None
    if content is None or hashlib.sha256(content).hexdigest() != wanted:
        state = "is missing" if content is None else "is not what the manifest says of it (sha256)"
        raise DataError(f"{path}: {state}; delete the folder {data.folder} and make it again")
    return content


def sizes_of(data: Dataset, split: Split) -> np.ndarray:
    """Words and bytes of a split's documents: [documents, 2] int64. Raises: DataError."""
    found: np.ndarray = np.load(io.BytesIO(read_beside(data, sizes_name(split))))
    return found


def words_of(data: Dataset) -> WordTokenizer:
    """The tokenizer made from a corpus's training split. Raises: DataError."""
    return WordTokenizer(json.loads(read_beside(data, VOCABULARY)))


def _tokens(folder: Path) -> int:
    """How many tokens the shards in a folder hold."""
    return sum(len(np.load(path, mmap_mode="r")) for path in folder.glob("*/tokens.npy"))

"""Language: the next token of running text (Merity et al. 2016 for WikiText-103).

    stream   | i m p o r t   o s | d e f ...     documents behind each other; `|` is the separator
    tokens   | i m p o r                         a window of seq_len tokens
    labels   i m p o r t                         the token that follows each of them

Documents go to the splits by the sha256 of what they hold, or of their id: about a twentieth each for validation and
test. WikiText-103 keeps its own splits, and a single text file is cut in three.

What is scored: every token of the split's documents, and the separator behind each document, exactly once; the first
token's context is a separator. Without `stride` windows do not overlap, and a window's first tokens have little
context. With it a window begins `stride` tokens behind the one before, and its last `stride` tokens are scored: each
token but the first seq_len has seq_len - stride before it at least. The last window is short.

`loss` and `perplexity` are a token's, and separators count. `word_perplexity` is exp of the same sum of nats over the
words between white space, `bits_per_byte` that sum in bits over the UTF-8 bytes of the text; separators are no words
and no bytes. WikiText's own word-level figures count a token for each end of a line, too, and are lower for it. The
tokenizer `words` guesses `<unk>` for many words at once, so it has no bits a byte, and its perplexities compare with
those of the same vocabulary alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from zeta_core.config import NOT_IDENTITY, TextPath, identity
from zeta_core.errors import DataError, OptionError

from .corpus import Corpus, load_tokenizer, sizes_of, words_of
from .language_parts import Stream, WindowPart
from .language_sources import Source, SourceKind
from .made import MadeConfig
from .store import Dataset
from .store_write import Report
from .task import SPLITS, Part, Split, TaskData, TextSize
from .tokenizers import GPT2_SIZE, Tokenizer, TokenizerKind

SMALL_MODEL: Mapping[str, object] = {"d_model": 128, "num_layers": 2, "num_heads": 4, "short_conv": 3}
PAPER_MODEL: Mapping[str, object] = {"d_model": 768, "num_layers": 12, "num_heads": 12, "short_conv": 3}


class LanguageConfig(MadeConfig):
    """Language: the next token of running text, from Python's own library or a corpus of yours."""

    kind: Literal["language"] = "language"
    source: SourceKind = "python_stdlib"
    """python_stdlib: the sources of the Python that runs this. text: a file, or a folder with *.txt. jsonl: JSON
    lines, packed or not. wikitext103: the official files. datasets: streamed by the `datasets` package."""
    path: TextPath | None = Field(default=None, json_schema_extra=NOT_IDENTITY)
    """The source's file or folder. What it holds, not where it lies, is part of the data's fingerprint."""
    text_field: str = "text"
    """Of a JSON line or a row; beside it, `id` says which lines are of one document."""
    dataset_name: str | None = None
    dataset_subset: str | None = None
    dataset_split: str = "train"
    max_documents: PositiveInt | None = None
    """Documents of `jsonl` and `datasets` that are read; None: all."""
    eval_source: SourceKind | None = None
    """A second corpus that is only tested on, a slice of its own beside `all`; WikiText-103 makes two of them."""
    eval_path: TextPath | None = Field(default=None, json_schema_extra=NOT_IDENTITY)
    tokenizer: TokenizerKind = "bytes"
    tokenizer_path: TextPath | None = Field(default=None, json_schema_extra=NOT_IDENTITY)
    """A folder with encoder.json and vocab.bpe, or a tokenizer.json."""
    max_vocab: int | None = Field(default=None, ge=3)
    """Words of the tokenizer `words` at most, the commonest of the training split; None: all of them."""
    seq_len: PositiveInt = 256
    stride: PositiveInt | None = None
    """Of windows in validation and test; None: they do not overlap."""
    max_train_tokens: PositiveInt | None = None
    """The first so many tokens are trained on; None: all."""
    max_eval_tokens: PositiveInt | None = None
    """Documents are scored up to so many tokens of each slice, one document at least; None: all."""
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "small": {
            "task": {"seq_len": 256, "max_eval_tokens": 100_000},
            "attention": {"kind": "zeta", "top_k": 16, "chunk_size": 32, "local_window": 16},
            "model": SMALL_MODEL,
            "training": {
                "steps": 600,
                "batch_size": 16,
                "learning_rate": 2e-3,
                "warmup_steps": 50,
                "eval_every": 200,
            },
        },
        "paper": {
            "task": {"source": "wikitext103", "tokenizer": "gpt2_bpe", "seq_len": 1024},
            "attention": {"kind": "zeta", "d_k": 3, "top_k": 32, "chunk_size": 64},
            "model": PAPER_MODEL,
            "training": {
                "steps": 40_000,
                "batch_size": 64,
                "accumulate": 4,
                "learning_rate": 6e-4,
                "warmup_steps": 2000,
                "eval_every": 1000,
            },
        },
    }

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.stride is not None and self.stride > self.seq_len:
            raise OptionError(f"stride={self.stride} is above seq_len={self.seq_len}; use at most {self.seq_len}")
        for name, source, path in (("", self.source, self.path), ("eval_", self.eval_source, self.eval_path)):
            if path is not None and source in (None, "python_stdlib", "datasets"):
                raise OptionError(
                    f"{name}path={path} is not read with {name}source={source}; set {name}source to text, jsonl or "
                    "wikitext103"
                )
        sources = {self.source, self.eval_source}
        for name, used, wanted in (
            ("tokenizer_path", self.tokenizer in ("gpt2_bpe", "json"), "tokenizer=gpt2_bpe or json"),
            ("max_vocab", self.tokenizer == "words", "tokenizer=words"),
            ("dataset_name", "datasets" in sources, "source=datasets"),
            ("dataset_subset", "datasets" in sources, "source=datasets"),
            ("max_documents", bool(sources & {"datasets", "jsonl"}), "source=jsonl or datasets"),
        ):
            if getattr(self, name) is not None and not used:
                raise OptionError(f"{name}={getattr(self, name)} does nothing without {wanted}; leave it out")
        return self

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return self.seq_len

    @property
    def vocab_size(self) -> int:
        """How many tokens there are, the separator too; GPT-2's without its files. Raises: as load_tokenizer."""
        return GPT2_SIZE if self.tokenizer == "gpt2_bpe" else self.load_tokenizer().vocab_size

    def load_tokenizer(self) -> Tokenizer:
        """The tokenizer.

        Raises: DataError if its files are missing or not what they should be; DataMissing if it is made from the
        words of a corpus that is not there."""
        if self.tokenizer == "words":
            return words_of(self.corpus.dataset())
        return load_tokenizer(self.tokenizer, self.tokenizer_path)

    @cached_property
    def corpus(self) -> Corpus:
        """What is trained on."""
        source = Source(
            self.source, self.path, text_field=self.text_field, name=self.dataset_name, subset=self.dataset_subset,
            rows=self.dataset_split, max_documents=self.max_documents,
        )  # fmt: skip
        return Corpus(source, self.tokenizer, self.tokenizer_path, self.max_vocab, self.command)

    def eval_corpus(self) -> Corpus | None:
        """What is tested on beside it, with the same tokenizer. Raises: as load_tokenizer."""
        if self.eval_source is None:
            return None
        source = Source(
            self.eval_source, self.eval_path, text_field=self.text_field, name=self.dataset_name,
            subset=self.dataset_subset, rows=self.dataset_split, max_documents=self.max_documents, whole=True,
        )  # fmt: skip
        words = self.load_tokenizer() if self.tokenizer == "words" else None
        return Corpus(source, self.tokenizer, self.tokenizer_path, self.max_vocab, self.command, words)

    @property
    def total(self) -> None:
        """Nobody knows how many documents a source has before it is read."""
        return None

    @property
    def amount(self) -> str:
        """What is made, in words."""
        return f"tokens of {self.corpus.source.label}"

    @property
    def folder(self) -> Path:
        """Where the tokens lie, made or not."""
        return self.corpus.spec.folder

    @property
    def seconds(self) -> float | None:
        """About how long making the tokens takes on one core; None if nobody knows."""
        return self.corpus.seconds

    def make(
        self,
        *,
        workers: int = 1,
        report: Report = lambda split, done, total, made: None,
        reading: Callable[[int], None] = lambda number: None,
    ) -> Dataset:
        """Make the tokens of both corpora, or the rest of them."""
        data = self.corpus.make(workers=workers, report=report, reading=reading)
        if (other := self.eval_corpus()) is not None:
            before = {split: record.examples for split, record in data.manifest.splits.items()}

            def after(split: Split, done: int, total: int | None, made: bool) -> None:
                report(split, before[split] + done, total, made)

            other.make(workers=workers, report=after, reading=reading)
        return data

    def dataset(self) -> Dataset:
        """The corpus that is trained on; the other one is there, too. Raises: DataMissing, DataError."""
        data = self.corpus.dataset()
        if (other := self.eval_corpus()) is not None:
            other.dataset()
        return data

    def build(self) -> TaskData:
        """Windows over the tokens. Raises: DataMissing; DataError, above all for less text than one window."""
        data, other = self.dataset(), self.eval_corpus()
        name = str(data.manifest.notes["source"])
        parts: dict[Split, tuple[Part, ...]] = {split: (self._part(data, split, name),) for split in SPLITS}
        found, source = [data.manifest.fingerprint], f"{name}, {self.tokenizer}"
        if other is not None:
            more = other.dataset()
            found.append(more.manifest.fingerprint)
            both = [split for split in SPLITS if len(more.split(split))]
            source += f"; tested on {other.source.label}, too"
            label = other.source.label + (", whole" if other.source.label == name else "")
            names = {split: f"{label} {split}" if len(both) > 1 else label for split in both}
            parts["test"] += tuple(self._part(more, split, names[split], apart=True) for split in both)
        text = json.dumps([identity(self), found], sort_keys=True)
        return TaskData(
            parts=parts,
            vocab_size=data.manifest.vocab_size,
            max_len=self.seq_len,
            num_classes=None,
            metric="loss",
            fingerprint=hashlib.sha256(text.encode()).hexdigest()[:16],
            source=source,
        )

    def _part(self, data: Dataset, split: Split, name: str, *, apart: bool = False) -> WindowPart:
        """A slice of a split, as much of it as is asked for."""
        stored, separator = data.split(split), data.manifest.notes["separator"]
        assert isinstance(separator, int)
        stream = Stream(stored, separator)
        if split == "train" and len(stream) < self.seq_len:
            raise DataError(
                f"{name}: has {len(stream)} tokens to train on, less than one window of seq_len={self.seq_len}; use "
                "more text or a smaller seq_len"
            )
        if not len(stream):
            raise DataError(f"{name}: the {split} split has no documents; use more text")
        make = partial(WindowPart, stream, name=name, seq_len=self.seq_len, vocab_size=data.manifest.vocab_size)
        if split == "train":
            return make(stride=None, length=min(len(stream), self.max_train_tokens or len(stream)), text=None)
        ends = np.cumsum(stored.lengths())
        number = max(1, int(np.searchsorted(ends, self.max_eval_tokens or len(stream), side="right")))
        words, size = (int(count) for count in sizes_of(data, split)[:number].sum(0))
        text = TextSize(words, None if self.tokenizer == "words" else size)
        return make(stride=self.stride, length=int(ends[number - 1]), text=text, apart=apart)

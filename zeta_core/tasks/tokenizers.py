"""Tokenizers of text: bytes, GPT-2's byte pairs, a `tokenizer.json`, words."""

from __future__ import annotations

import hashlib
import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from zeta_core.errors import DataError

from .lines import read_bytes

TokenizerKind: TypeAlias = Literal["bytes", "gpt2_bpe", "json", "words"]
SEPARATORS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[SEP]")
"""What a `tokenizer.json` may call the token that ends a document; the first that it has is taken."""
GPT2_SIZE, GPT2_MERGES = 50_257, 50_000
SAMPLE = "Round trip: 12.5 %\n\n\tdef f(x):\n        return 'naïve — 漢字 🙂'  "
UNKNOWN, LINE_END = "<unk>", "<eos>"


class Tokenizer(ABC):
    """Text to token ids and back.

    vocab_size: ids are below it, the separator's included. separator: the id of the token before and behind every
    document. identity: a hash of all that decides the ids."""

    vocab_size: int
    separator: int
    identity: str

    @abstractmethod
    def encode(self, text: str) -> np.ndarray:
        """The text's ids: [tokens] int64, no separator among them unless the text itself has that token."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids; separators are left out."""


class ByteTokenizer(Tokenizer):
    """UTF-8 bytes 0..255; 256 is the separator. Bytes that are no UTF-8 are decoded as U+FFFD."""

    vocab_size = 257
    separator = 256
    identity = "bytes"

    def encode(self, text: str) -> np.ndarray:
        """The text's bytes."""
        return np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int64)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these bytes."""
        return bytes(one for one in map(int, ids) if one != self.separator).decode("utf-8", errors="replace")


class PackageTokenizer(Tokenizer):
    """A tokenizer of the package `tokenizers`. It adds no special tokens by itself.

    inner: a tokenizers.Tokenizer. separator: the id of the token that ends documents."""

    def __init__(self, inner: Any, *, separator: int, identity: str) -> None:
        self.inner, self.separator, self.identity = inner, separator, identity
        self.vocab_size = 1 + max(inner.get_vocab(with_added_tokens=True).values())

    def encode(self, text: str) -> np.ndarray:
        """The text's ids."""
        return np.array(self.inner.encode(text, add_special_tokens=False).ids, dtype=np.int64)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids."""
        kept = [one for one in map(int, ids) if one != self.separator]
        return str(self.inner.decode(kept, skip_special_tokens=False))


class WordTokenizer(Tokenizer):
    """Words between white space; the end of a line is the token `<eos>`, as WikiText counts it, other words `<unk>`.

    words: the vocabulary, by id, `<unk>` and `<eos>` among them; the separator follows it. Decoding gives one blank
    between words, so text comes back as it was only if it was so."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = [*words, ""]
        self.ids = {word: index for index, word in enumerate(words)}
        self.separator, self.vocab_size = len(words), len(words) + 1
        self.unknown, self.line_end = self.ids[UNKNOWN], self.ids[LINE_END]
        self.identity = f"words-{_digest(json.dumps(list(words)).encode())}"

    def encode(self, text: str) -> np.ndarray:
        """The words' ids."""
        return np.array([self.ids.get(word, self.unknown) for word in split_words(text)], dtype=np.int64)

    def decode(self, ids: Sequence[int]) -> str:
        """The words with blanks between them, and lines."""
        words = (self.words[one] for one in map(int, ids) if one != self.separator)
        lines = " ".join("\n" if word == LINE_END else word for word in words)
        return lines.replace(" \n", "\n").replace("\n ", "\n")


def split_words(text: str) -> list[str]:
    """The words of a text, and `<eos>` for each end of a line."""
    found: list[str] = []
    for line in text.split("\n"):
        found += [*line.split(), LINE_END]
    return found[:-1]


def gpt2_bpe(folder: Path) -> PackageTokenizer:
    """GPT-2's tokenizer from a folder with `encoder.json` and `vocab.bpe`; `<|endoftext|>` is the separator.

    Raises: DataError if a file is missing or is not GPT-2's: 50,257 entries, 50,000 merges, text that comes back."""
    package = _package()
    contents = {name: _content(folder / name, "gpt2_bpe") for name in ("encoder.json", "vocab.bpe")}
    try:
        vocabulary = json.loads(contents["encoder.json"])
        right = sorted(vocabulary.values()) == list(range(GPT2_SIZE)) and SEPARATORS[0] in vocabulary
    except (ValueError, AttributeError, TypeError):
        right = False
    if not right:
        raise DataError(
            f"{folder / 'encoder.json'}: is not GPT-2's vocabulary, an object of {GPT2_SIZE:,} tokens with ids from 0"
        )
    lines = contents["vocab.bpe"].decode("utf-8", errors="replace").split("\n")
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    if len(merges) != GPT2_MERGES or any(len(merge) != 2 for merge in merges):
        raise DataError(f"{folder / 'vocab.bpe'}: does not hold GPT-2's {GPT2_MERGES:,} merges, two tokens a line")
    try:
        inner = package.Tokenizer(package.models.BPE(vocab=vocabulary, merges=merges))
    except Exception as error:  # the package raises nothing more exact
        raise DataError(f"{folder}: encoder.json and vocab.bpe do not fit together ({error})") from None
    inner.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    inner.decoder = package.decoders.ByteLevel()
    identity = f"gpt2_bpe-{_digest(contents['encoder.json'], contents['vocab.bpe'])}"
    made = PackageTokenizer(inner, separator=vocabulary[SEPARATORS[0]], identity=identity)
    if made.decode(made.encode(SAMPLE).tolist()) != SAMPLE:
        raise DataError(f"{folder}: text does not come back from these files as it was; they are not GPT-2's")
    return made


def from_json(path: Path) -> PackageTokenizer:
    """Any `tokenizer.json`. The separator is the first of SEPARATORS that it has.

    Raises: DataError if the file is missing, is no tokenizer, or has no such token."""
    package = _package()
    if path.is_dir():
        path = path / "tokenizer.json"
    content = _content(path, "json")
    try:
        inner = package.Tokenizer.from_str(content.decode())
    except Exception as error:  # the package raises nothing more exact
        raise DataError(f"{path}: is not a tokenizer of the package `tokenizers` ({error})") from None
    inner.no_truncation()
    inner.no_padding()
    separator = next((found for name in SEPARATORS if (found := inner.token_to_id(name)) is not None), None)
    if separator is None:
        raise DataError(f"{path}: has none of the tokens {', '.join(SEPARATORS)} to put between documents; add one")
    return PackageTokenizer(inner, separator=separator, identity=f"json-{_digest(content)}")


def _content(path: Path, kind: TokenizerKind) -> bytes:
    if not path.is_file():
        raise DataError(f"{path}: there is no such file, which tokenizer={kind} needs; set task.tokenizer_path")
    return read_bytes(path)


def _package() -> Any:
    try:
        return importlib.import_module("tokenizers")
    except ImportError:
        raise DataError(
            "the package `tokenizers` is not there; pip install 'zeta-attention[language]', or use tokenizer=bytes"
        ) from None


def _digest(*contents: bytes) -> str:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()[:16]

"""Tokenizers: text comes back, and files that are not what they should be are named."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeta_core.errors import DataError
from zeta_core.tasks.tokenizers import (
    SAMPLE,
    ByteTokenizer,
    WordTokenizer,
    from_json,
    gpt2_bpe,
    split_words,
)

REAL = Path(__file__).parents[3] / "shared" / "data" / "gpt2_bpe"
WORDS = WordTokenizer(["<unk>", "<eos>", "the", "cat"])


@given(st.text())
def test_bytes_are_the_bytes(text):
    tokens = ByteTokenizer().encode(text)
    assert tokens.dtype == np.int64 and tokens.tolist() == list(text.encode())
    assert ByteTokenizer().decode([256, *tokens.tolist(), 256]) == text


def test_half_a_character_is_replaced():
    assert ByteTokenizer().decode(list("é".encode())[:1]) == "\ufffd"


def test_words():
    text = "the cat sat\n\nthe cat"
    assert split_words(text) == ["the", "cat", "sat", "<eos>", "<eos>", "the", "cat"]
    assert WORDS.encode(text).tolist() == [2, 3, 0, 1, 1, 2, 3]
    assert WORDS.decode([4, 2, 3, 0, 1, 1, 2, 3, 4]) == "the cat <unk>\n\nthe cat"
    assert (WORDS.vocab_size, WORDS.separator) == (5, 4)
    assert WORDS.identity != WordTokenizer(["<unk>", "<eos>", "cat", "the"]).identity


def saved(path: Path, *special: str) -> Path:
    """A byte-level tokenizer.json with these special tokens."""
    package = pytest.importorskip("tokenizers")
    alphabet = sorted(package.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*alphabet, *special])}
    inner = package.Tokenizer(package.models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = package.decoders.ByteLevel()
    inner.save(str(path))
    return path


def test_a_tokenizer_json(tmp_path):
    tokenizer = from_json(saved(tmp_path / "tokenizer.json", "</s>", "<|endoftext|>"))
    assert (tokenizer.vocab_size, tokenizer.separator) == (258, 257)
    tokens = tokenizer.encode(SAMPLE).tolist()
    assert len(tokens) == len(SAMPLE.encode()) and tokenizer.decode([257, *tokens, 257]) == SAMPLE
    assert from_json(tmp_path).identity == tokenizer.identity
    assert from_json(saved(tmp_path / "other.json", "</s>")).identity != tokenizer.identity


def test_a_tokenizer_json_that_is_none(tmp_path):
    with pytest.raises(DataError, match=r"none.json: there is no such file, which tokenizer=json needs"):
        from_json(tmp_path / "none.json")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(DataError, match=r"broken.json: is not a tokenizer of the package"):
        from_json(tmp_path / "broken.json")
    with pytest.raises(DataError, match=r"has none of the tokens <\|endoftext\|>, .* to put between documents"):
        from_json(saved(tmp_path / "plain.json"))


def test_gpt2_files_that_are_not_gpt2s(tmp_path):
    pytest.importorskip("tokenizers")
    with pytest.raises(DataError, match=r"encoder.json: there is no such file, which tokenizer=gpt2_bpe needs"):
        gpt2_bpe(tmp_path)
    vocabulary = tmp_path / "encoder.json"
    vocabulary.write_text("[]")
    with pytest.raises(DataError, match=r"vocab.bpe: there is no such file"):
        gpt2_bpe(tmp_path)
    (tmp_path / "vocab.bpe").write_text("#version: 0.2\na b\n")
    for wrong in ("[]", "{", '{"a": 0}', '{"<|endoftext|>": "x"}'):
        vocabulary.write_text(wrong)
        with pytest.raises(DataError, match=r"encoder.json: is not GPT-2's vocabulary, an object of 50,257 tokens"):
            gpt2_bpe(tmp_path)
    vocabulary.write_text(json.dumps({**{f"t{i}": i for i in range(50_256)}, "<|endoftext|>": 50_256}))
    with pytest.raises(DataError, match=r"vocab.bpe: does not hold GPT-2's 50,000 merges"):
        gpt2_bpe(tmp_path)
    (tmp_path / "vocab.bpe").write_text("a b\n" * 50_000)
    with pytest.raises(DataError, match="do not fit together"):
        gpt2_bpe(tmp_path)


def test_without_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(DataError, match=r"`tokenizers` is not there; pip install 'zeta-attention\[language\]'"):
        gpt2_bpe(tmp_path)


@pytest.mark.skipif(not REAL.exists(), reason="GPT-2's files are not there")
def test_the_real_gpt2():
    pytest.importorskip("tokenizers")
    tokenizer = gpt2_bpe(REAL)
    assert (tokenizer.vocab_size, tokenizer.separator) == (50_257, 50_256)
    assert tokenizer.encode("Hello world").tolist() == [15496, 995]
    assert tokenizer.decode([15496, 995, 50256]) == "Hello world"
    literal = tokenizer.encode("<|endoftext|>").tolist()
    assert 50_256 not in literal and tokenizer.decode(literal) == "<|endoftext|>"
    blanks = "\n\n  a   b \t\n"
    assert tokenizer.decode(tokenizer.encode(blanks).tolist()) == blanks

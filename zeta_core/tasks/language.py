"""Language: the next token of running text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from zeta_core.config import NOT_IDENTITY, TextPath
from zeta_core.errors import DataError, OptionError

from .task import TaskConfigBase
from .tokenizers import ByteTokenizer, Tokenizer, TokenizerKind, from_json, gpt2_bpe


class LanguageConfig(TaskConfigBase):
    """Language: the next token of running text, from Python's own library or from a corpus of yours."""

    kind: Literal["language"] = "language"
    tokenizer: TokenizerKind = "bytes"
    tokenizer_path: TextPath | None = Field(default=None, json_schema_extra=NOT_IDENTITY)
    """A folder with encoder.json and vocab.bpe, or a tokenizer.json. What it holds is part of the data's fingerprint."""
    seq_len: PositiveInt = 256
    stride: PositiveInt | None = None
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {}

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.stride is not None and self.stride > self.seq_len:
            raise OptionError(f"stride={self.stride} is above seq_len={self.seq_len}; use at most {self.seq_len}")
        return self

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return self.seq_len

    def load_tokenizer(self) -> Tokenizer:
        """The tokenizer. Raises: DataError if its files are missing or not what they should be."""
        if self.tokenizer == "bytes":
            return ByteTokenizer()
        if self.tokenizer_path is None:
            wants = {"gpt2_bpe": "a folder with encoder.json and vocab.bpe", "json": "a tokenizer.json"}
            raise DataError(f"tokenizer={self.tokenizer} needs task.tokenizer_path, {wants.get(self.tokenizer)}")
        return gpt2_bpe(self.tokenizer_path) if self.tokenizer == "gpt2_bpe" else from_json(self.tokenizer_path)

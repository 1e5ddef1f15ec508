"""Where running text comes from: documents of files, of the standard library, or of the `datasets` package."""

from __future__ import annotations

import hashlib
import importlib
import platform
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from zeta_core.errors import DataError, DataMissing

from .json_lines import ENDS, UNPACKED, encoded, json_lines
from .lines import read_bytes, read_utf8
from .task import Split

SourceKind: TypeAlias = Literal["python_stdlib", "text", "jsonl", "wikitext103", "datasets"]
WIKITEXT: dict[Split, str] = {
    "train": "wiki.train.tokens",
    "validation": "wiki.valid.tokens",
    "test": "wiki.test.tokens",
}
WIKITEXT_FROM = (
    "https://wikitext.smerity.com/wikitext-103-v1.zip, or join the rows of Salesforce/wikitext, wikitext-103-v1"
)
ARTICLE = re.compile(r"(?:\A|(?<=\n)) \n(?= = (?!= )[^\n]* = \n \n)")
"""The blank line before an article's title; titles of its sections have more than one `=`."""
ID = "id"
NOT_SOURCES = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
"""Folders of the standard library that are none of its own modules."""
LONE_FILE = (0.90, 0.95)
"""Where a single text file is cut: train, validation, test."""
MIN_DOCUMENTS = 3


class Document(NamedTuple):
    """A text. content: UTF-8. key: what its split is drawn from. split: the source's own, if it has splits."""

    content: bytes
    key: bytes
    split: Split | None = None


@dataclass(frozen=True)
class Source:
    """A corpus that has not been read yet.

    path: a file or folder. text_field: of a JSON line or a row. name, subset, rows: a data set of the `datasets`
    package, and its split. max_documents: no more are read. whole: all documents are for testing; WikiText-103 keeps
    its splits and needs no training file."""

    kind: SourceKind
    path: Path | None = None
    text_field: str = "text"
    name: str | None = None
    subset: str | None = None
    rows: str = "train"
    max_documents: int | None = None
    whole: bool = False

    @property
    def label(self) -> str:
        """The corpus in a word or two."""
        if self.kind == "python_stdlib":
            return f"python_stdlib {platform.python_version()}"
        place = self.path.name if self.path is not None else self.name
        return self.kind if self.kind == "wikitext103" else f"{self.kind} {place}"

    def files(self) -> list[tuple[Path, Split | None]]:
        """The files to read, in order, with their splits where those are given. Raises: DataMissing, DataError."""
        if self.kind == "datasets":
            return []
        if self.kind == "python_stdlib":
            root = Path(sysconfig.get_paths()["stdlib"])
            inside = sorted(path.relative_to(root) for path in root.rglob("*.py"))
            return [(root / path, None) for path in inside if not _left_out(path)]
        if self.path is None:
            raise DataMissing(f"source={self.kind} needs task.path: {WANTS[self.kind]}")
        if not self.path.exists():
            raise DataMissing(f"{self.path}: there is no such file or folder; task.path must be {WANTS[self.kind]}")
        if self.kind == "wikitext103":
            return self._wikitext(self.path)
        if self.path.is_file():
            return [(self.path, None)]
        ends = (".txt",) if self.kind == "text" else ENDS
        found = sorted(path for path in self.path.rglob("*") if path.is_file() and path.name.endswith(ends))
        if not found:
            raise DataError(f"{self.path}: holds no documents; task.path must be {WANTS[self.kind]}")
        return [(path, None) for path in found]

    def _wikitext(self, folder: Path) -> list[tuple[Path, Split | None]]:
        found: list[tuple[Path, Split | None]] = []
        for split, name in WIKITEXT.items():
            if (folder / name).is_file():
                if split != "train" or not self.whole:
                    found.append((folder / name, split))
            elif not self.whole:
                rest = "; the others can be an out-of-domain test: task.eval_source" if split == "train" else ""
                raise DataMissing(f"{folder / name}: there is no such file; get it from {WIKITEXT_FROM}{rest}")
        if not found:
            raise DataMissing(f"{folder}: has neither {WIKITEXT['validation']} nor {WIKITEXT['test']}")
        return found

    def identity(self) -> dict[str, object]:
        """What decides the documents, as JSON: of files what they hold, not where they lie."""
        found: dict[str, object] = {"source": self.kind, "whole": self.whole}
        if self.kind in ("jsonl", "datasets"):
            found |= {"text_field": self.text_field, "max_documents": self.max_documents}
        if self.kind == "datasets":
            if self.name is None:
                raise DataError(f"source=datasets needs task.dataset_name: {WANTS['datasets']}")
            return found | {"dataset": self.name, "subset": self.subset, "rows": self.rows}
        digest = hashlib.sha256()
        for path, split in self.files():
            digest.update(f"{split} ".encode() + hashlib.sha256(read_bytes(path)).digest())
        return found | {"files": digest.hexdigest()[:16]}

    def num_bytes(self) -> int | None:
        """About how much text there is; None if nobody knows."""
        if self.kind == "datasets":
            return None
        return sum(round(path.stat().st_size * UNPACKED.get(path.suffix, 1)) for path, _ in self.files())

    def documents(self) -> Iterator[Document]:
        """Every document. Raises: DataError naming the file, and the line or the byte."""
        if self.kind == "datasets":
            yield from self._rows()
        elif self.kind == "wikitext103":
            for path, split in self.files():
                for article in articles(read_utf8(path).decode()):
                    yield _document(article.encode(), split)
        elif self.kind == "jsonl":
            yield from islice(self._lines(), self.max_documents)
        else:
            files = self.files()
            if self.kind == "text" and len(files) == 1 and not self.whole:
                yield from cut(read_utf8(files[0][0]))
            else:
                yield from (_document(read_utf8(path)) for path, _ in files)

    def _lines(self) -> Iterator[Document]:
        for path, _ in self.files():
            for place, values in json_lines(path):
                yield _of_fields(values, self.text_field, place)

    def _rows(self) -> Iterator[Document]:
        place = f"datasets:{self.name}"
        try:
            package = importlib.import_module("datasets")
        except ImportError:
            raise DataError(
                f"{place} needs the datasets package; install it with: pip install 'zeta-attention[language]'"
            ) from None
        try:
            found: Any = package.load_dataset(self.name, self.subset, split=self.rows, streaming=True)
            for number, values in enumerate(islice(found, self.max_documents)):
                yield _of_fields(values, self.text_field, f"{place}, row {number}")
        except DataError:
            raise
        except Exception as error:  # its own and those of the network beneath it
            words = " ".join(str(error).split())
            raise DataError(f"{place}: subset {self.subset}, split {self.rows} cannot be read ({words})") from None


WANTS: dict[SourceKind, str] = {
    "text": "a text file, or a folder with *.txt",
    "jsonl": f"a file of JSON lines, or a folder with {', '.join('*' + end for end in ENDS)}",
    "wikitext103": f"a folder with {', '.join(WIKITEXT.values())}",
    "datasets": "the name of a data set, such as HuggingFaceTB/cosmopedia",
}


def articles(text: str) -> list[str]:
    """The articles of an official WikiText file, one behind the other as there."""
    starts = [match.start() for match in ARTICLE.finditer(text)]
    edges = [0, *starts[1:], len(text)] if starts and not text[: starts[0]].strip() else [0, *starts, len(text)]
    return [text[low:high] for low, high in pairwise(edges)]


def cut(content: bytes) -> Iterator[Document]:
    """A single file as three documents, cut at ends of lines: its beginning is for training, its end for testing."""
    edges = [0]
    for share in LONE_FILE:
        edges.append(content.find(b"\n", max(edges[-1], int(share * len(content)))) + 1 or len(content))
    splits: tuple[Split, ...] = ("train", "validation", "test")
    for split, low, high in zip(splits, edges, [*edges[1:], len(content)], strict=True):
        yield _document(content[low:high], split)


def _document(content: bytes, split: Split | None = None) -> Document:
    return Document(content, hashlib.sha256(content).digest(), split)


def _of_fields(values: dict[str, object], field: str, place: str) -> Document:
    """A document from an object; one with an id is split by that. Raises: DataError naming its place."""
    text = values.get(field)
    if not isinstance(text, str):
        has = ", ".join(map(str, values)) or "nothing"
        raise DataError(f"{place}: has no text in the field {field!r} (it has {has}); set task.text_field")
    content = encoded(text, place)
    key = encoded(str(values[ID]), place) if ID in values else content
    return Document(content, hashlib.sha256(key).digest())


def _left_out(path: Path) -> bool:
    """Whether a file under the standard library is no module of it, or differs from machine to machine."""
    return bool(NOT_SOURCES & set(path.parts[:-1])) or path.name.startswith("_sysconfigdata")

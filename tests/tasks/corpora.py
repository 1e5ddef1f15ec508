"""Small corpora, written as files."""

import json
import lzma
from pathlib import Path

import numpy as np

from zeta_core.tasks.language import LanguageConfig

WORDS = ("the", "cat", "sat", "on", "a", "mat", "naïve", "漢字", "def", "f(x):")


def text_of(index: int) -> str:
    """A document of some lines, unlike every other."""
    bits = np.random.default_rng(index)
    lines = [" ".join(bits.choice(WORDS, size=bits.integers(1, 12))) for _ in range(int(bits.integers(1, 8)))]
    return f"document {index}\n" + "\n".join(lines) + "\n"


def json_lines(path: Path, number: int = 60, *, ids: bool = False) -> Path:
    """A file of JSON lines, packed if its name says so."""
    rows = [{**({"id": f"P{index // 2}"} if ids else {}), "text": text_of(index)} for index in range(number)]
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(content) if path.suffix == ".xz" else content)
    return path


def corpus(path: Path, **options: object) -> LanguageConfig:
    """The task on a file of JSON lines, with a short context."""
    return LanguageConfig.model_validate({"source": "jsonl", "path": path, "seq_len": 16, **options})


def wiki(folder: Path, *names: str) -> Path:
    """Files in WikiText-103's form, each with articles of sections."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        articles = [
            f" \n = {name} {number} = \n \n {text_of(number).strip()} \n \n = = Section = = \n \n more <unk> text \n"
            for number in range(4)
        ]
        (folder / f"wiki.{name}.tokens").write_text("".join(articles))
    return folder


def streamed(part) -> tuple[list[int], list[int]]:
    """What a part scores, in order: each label and the position that it has in the stream."""
    batch = part.batch(np.arange(len(part)))
    labels, places = [], []
    for row, scored in enumerate(batch.labels.tolist()):
        for column, label in enumerate(scored):
            if label != -100:
                labels.append(label)
                places.append(row * part.step + column + 1)
    return labels, places

"""Retrieval: does the first paper cite the second? By the byte (AAN: Radev et al. 2013; Long Range Arena).

    tokens   T h e   f i r s t ...      up to seq_len bytes of a document; 256 pads
    second   T h e   o t h e r ...
    label    1 (cites) or 0

One encoder reads both documents, each by itself; see model/heads.py. The documents are the user's own: `zeta data
import retrieval PATH`, where PATH holds Long Range Arena's files, or the citation pairs that stand in for them: those
are real pairs of citing and cited papers too, but others and far fewer, and every row says which it was.

The preset `small` shows that all parts run. It is no measurement: on the stand-in its model stays at chance (0.500),
where the cosine of byte 5-grams weighted by rarity tells 72 % of the same test pairs apart by their first 256 bytes,
80 % by 4,000."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import PositiveInt

from .citation_pairs import PAIRS, PARAMETERS, read_citation_pairs
from .imported import ImportedTask, Reading
from .retrieval_files import FILES, read_aan
from .store import Spec
from .task import Split

MAX_BYTES = 4000
"""Of a document, in the store."""


class RetrievalConfig(ImportedTask):
    """Retrieval (Long Range Arena): whether one paper cites another, from the bytes of both; files are imported."""

    kind: Literal["retrieval"] = "retrieval"
    seq_len: PositiveInt = MAX_BYTES
    """Bytes of each document that are read."""
    source: Literal["auto", "aan", "citation_pairs"] = "auto"
    """aan: Long Range Arena's files. citation_pairs: their stand-in. auto: the first of these that was imported."""
    wants: ClassVar[str] = (
        f"AAN's pairs of papers (a folder with {', '.join(FILES.values())}) or their stand-in (a folder with {PAIRS} "
        "and papers.jsonl.xz)"
    )
    about: ClassVar[Mapping[str, str]] = {
        "small": "256 bytes of 4,000 pairs, to show that all parts run; on the stand-in its model stays at chance"
    }
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "small": {
            "task": {"seq_len": 256, "num_train": 4000, "num_validation": 500, "num_test": 1000},
            "attention": {"kind": "zeta", "top_k": 16},
            "model": {"d_model": 64, "num_layers": 2, "num_heads": 2, "form": "encoder", "pooling": "mean"},
            "training": {
                "steps": 400,
                "batch_size": 32,
                "learning_rate": 1e-3,
                "warmup_steps": 50,
                "eval_every": 100,
            },
        },
        "original": {
            "attention": {"kind": "zeta", "top_k": 32},
            "model": {
                "d_model": 128,
                "num_layers": 4,
                "num_heads": 4,
                "d_mlp": 512,
                "form": "encoder",
                "pooling": "cls",
            },
            "training": {
                "steps": 5000,
                "batch_size": 32,
                "learning_rate": 5e-4,
                "warmup_steps": 500,
                "eval_every": 250,
            },
        },
        "paper": {
            "attention": {"kind": "zeta", "top_k": 32},
            "model": {
                "d_model": 256,
                "num_layers": 4,
                "num_heads": 8,
                "d_mlp": 1024,
                "form": "encoder",
                "pooling": "cls",
            },
            "training": {
                "steps": 5000,
                "batch_size": 32,
                "learning_rate": 5e-4,
                "warmup_steps": 500,
                "eval_every": 250,
            },
        },
    }

    @property
    def longest(self) -> int:
        """Bytes of the longest document that is read."""
        return self.seq_len

    def specs(self) -> Sequence[Spec]:
        """The folders that the source allows."""
        return (AAN, STAND_IN) if self.source == "auto" else (AAN if self.source == "aan" else STAND_IN,)

    @classmethod
    def reading(cls, path: Path, files: Mapping[Split, str], *, drop_empty: bool = False) -> Reading:
        """Pairs in one of two forms; see ImportedTask."""
        notes: dict[str, object] = {}
        if (path / PAIRS).exists() and not files:
            splits = read_citation_pairs(path, notes, max_bytes=MAX_BYTES, drop_empty=drop_empty)
            return Reading(STAND_IN, splits, "stand-in: ACL citation pairs, split=cited", notes)
        splits = read_aan(path, files, cls.wants, notes, max_bytes=MAX_BYTES, drop_empty=drop_empty)
        return Reading(AAN, splits, "aan", notes)


def _spec(label: str, parameters: Mapping[str, object]) -> Spec:
    return Spec(
        task="retrieval",
        label=label,
        parameters={"source": label, "max_bytes": MAX_BYTES, **parameters},
        vocab_size=256,
        num_classes=2,
        num_documents=2,
        again="zeta data import retrieval PATH",
    )


AAN = _spec("aan", {"split": "official"})
STAND_IN = _spec("citation_pairs", PARAMETERS)

"""Tiny files in the forms that other people's data come in."""

import io
import json
import lzma
import pickle
from pathlib import Path

import numpy as np

WORDS = ("dull", "fine")


def review(split: str, label: int, index: int) -> str:
    """A review whose word says its class; no two are equal."""
    return f"A {WORDS[label]} film, number {index} of {split}: a caf\u00e9 in Paris." + "!" * index


def imdb(path: Path, *, each: int = 10) -> Path:
    """The official folder tree, with a review without a label."""
    for split in ("train", "test"):
        for label, name in enumerate(("neg", "pos")):
            folder = path / split / name
            folder.mkdir(parents=True)
            for index in range(each):
                (folder / f"{index}_{7 * label}.txt").write_text(review(split, label, index), encoding="utf-8")
    (path / "train" / "unsup").mkdir()
    (path / "train" / "unsup" / "0_0.txt").write_text("Who knows?")
    return path


def json_lines(path: Path, *, each: int = 10) -> Path:
    """The same reviews as JSON lines, a file a split."""
    path.mkdir(parents=True, exist_ok=True)
    for split in ("train", "test"):
        rows = [{"text": review(split, label, i), "label": label} for label in (0, 1) for i in range(each)]
        (path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def aan_line(split: str, index: int) -> list[str]:
    """label, id1, id2, text1, text2; a quotation mark means nothing."""
    return [f"{float(index % 2)}", f"P{index}", f"Q{index}", f'"Paper {index} of {split}', f"is{' so' * index} new"]


def aan(path: Path, *, each: int = 12) -> Path:
    """Long Range Arena's three files of pairs."""
    path.mkdir(parents=True, exist_ok=True)
    for split in ("train", "eval", "test"):
        lines = ["\t".join(aan_line(split, index)) + "\n" for index in range(each)]
        (path / f"new_aan_pairs.{split}.tsv").write_text("".join(lines), encoding="utf-8")
    return path


def citation_pairs(path: Path, *, cited: int = 20, packed: bool = True) -> Path:
    """Two citing papers a cited one; C0 cites everything of even number too."""
    path.mkdir(parents=True, exist_ok=True)
    pairs = {(f"C{(3 * number + more) % 25}", f"D{number}") for number in range(cited) for more in (0, 1)}
    pairs |= {("C0", f"D{number}") for number in range(0, cited, 4)}
    papers = sorted({paper for pair in pairs for paper in pair})
    lines = "".join(json.dumps({"id": paper, "text": f"On {paper}.\n" + paper * 9}) + "\n" for paper in papers)
    (path / "pairs.tsv").write_text(
        "citing_id\tcited_id\n" + "".join(f"{one}\t{other}\n" for one, other in sorted(pairs))
    )
    if packed:
        (path / "papers.jsonl.xz").write_bytes(lzma.compress(lines.encode()))
    else:
        (path / "papers.jsonl").write_text(lines)
    return path


def pictures(number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Colours [n, 3, 32, 32] uint8 and labels [n]."""
    bits = np.random.default_rng(seed)
    return bits.integers(0, 256, (number, 3, 32, 32), dtype=np.uint8), np.arange(number) % 10


def as_of_python_2(values: dict[bytes, object]) -> bytes:
    """A pickle of arrays in protocol 2, with numpy's name of that time."""
    text = io.BytesIO()
    pickle.dump(values, text, protocol=2)
    return text.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def cifar(path: Path, *, each: int = 4) -> Path:
    """The official python batches."""
    path.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate([f"data_batch_{one}" for one in range(1, 6)] + ["test_batch"]):
        data, labels = pictures(each, number)
        values = {b"batch_label": name.encode(), b"labels": labels.tolist(), b"data": data.reshape(each, -1)}
        (path / name).write_bytes(as_of_python_2(values))
    return path


def npz(path: Path, *, train: int = 20, test: int = 10, **changes: object) -> Path:
    """The same as one npz file, colours last."""
    arrays = {}
    for split, number in {"train": train, "test": test}.items():
        data, labels = pictures(number, len(split))
        arrays |= {f"{split}_x": data.transpose(0, 2, 3, 1), f"{split}_y": labels[:, None].astype(np.uint8)}
    arrays |= changes
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
    return path


EXPRESSIONS = (
    ("( ( ( [MAX 4 ) ( ( ( [MIN 2 ) 7 ) ] ) ) ] )", 4, [11, 4, 10, 2, 7, 14, 14]),
    ("( ( ( ( [SM 9 ) 8 ) 7 ) ] )", 4, [13, 9, 8, 7, 14]),
    ("( ( ( [MED 1 ) 3 ) ] )", 2, [12, 1, 3, 14]),
)
"""As Long Range Arena writes them, with their values and our tokens."""


def listops(path: Path) -> Path:
    """Long Range Arena's three files."""
    path.mkdir(parents=True, exist_ok=True)
    for name in ("train", "val", "test"):
        lines = [f"{source}\t{target}\n" for source, target, _ in EXPRESSIONS]
        (path / f"basic_{name}.tsv").write_text("Source\tTarget\n" + "".join(lines))
    return path


def png(pixels: np.ndarray) -> bytes:
    """A picture's file."""
    from PIL import Image

    text = io.BytesIO()
    Image.fromarray(pixels).save(text, format="png")
    return text.getvalue()


def pathfinder(path: Path, *, number: int = 20) -> Path:
    """Long Range Arena's folder: two folders of gray pictures, and what their metadata say."""
    folder = path / "curv_contour_length_14"
    bits = np.random.default_rng(0)
    (folder / "metadata").mkdir(parents=True)
    for part in (0, 1):
        (folder / "imgs" / str(part)).mkdir(parents=True)
        lines = []
        for index in range(number // 2):
            name = f"sample_{index}.png"
            (folder / "imgs" / str(part) / name).write_bytes(png(bits.integers(0, 256, (32, 32), dtype=np.uint8)))
            lines.append(f"imgs/{part} {name} {index} {index % 2} 1.0 6 12\n")
        (folder / "metadata" / f"{part}.npy").write_text("".join(lines))
    return path

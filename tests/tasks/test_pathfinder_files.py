"""Long Range Arena's Pathfinder folder."""

import numpy as np
import pytest
from PIL import Image
from tasks.imports import bring_in
from tasks.official import pathfinder, png

from zeta_core.errors import DataError, DataMissing, OptionError
from zeta_core.tasks.pathfinder_files import PathfinderFilesConfig

HARD = "curv_contour_length_14"


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ZETA_DATA", str(tmp_path / "data"))
    return tmp_path


def test_pictures_and_classes_by_their_metadata(root):
    with pytest.raises(DataMissing, match=r"Pathfinder \(the folder curv_contour_length_14 .*zeta data import"):
        PathfinderFilesConfig().build()
    path = pathfinder(root / "pathfinder32")
    data = bring_in(PathfinderFilesConfig, path)
    wanted = {
        tuple(np.asarray(Image.open(file)).reshape(-1).tolist()): int(file.stem.removeprefix("sample_")) % 2
        for file in path.rglob("*.png")
    }
    found = {}
    for split, number in {"train": 16, "validation": 2, "test": 2}.items():
        stored = data.split(split)
        assert len(stored) == number
        found |= {tuple(stored.sequence(i).tolist()): int(stored.labels[i]) for i in range(number)}
    assert found == wanted and len(found) == 20
    task = PathfinderFilesConfig().build()
    batch = task.parts["train"][0].batch(np.arange(5))
    assert batch.tokens.shape == (5, 1024) and batch.key_padding_mask is None
    assert (task.vocab_size, task.num_classes, task.source) == (256, 2, f"Long Range Arena's {HARD}")
    fingerprint = data.manifest.fingerprint
    assert bring_in(PathfinderFilesConfig, path / HARD).manifest.fingerprint == fingerprint


WRONG_PICTURES = {
    "size": (png(np.zeros((28, 32), np.uint8)), "is 32 x 28 in mode L; it must be 32 x 32 in gray"),
    "colours": (png(np.zeros((32, 32, 3), np.uint8)), "is 32 x 32 in mode RGB; it must be"),
    "no picture": (b"GIF", "is not a picture in a form that is known"),
    "cut": (
        png(np.random.default_rng(0).integers(0, 256, (32, 32), dtype=np.uint8))[:300],
        "cannot be read as a picture (image file is truncated)",
    ),
    "empty": (b"", "is an empty file; --drop-empty leaves"),
}


@pytest.mark.parametrize(("content", "message"), WRONG_PICTURES.values(), ids=WRONG_PICTURES.keys())
def test_a_wrong_picture_is_named(content, message, root):
    path = pathfinder(root / "pathfinder32")
    (path / HARD / "imgs" / "1" / "sample_3.png").write_bytes(content)
    with pytest.raises(DataError) as raised:
        bring_in(PathfinderFilesConfig, path)
    assert f"imgs/1/sample_3.png: {message}" in str(raised.value)
    if not content:
        data = bring_in(PathfinderFilesConfig, path, drop_empty=True)
        assert data.manifest.notes["empty_left_out"] == 1
        assert sum(record.examples for record in data.manifest.splits.values()) == 19


def test_what_is_missing_or_broken_is_named(root):
    path = pathfinder(root / "pathfinder32")
    for line, message in (
        ("imgs/1 sample_0.png 0\n", r"metadata/1.npy:11: has 3 words instead of folder, file, number, class"),
        ("imgs/1 sample_0.png 0 2\n", r"metadata/1.npy:11: class '2' is none of the classes 0, 1"),
        ("imgs/1 sample_99.png 0 1\n", r"imgs/1/sample_99.png: cannot be read: No such file"),
    ):
        before = (path / HARD / "metadata" / "1.npy").read_text()
        (path / HARD / "metadata" / "1.npy").write_text(before + line)
        with pytest.raises(DataError, match=message):
            bring_in(PathfinderFilesConfig, path)
        (path / HARD / "metadata" / "1.npy").write_text(before)
    with pytest.raises(DataError, match="does not have Long Range Arena's Pathfinder"):
        bring_in(PathfinderFilesConfig, root)
    with pytest.raises(OptionError, match="its pictures are split here"):
        bring_in(PathfinderFilesConfig, path, test="x")

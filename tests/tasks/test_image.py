"""CIFAR-10 in gray: both forms, and pickles that hold more than arrays."""

import os
import pickle

import numpy as np
import pytest
from tasks.imports import bring_in
from tasks.official import as_of_python_2, cifar, npz, pictures

from zeta_core.errors import DataError, DataMissing, OptionError
from zeta_core.tasks.image import ImageConfig
from zeta_core.tasks.image_files import gray


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ZETA_DATA", str(tmp_path / "data"))
    return tmp_path


def by_hand(picture: np.ndarray) -> list[int]:
    """[3, 32, 32] to 1,024 gray values."""
    return [
        round(0.2989 * int(picture[0, y, x]) + 0.5870 * int(picture[1, y, x]) + 0.1140 * int(picture[2, y, x]))
        for y in range(32)
        for x in range(32)
    ]


def test_gray_is_the_weighted_sum_row_by_row():
    data, _ = pictures(3, 0)
    found = gray(data.transpose(0, 2, 3, 1))
    assert found.shape == (3, 1024) and found.dtype == np.uint8
    assert found.tolist() == [by_hand(picture) for picture in data]
    white = np.full((1, 32, 32, 3), 255, np.uint8)
    assert set(gray(white)[0].tolist()) == {255} and set(gray(white * 0)[0].tolist()) == {0}


@pytest.mark.parametrize("inner", [".", "cifar-10-batches-py"])
def test_the_official_batches(root, inner):
    cifar(root / "cifar" / inner)
    data = bring_in(ImageConfig, root / "cifar")
    wanted = [(tuple(by_hand(p)), int(n)) for one in range(5) for p, n in zip(*pictures(4, one), strict=True)]
    test = [(tuple(by_hand(p)), int(n)) for p, n in zip(*pictures(4, 5), strict=True)]
    found = {
        split: [(tuple(stored.sequence(i).tolist()), int(stored.labels[i])) for i in range(len(stored))]
        for split in ("train", "validation", "test")
        for stored in [data.split(split)]
    }
    assert found["test"] == test
    assert sorted(found["train"] + found["validation"]) == sorted(wanted)
    assert (len(found["train"]), len(found["validation"])) == (18, 2)


def test_an_npz_file(root):
    data = bring_in(ImageConfig, npz(root / "cifar10.npz"))
    assert len(data.split("train")) == 18 and data.split("test").labels.tolist() == list(range(10))
    first = data.split("test").sequence(3).tolist()
    assert first == by_hand(pictures(10, 4)[0][3])
    for shape in ((10, 3, 32, 32), (10, 3072)):
        other = pictures(10, 4)[0].reshape(shape)
        again = bring_in(ImageConfig, npz(root / "cifar10.npz", test_x=other, test_y=np.arange(10)))
        assert again.split("test").sequence(3).tolist() == first


def test_a_batch_is_pixels_without_padding(root):
    bring_in(ImageConfig, npz(root / "cifar10.npz"))
    task = ImageConfig(num_test=7).build()
    part = task.parts["test"][0]
    batch = part.batch(np.arange(7))
    assert batch.tokens.shape == (7, 1024) and batch.key_padding_mask is None and len(part) == 7
    assert (task.vocab_size, task.max_len, task.num_classes) == (256, 1024, 10)
    assert task.majority == 1 / 7 and task.source == "cifar10 in gray"


def test_before_the_import_the_files_are_named():
    with pytest.raises(DataMissing, match=r"image: needs CIFAR-10 .*data_batch_1 .*npz.*zeta data import image PATH"):
        ImageConfig().build()


DATA, LABELS = pictures(10, 4)
WRONG_ARRAYS = {
    "size": ({"test_x": np.zeros((10, 28, 28, 3), np.uint8)}, "test_x: pictures are uint8 [28, 28, 3]; they must be"),
    "type": ({"test_x": DATA.astype(np.float32)}, "test_x: pictures are float32 [3, 32, 32]; they must be uint8"),
    "label": ({"test_y": LABELS + 1}, "test_y: label=10 of picture 9 is none of the classes 0..9"),
    "negative label": ({"test_y": LABELS - 1}, "test_y: label=-1 of picture 0 is none of"),
    "few labels": ({"test_y": LABELS[:-1]}, "test_y: must be a whole number for each of the 10 pictures"),
    "labels of another type": ({"test_y": LABELS / 2}, "test_y: must be a whole number"),
    "nothing": ({"test_x": DATA[:0], "test_y": LABELS[:0]}, "test_x: holds no pictures"),
    "a split missing": ({"test_x": None}, "has no array test_x; it needs train_x, train_y, test_x, test_y"),
    "objects": ({"test_x": np.array([{}, 3], dtype=object)}, "is not an npz file of plain arrays"),
}


@pytest.mark.parametrize(("changes", "message"), WRONG_ARRAYS.values(), ids=WRONG_ARRAYS.keys())
def test_a_wrong_array_is_named(changes, message, root):
    with pytest.raises(DataError) as raised:
        bring_in(ImageConfig, npz(root / "cifar10.npz", **changes))
    assert "cifar10.npz" in str(raised.value) and message in str(raised.value)
    assert not [path for path in (root / "data").glob("*") if not path.name.endswith(".lock")]


def test_files_that_are_missing_or_broken_are_named(root):
    (root / "nothing").mkdir()
    for path in (root / "nothing", root / "gone"):
        with pytest.raises(DataError, match=r"does not have CIFAR-10 \(the folder with data_batch_1"):
            bring_in(ImageConfig, path)
    path = cifar(root / "cifar")
    (path / "test_batch").unlink()
    with pytest.raises(DataError, match=r"cifar: has no test_batch; unpack the whole archive"):
        bring_in(ImageConfig, path)
    data = pictures(4, 0)[0].reshape(4, -1)
    for content, message in (
        (b"", "test_batch: is not one of CIFAR-10's python batches"),
        (pickle.dumps([1]), "test_batch: has no data and labels"),
        (pickle.dumps({b"labels": [1]}), "test_batch: has no data and labels"),
        (as_of_python_2({b"data": data[:, :3000], b"labels": [0] * 4}), "pictures are uint8 [3000]; they must be"),
        (as_of_python_2({b"data": data, b"labels": [0, 1, 2, 12]}), "label=12 of picture 3 is none of"),
        (as_of_python_2({b"data": data, b"labels": [0]}), "must be a whole number for each of the 4 pictures"),
    ):
        (path / "test_batch").write_bytes(content)
        with pytest.raises(DataError) as raised:
            bring_in(ImageConfig, path)
        assert message in str(raised.value)
    (root / "x.npz").write_bytes(b"PK no")
    with pytest.raises(DataError, match=r"x.npz: is not an npz file"):
        bring_in(ImageConfig, root / "x.npz")
    np.save(root / "x.npy", np.zeros(3))
    (root / "x.pkl").write_bytes(pickle.dumps([1]))
    for name in ("x.npy", "x.pkl"):
        with pytest.raises(DataError, match=r"is not an npz file of plain arrays; numpy.savez") as raised:
            bring_in(ImageConfig, root / name)
        assert "pickle" not in str(raised.value)
    with pytest.raises(OptionError, match="CIFAR-10's have names of their own"):
        bring_in(ImageConfig, path, test="test_batch")


class Evil:
    """What a pickle runs when it is read carelessly."""

    def __reduce__(self):
        return os.mkdir, (os.environ["ZETA_DATA"] + "-evil",)


@pytest.mark.parametrize("inside", ["alone", "labels", "array"])
def test_a_pickle_that_runs_something_is_refused(inside, root):
    path = cifar(root / "cifar")
    data = pictures(4, 0)[0].reshape(4, -1)
    evil = {
        "alone": Evil(),
        "labels": {b"data": data, b"labels": [Evil()]},
        "array": {b"data": np.array([Evil()], dtype=object), b"labels": [0]},
    }[inside]
    (path / "test_batch").write_bytes(pickle.dumps(evil))
    with pytest.raises(DataError, match=r"test_batch: .*it asks for \w+.mkdir, which is neither an array nor bytes"):
        bring_in(ImageConfig, path)
    assert not (root / "data-evil").exists()

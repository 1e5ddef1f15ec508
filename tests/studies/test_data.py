"""What `zeta data` rests on: parameters from a command line, making what is small, and checking what is there."""

import numpy as np
import pytest
from tasks.stores import COUNTS, produce, produce_two, sequence, spec

from zeta_core.errors import ConfigError, DataError, DataMissing
from zeta_core.studies.data import check_data, find_data, generated_config, list_data, make_if_small, task_config
from zeta_core.studies.train import build_task
from zeta_core.studies.train_run import make_run
from zeta_core.tasks import MqarConfig
from zeta_core.tasks.listops import ListOpsConfig
from zeta_core.tasks.store_write import import_rows, make

FEW = ("train=50", "validation=20", "test=30")


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ZETA_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def test_parameters_from_a_command_line():
    config = generated_config("listops", preset="paper", settings=("data_seed=3",), examples=FEW)
    assert config == ListOpsConfig(
        min_length=500, max_length=2000, data_seed=3, num_train=50, num_validation=20, num_test=30
    )
    assert task_config("listops") == ListOpsConfig()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "papr"}, "presets small, paper .did you mean 'paper'"),
        ({"settings": ("depth=3",)}, "--set depth: unknown field"),
        ({"settings": ("max_depth=a",)}, "--set max_depth"),
        ({"examples": ("train",)}, "must be SPLIT=N with a split of train, validation, test"),
        ({"examples": ("dev=3",)}, "must be SPLIT=N"),
        ({"examples": ("train=0",)}, "whole number N above 0"),
        ({"examples": ("train=-1",)}, "must be SPLIT=N"),
        ({"examples": ("train=1", "train=2")}, "--examples train: given twice"),
    ],
)
def test_bad_parameters_are_one_line(options, message):
    with pytest.raises(ConfigError, match=message) as caught:
        generated_config("listops", **options)
    assert len(caught.value.lines) == 1


def test_tasks_that_are_not_made():
    with pytest.raises(ConfigError, match="'mqar': its examples are not made by this command"):
        generated_config("mqar")
    with pytest.raises(ConfigError, match=r"is not one of .*mean 'listops'"):
        generated_config("listop")
    with pytest.raises(ConfigError, match="no files to check"):
        find_data("mqar", None, MqarConfig())


def test_what_is_small_is_made_with_a_line_before():
    config, said = generated_config("listops", examples=FEW), []
    make_if_small(config, said.append)
    assert len(said) == 1 and "making 100 examples" in said[0]
    make_if_small(config, said.append)
    make_if_small(MqarConfig(), said.append)
    assert len(said) == 1 and len(config.build().parts["train"][0]) == 50


def test_what_takes_long_is_not_made_but_named():
    config = generated_config("listops", preset="paper", examples=("train=1000000",))
    with pytest.raises(DataMissing, match=r"about \d+ minutes .*zeta data make listops --preset paper --examples"):
        make_if_small(config)


def test_what_is_broken_is_not_made_silently(root):
    config = generated_config("listops", examples=FEW)
    file = config.make().folder / "train/00000/tokens.npy"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DataError, match="bytes instead of"):
        make_if_small(config)


@pytest.mark.parametrize("documents", [1, 2])
def test_a_check_counts(documents):
    data = make(spec(num_documents=documents), produce if documents == 1 else produce_two, COUNTS)
    found = check_data(data)
    train, validation, test = found.splits
    assert [len(one.lengths) for one in found.splits] == list(COUNTS.values())
    assert train.classes == [8, 8, 7] and train.majority == 8 / 23
    assert train.duplicates == 23 - 7 and validation.duplicates == 0 and test.duplicates == 1
    assert (train.lengths == documents * np.array([i % 7 + 1 for i in range(23)])).all()
    assert train.counts.sum() == 23 and train.edges[-1] > train.lengths.max()
    assert found.shared[("train", "validation")] == 0 and found.warnings == []


def test_shared_examples_are_warned_of_and_counted():
    def rows(indices):
        return (((sequence("train", i),), 0) for i in indices)

    data = import_rows(spec(), {"train": rows([0, 1, 2, 2]), "validation": rows([]), "test": rows([2, 2, 5, 1])})
    found = check_data(data)
    assert found.shared[("train", "test")] == 3
    assert found.warnings == ["train and test share 3 examples (of 4 in test)", "validation has no examples"]


def test_a_changed_byte_is_found():
    file = make(spec(), produce, COUNTS).folder / "test/00001/labels.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"labels.npy: is not what manifest.json says of it \(sha256\)"):
        check_data(find_data("toy", file.parents[2], ListOpsConfig()))


def test_the_list(root):
    assert list_data() == []
    data = make(spec(), produce, COUNTS)
    (root / "half").mkdir()
    names = {folder.path.name: folder.manifest for folder in list_data()}
    assert names == {"half": None, data.folder.name: data.manifest}


def test_the_fingerprint_is_not_of_the_batch_size_or_the_model():
    settings = [f"task.{name}={number}" for name, number in (("num_train", 50), ("num_validation", 20))]
    runs = [
        make_run("listops", settings=[*settings, f"training.batch_size={size}", f"model.d_model={width}"])
        for size, width in ((8, 64), (16, 32))
    ]
    assert len({build_task(run, lambda line: None).fingerprint for run in runs}) == 1

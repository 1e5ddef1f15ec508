"""A tiny run, trained here, measured on its own queries and keys; and runs that cannot be."""

import csv
import dataclasses
import shutil

import numpy as np
import pytest
from safetensors.torch import save_file
from studies.sittings import folder_of, tiny, zeta

from zeta_core.attention import ZetaConfig
from zeta_core.config import to_yaml
from zeta_core.errors import OptionError, RequestError
from zeta_core.records import LocalityRow
from zeta_core.run_folder import RunFolder
from zeta_core.studies.locality import checkpoint
from zeta_core.studies.locality.checkpoint import load_trained
from zeta_core.studies.locality.config import make_locality
from zeta_core.studies.locality.heads import layers, measure_part
from zeta_core.studies.locality.rows import neighbours_of
from zeta_core.studies.locality.study import run_locality
from zeta_core.studies.locality.summary import mean_recall
from zeta_core.studies.train import build_network
from zeta_core.studies.train_run import make_run
from zeta_core.tasks import TaskData


class Silent:
    """A monitor that keeps what is said."""

    def __init__(self):
        self.said = []

    def begin(self, total, device):
        pass

    def done(self, rows):
        pass

    def say(self, text):
        self.said.append(text)


def look(out, run, monitor=None, **flags):
    given = {"--checkpoint": ("checkpoint", str(run)), "--device": ("device", "cpu")}
    given |= {f"--{name}": (name, value) for name, value in flags.items()}
    return run_locality(make_locality(flags=given), out=out, monitor=monitor or Silent())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("trained")
    argv = [word.replace("num_layers=1", "num_layers=2") for word in tiny(out)]
    assert zeta(argv) == 0
    return out


@pytest.fixture
def copy(trained, tmp_path):
    shutil.copytree(trained / "runs", tmp_path / "runs")
    return tmp_path


def test_each_head_of_each_layer_has_a_row(copy):
    folder = folder_of(copy)
    result = look(copy, folder.name)
    heads = [row for row in result.rows if row.head is not None]
    assert [(row.layer, row.head) for row in heads] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for row in heads:
        assert 0 <= row.overlap <= 1 and 0 < row.recall <= 1 and 0 <= row.miss <= 1
        assert (row.points, row.d_k, row.seq_len, row.top_k, row.num_chunks) == ("model", 3, 16, 4, 4)
        assert (row.num_neighbours, row.checkpoint, row.task, row.attention) == (4, folder.name, "mqar", "zeta")
    layers = [row for row in result.rows if row.head is None]
    assert [(row.layer, row.target) for row in layers] == [
        (0, "nearest"), (0, "answer"), (1, "nearest"), (1, "answer"),
    ]  # fmt: skip
    for row in layers:
        assert row.miss_all_predicted == row.miss**2 and row.overlap is None
        assert 0 <= row.miss_all_measured <= row.miss
    assert layers[0].miss == pytest.approx((heads[0].miss + heads[1].miss) / 2)
    assert mean_recall(result.rows) == pytest.approx(sum(row.recall for row in heads) / 4)


def test_a_run_is_named_by_its_folder_too_and_its_rows_take_the_place_of_earlier_ones(copy):
    folder = folder_of(copy)
    by_id, by_folder = look(copy, folder.name), look(copy, folder)
    assert [row.overlap for row in by_id.rows] == [row.overlap for row in by_folder.rows]
    with by_id.table.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(by_id.rows)
    assert list(rows[0]) == list(LocalityRow.__dataclass_fields__)


def test_windows_are_those_that_the_model_attends_to(copy):
    found = load_trained(folder_of(copy).name, copy, "cpu")
    (part,) = found.data.parts["validation"]
    batch = part.batch(np.arange(16))
    (mixer, hidden, mask), *_ = layers(found.network, batch)
    window = mixer.selected(hidden, mask)
    q, k, _, _ = mixer.coordinates(hidden)
    exact = mixer.nearest(q, k, 4, mask)
    shares = []
    for example in range(16):
        for i in range(4, 16):
            wanted = {j for j in exact[example, 0, i].tolist() if j >= 0}
            shares.append(len(wanted & set(window[example, 0, i].tolist())) / len(wanted))
    means = measure_part(found.network, part, 16, 4)
    assert means[0].of_head("recall", 0) == pytest.approx(sum(shares) / len(shares))
    result = look(copy, found.run_id, num_neighbours=7, num_examples=5)
    assert {row.num_neighbours for row in result.rows} == {7} and {row.num_examples for row in result.rows} == {5}


def test_exact_selection_has_coordinates_too(tmp_path):
    assert zeta(tiny(tmp_path, "--attention", "exact_topk", "--set", "attention.visibility=token")) == 0
    result = look(tmp_path, folder_of(tmp_path))
    assert result.rows[0].attention == "exact_topk" and result.rows[0].recall is not None


def test_a_mixer_without_coordinates_is_refused(tmp_path):
    argv = [word for word in tiny(tmp_path, "--attention", "softmax") if word not in ("--k", "--chunks", "4")]
    assert zeta(argv) == 0
    with pytest.raises(RequestError, match=r"its attention is softmax.*zeta or exact_topk"):
        look(tmp_path, folder_of(tmp_path).name)
    assert not (tmp_path / "results" / "locality.csv").exists()


def test_an_unknown_run_is_refused_with_the_nearest(copy):
    name = folder_of(copy).name
    with pytest.raises(RequestError, match=f"nearest there: {name}"):
        look(copy, name[:-1])
    with pytest.raises(RequestError, match="holds none"):
        look(copy / "elsewhere", name)
    assert not (copy / "elsewhere").exists()


def test_a_run_without_weights_is_refused_and_one_that_goes_on_is_said_to(copy):
    folder = folder_of(copy)
    (folder / "state.json").write_text('{"status": "running"}')
    monitor = Silent()
    look(copy, folder.name, monitor)
    assert any("has not come to its end" in line for line in monitor.said)
    shutil.rmtree(folder / "best")
    with pytest.raises(RequestError, match=r"has no weights yet \(status running\)"):
        look(copy, folder.name)


def test_weights_that_do_not_fit_are_refused(copy):
    folder = folder_of(copy)
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("num_layers: 2", "num_layers: 3"))
    with pytest.raises(RequestError, match="do not fit"):
        look(copy, folder.name)


def test_neighbours_that_the_run_s_curves_cannot_share_are_refused(copy):
    found = load_trained(folder_of(copy).name, copy, "cpu")
    found = dataclasses.replace(found, options=ZetaConfig(curves=3, top_k=6))
    run = make_locality(flags={"-a": ("checkpoint", "x"), "-b": ("num_neighbours", 7), "-c": ("device", "cpu")})
    with pytest.raises(OptionError, match=r"num_neighbours=7 is not divisible by the 3 curves.*nearest that is: 6"):
        neighbours_of(run, found)


def test_more_neighbours_than_tokens_are_refused(copy):
    with pytest.raises(OptionError, match="num_neighbours=16 must be less than the shortest seq_len"):
        look(copy, folder_of(copy).name, num_neighbours=16)


def test_a_run_on_pairs_of_documents_is_read(tmp_path, monkeypatch):
    run = make_run("retrieval", settings=["model.d_model=16", "model.num_layers=1"])
    data = TaskData(
        parts={}, vocab_size=32, max_len=256, num_classes=2, metric="accuracy", fingerprint="none", num_documents=2
    )
    folder = RunFolder(tmp_path / "runs" / "pairs")
    (folder.path / "best").mkdir(parents=True)
    folder.write("config.yaml", to_yaml(run.model_dump(mode="json")))
    weights = build_network(run, data).state_dict()
    save_file(weights, folder.path / "best" / "model.safetensors")
    monkeypatch.setattr(checkpoint, "build_task", lambda run: data)
    found = checkpoint.load_trained("pairs", tmp_path, "cpu").network.state_dict()
    assert all((found[name] == tensor).all() for name, tensor in weights.items())

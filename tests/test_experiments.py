"""Every file under experiments/ is a configuration that builds."""

from pathlib import Path

import pytest

from zeta_core.config import read_yaml
from zeta_core.studies import paper
from zeta_core.studies.locality.config import make_locality
from zeta_core.studies.train_run import make_run

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
FILES = sorted(EXPERIMENTS.rglob("*.yaml"))


def test_there_are_experiments():
    assert {"mqar_paper.yaml", "mqar_mixed.yaml"} <= {path.name for path in FILES}
    assert all(path in FILES for path in EXPERIMENTS.rglob("*") if path.is_file())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_experiment_builds(path):
    assert read_yaml(path).values["kind"] == path.parent.name
    if path.parent.name == "train":
        run = make_run(config=path)
        model = run.model.build(run.attention, vocab_size=run.task.vocab_size, max_len=run.task.longest)
        assert model.num_parameters() > 1e5
    if path.parent.name == "locality":
        assert all(run.curves_of(d_k) for run in [make_locality(config=path)] for d_k in run.d_ks)


def test_the_uniform_file_is_the_paper_s_grid():
    run = make_locality(config=EXPERIMENTS / "locality" / "uniform.yaml")
    grid = {(d_k, seq_len) for d_k, ends in paper.LOCALITY_OVERLAP.items() for seq_len in ends}
    assert run.points == ("uniform",) and run.neighbours == paper.LOCALITY_NEIGHBOURS
    assert grid <= {(d_k, seq_len) for d_k in run.d_ks for seq_len in run.seq_lens}


def test_the_paper_file_is_the_paper_preset():
    assert make_run(config=EXPERIMENTS / "train" / "mqar_paper.yaml") == make_run("mqar", preset="paper")


def test_the_mixed_file_has_the_published_parts():
    task = make_run(config=EXPERIMENTS / "train" / "mqar_mixed.yaml").task
    train = [(mix.seq_len, mix.num_pairs, mix.num_examples) for mix in task.train_mix]
    assert train == [(64, 4, 100_000), (128, 8, 20_000), (256, 16, 20_000), (256, 32, 20_000), (256, 64, 20_000)]
    test = [(mix.seq_len, mix.num_pairs, mix.num_examples) for mix in task.test_mix]
    assert test == [
        (64, 4, 1000), (64, 8, 1000), (64, 16, 1000), (128, 32, 1000), (256, 64, 1000), (512, 128, 1000),
        (1024, 256, 1000),
    ]  # fmt: skip

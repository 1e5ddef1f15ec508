"""Every file under experiments/ is a configuration that builds."""

from pathlib import Path

import pytest

from zeta_core.config import read_yaml
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

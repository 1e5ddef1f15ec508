"""Every file under experiments/ is a configuration that builds."""

from pathlib import Path

import pytest
import torch

from zeta_core.config import read_yaml, to_yaml
from zeta_core.errors import ConfigError
from zeta_core.experiment import read_experiment
from zeta_core.studies import paper
from zeta_core.studies.ablate.config import make_ablate
from zeta_core.studies.bench.config import make_bench
from zeta_core.studies.locality.config import make_locality
from zeta_core.studies.scaling.config import make_scaling
from zeta_core.studies.train_run import make_run

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
FILES = sorted(EXPERIMENTS.rglob("*.yaml"))
KINDS = {"lra": ("train", "ablate"), "language": ("train", "ablate")}
"""Folders that are not named by what their files are, and what those may be."""


def kind_of(path):
    return read_yaml(path).values["kind"]


def test_there_are_experiments():
    assert {"mqar_paper.yaml", "mqar_mixed.yaml"} <= {path.name for path in FILES}
    assert all(path in FILES for path in EXPERIMENTS.rglob("*") if path.is_file())


every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")


@every_file
def test_every_experiment_builds(path):
    assert kind_of(path) in KINDS.get(path.parent.name, (path.parent.name,))
    make(path)
    if kind_of(path) == "train":
        run = make_run(config=path)
        model = run.model.build(run.attention, vocab_size=run.task.vocab_size, max_len=run.task.longest)
        assert model.num_parameters() > 1e5
    if path.parent.name == "locality":
        assert all(run.curves_of(d_k) for run in [make_locality(config=path)] for d_k in run.d_ks)


def make(path):
    """What a file's command makes of it."""
    makers = {
        "train": make_run, "locality": make_locality, "ablate": make_ablate, "bench": make_bench,
        "scaling": make_scaling,
    }  # fmt: skip
    return makers[kind_of(path)](config=path)


@every_file
def test_every_small_version_builds_and_is_small(path, tmp_path):
    experiment = read_experiment(path)
    if experiment.smoke.values:
        small = tmp_path / path.parent.name / path.name
        small.parent.mkdir()
        small.write_text(to_yaml(experiment.small().values))
        made = make(small)
        if kind_of(path) == "ablate":
            _, points = made
            assert len(points) <= 8 and all(point.run.training.steps <= 12 for point in points)


def test_needs_and_smoke_are_checked(tmp_path):
    file = tmp_path / "a.yaml"
    for text, message in (("needs: tpu\n", "must be one of any, gpu"), ("smoke: 3\n", "smoke must be a mapping")):
        file.write_text(text)
        with pytest.raises(ConfigError, match=rf"a.yaml:1:1: .*{message}"):
            read_experiment(file)


def test_an_error_in_a_small_version_is_found_where_it_stands(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("kind: train\ntask: {kind: mqar}\nsmoke:\n  model: {width: 3}\n")
    layer = read_experiment(file).small()
    assert layer.origins["model", "width"] == f"{file}:4:11"


def test_the_uniform_file_is_the_paper_s_grid():
    run = make_locality(config=EXPERIMENTS / "locality" / "uniform.yaml")
    grid = {(d_k, seq_len) for d_k, ends in paper.LOCALITY_OVERLAP.items() for seq_len in ends}
    assert run.points == ("uniform",) and run.neighbours == paper.LOCALITY_NEIGHBOURS
    assert grid <= {(d_k, seq_len) for d_k in run.d_ks for seq_len in run.seq_lens}


def test_the_paper_file_is_the_paper_preset():
    assert make_run(config=EXPERIMENTS / "train" / "mqar_paper.yaml") == make_run("mqar", preset="paper")


LRA = sorted({path.stem.removesuffix("_zeta") for path in FILES if path.match("lra/*_zeta.yaml")})


def test_long_range_arena_has_its_tasks():
    assert set(LRA) == {"image", "listops", "pathfinder", "pathx", "retrieval", "text"}


def test_the_generated_files_are_their_paper_presets_but_for_the_width():
    assert make_run(config=EXPERIMENTS / "lra" / "listops_zeta.yaml") == make_run("listops", preset="paper")
    for task, changes in (("pathfinder", []), ("pathx", ["training.accumulate=64"])):
        wide = ["model.d_model=256", "model.d_mlp=256", "model.num_heads=8", *changes]
        file = make_run(config=EXPERIMENTS / "lra" / f"{task}_zeta.yaml")
        assert file == make_run(task, preset="paper", settings=wide)


@pytest.mark.parametrize("task", LRA)
def test_the_two_files_of_a_task_differ_in_the_mixer_alone(task):
    zeta, softmax = (make_run(config=EXPERIMENTS / "lra" / f"{task}_{mixer}.yaml") for mixer in ("zeta", "softmax"))
    assert (zeta.attention.kind, softmax.attention.kind, zeta.task.kind) == ("zeta", "softmax", task)
    assert zeta.model_dump(exclude={"attention"}) == softmax.model_dump(exclude={"attention"})
    assert zeta.model.num_heads == 8 and zeta.model.d_model in (256, 512) and zeta.model.form == "encoder"


SYSTEMS = {"H-Transformer-1D": "h_transformer_1d", "Hedgehog": "hedgehog", "Transformer": "softmax", "ZETA": "zeta"}


@pytest.mark.parametrize("task", paper.LRA_TASKS)
def test_every_system_of_the_paper_s_table_has_a_file_and_the_same_fields(task):
    zeta, softmax = (make_run(config=EXPERIMENTS / "lra" / f"{task}_{mixer}.yaml") for mixer in ("zeta", "softmax"))
    _, points = make_ablate(config=EXPERIMENTS / "lra" / f"{task}_baselines.yaml")
    assert {SYSTEMS[name] for name in paper.LRA_ACCURACY} == {"zeta", "softmax", *(p.axis_value for p in points)}
    runs = [zeta, softmax, *(point.run for point in points)]
    same = {"task", "model", "training", "seed"}
    assert all(run.model_dump(include=same) == zeta.model_dump(include=same) for run in runs)
    sizes = {"vocab_size": 16, "max_len": 64, "num_classes": 10}
    with torch.device("meta"):
        counts = [run.model.build(run.attention, **sizes).num_parameters() for run in runs]
    assert max(counts) < 1.05 * min(counts)


def test_every_system_of_the_paper_s_wikitext_table_has_a_run():
    _, points = make_ablate(config=EXPERIMENTS / "language" / "wikitext103_baselines.yaml")
    _, others = make_ablate(config=EXPERIMENTS / "language" / "wikitext103_124m.yaml")
    kinds = {point.run.attention.kind for point in (*points, *others)}
    assert kinds == {SYSTEMS.get(name, name.lower()) for name in paper.WIKITEXT_PERPLEXITY}
    assert len({point.run.task.model_dump_json() for point in (*points, *others)}) == 1


@pytest.mark.parametrize("task", ["image", "text"])
def test_the_files_of_imported_tasks_are_their_paper_presets(task):
    assert make_run(config=EXPERIMENTS / "lra" / f"{task}_zeta.yaml") == make_run(task, preset="paper")


def test_the_file_of_retrieval_insists_on_the_official_pairs():
    run = make_run(config=EXPERIMENTS / "lra" / "retrieval_zeta.yaml")
    assert run == make_run("retrieval", preset="paper", settings=["task.source=aan"])


def test_the_mixed_file_has_the_published_parts():
    task = make_run(config=EXPERIMENTS / "train" / "mqar_mixed.yaml").task
    train = [(mix.seq_len, mix.num_pairs, mix.num_examples) for mix in task.train_mix]
    assert train == [(64, 4, 100_000), (128, 8, 20_000), (256, 16, 20_000), (256, 32, 20_000), (256, 64, 20_000)]
    test = [(mix.seq_len, mix.num_pairs, mix.num_examples) for mix in task.test_mix]
    assert test == [
        (64, 4, 1000), (64, 8, 1000), (64, 16, 1000), (128, 32, 1000), (256, 64, 1000), (512, 128, 1000),
        (1024, 256, 1000),
    ]  # fmt: skip

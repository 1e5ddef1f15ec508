"""A run's id: every field that the result depends on changes it, and nothing else does."""

from types import SimpleNamespace

import pytest
from studies.sittings import folder_of, tiny, zeta

from zeta_core.attention import AttentionConfig
from zeta_core.config import Config, kinds
from zeta_core.studies.nearest import no_such_run
from zeta_core.studies.train import identify
from zeta_core.studies.train_run import TrainRun, make_run

DATA = SimpleNamespace(fingerprint="abc")
BASE = make_run("mqar", flags={"--device": ("device", "cpu"), "--impl": ("impl", "reference")})
MIX = {"seq_len": 64, "num_pairs": 4, "num_examples": 5}
CHANGES: dict[str, object] = {
    "task.seq_len": 128, "task.num_pairs": 2, "task.vocab_size": 64, "task.filler": "zero", "task.power": 0.5,
    "task.num_train": 1000, "task.num_validation": 10, "task.num_test": 10, "task.data_seed": 1,
    "task.train_mix": [MIX], "task.test_mix": [MIX],
    "attention.d_k": 4, "attention.top_k": 8, "attention.num_chunks": 4, "attention.chunk_size": 8,
    "attention.score": "inverse_euclidean", "attention.gamma": 0.5, "attention.gamma_per": "head",
    "attention.history_mean": False, "attention.local_window": 4, "attention.projection": "linear",
    "attention.projection_width": 8, "attention.coordinates": "layernorm", "attention.visibility": "token",
    "attention.curves": 6, "attention.refine": 2, "attention.selection": "all",
    "model.d_model": 32, "model.num_layers": 1, "model.num_heads": 1, "model.d_mlp": 64, "model.short_conv": 0,
    "model.positions": "none", "model.form": "encoder", "model.pooling": "cls", "model.dropout": 0.1,
    "model.causal": True, "model.match_parameters": 90_000, "model.mlp": "swiglu", "model.norm": "rms",
    "model.head": "adaptive", "model.cutoffs": (8, 16),
    "training.steps": 10, "training.batch_size": 8, "training.accumulate": 2, "training.learning_rate": 1e-3,
    "training.warmup_steps": 1, "training.weight_decay": 0.0, "training.clip_norm": 2.0,
    "training.eval_every": 10, "training.stop_at": 0.9, "training.compile": True,
    "training.checkpoint_activations": True, "training.sharding": "fsdp",
    "seed": 1, "device": "cuda", "dtype": "bf16", "impl": "triton",
}  # fmt: skip
BESIDES = {
    "attention.chunk_size": {"attention.num_chunks": None},
    "attention.visibility": {"attention.selection": "exact"},
    "attention.curves": {"attention.top_k": 12},
    "model.causal": {"model.form": "encoder"},
}
UNCHANGED = {"training.checkpoint_seconds", "training.process_timeout"}


def changed(*changes: dict[str, object]) -> TrainRun:
    values = BASE.model_dump()
    for change in changes:
        for path, value in change.items():
            *parts, name = path.split(".")
            place = values
            for part in parts:
                place = place[part]
            place[name] = value
    return TrainRun.model_validate(values)


def leaves(config: Config, prefix: str = "") -> set[str]:
    found = set()
    for name in type(config).model_fields:
        value = getattr(config, name)
        found |= leaves(value, f"{prefix}{name}.") if isinstance(value, Config) else {prefix + name}
    return {path for path in found if not path.endswith("kind")}


def test_every_field_is_looked_at():
    assert leaves(BASE) == set(CHANGES) | UNCHANGED


@pytest.mark.parametrize("path", CHANGES)
def test_every_field_changes_the_id(path):
    besides = BESIDES.get(path, {})
    run = changed(besides, {path: CHANGES[path]})
    assert identify(run, DATA) != identify(BASE, DATA)
    if path in ("attention.visibility", "attention.curves", "model.causal"):
        assert identify(run, DATA) != identify(changed(besides), DATA)


def test_the_data_change_the_id():
    assert identify(BASE, SimpleNamespace(fingerprint="abd")) != identify(BASE, DATA)


def test_the_mixer_changes_the_id():
    found = {
        identify(make_run("mqar", settings=["device=cpu"], flags={"--attention": ("attention.kind", kind)}), DATA)
        for kind in ("zeta", "softmax", "exact_topk")
    }
    assert len(found) == 3
    assert {name.rpartition("-")[0] for name in found} == {"mqar-zeta", "mqar-softmax", "mqar-exact_topk"}


def test_how_often_checkpoints_are_written_does_not_matter():
    assert identify(changed({"training.checkpoint_seconds": 60.0}), DATA) == identify(BASE, DATA)


def test_of_the_device_the_kind_alone_matters():
    assert identify(changed({"device": "cuda:1"}), DATA) == identify(changed({"device": "cuda"}), DATA)
    assert identify(changed({"device": "cuda:1"}), DATA) != identify(BASE, DATA)


def test_where_it_is_written_and_how_it_is_asked_for_do_not_matter(tmp_path, capsys):
    names = set()
    for place, more in {"a": [], "b": ["--set", "training.checkpoint_seconds=99", "--force"]}.items():
        assert zeta(tiny(tmp_path / place, "--steps", "1", *more)) == 0
        names.add(folder_of(tmp_path / place).name)
    file = tmp_path / "run.yaml"
    capsys.readouterr()
    zeta(tiny(tmp_path, "--steps", "1", "--dry-run"))
    file.write_text(capsys.readouterr().out)
    zeta(["train", "--config", str(file), "--out", str(tmp_path / "d"), "--wandb", "off"])
    names.add(folder_of(tmp_path / "d").name)
    assert len(names) == 1


def test_the_nearest_run_is_the_one_with_the_fewest_differences(tmp_path):
    from zeta_core.config import to_yaml

    for name, run in {"far": changed({"seed": 1, "attention.d_k": 4}), "near": changed({"attention.d_k": 4})}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(to_yaml(run.model_dump(mode="json")))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.yaml").write_text("task: [")
    said = no_such_run(BASE, "mqar-zeta-0", tmp_path)
    assert said.endswith("the nearest, near, differs in attention.d_k (4 there, 3 here)")
    many = changed({path: value for path, value in CHANGES.items() if path.startswith("training.")})
    assert said.startswith(f"--resume: {tmp_path} holds no run of this configuration (mqar-zeta-0)")
    assert "nor any other; leave --resume out" in no_such_run(many, "mqar-zeta-0", tmp_path / "none")
    assert "and 7 more" in no_such_run(many, "mqar-zeta-0", tmp_path)


def test_the_same_configuration_with_other_data_is_said(tmp_path):
    from zeta_core.config import to_yaml

    (tmp_path / "same").mkdir()
    (tmp_path / "same" / "config.yaml").write_text(to_yaml(BASE.model_dump(mode="json")))
    assert "same has the same configuration but other data" in no_such_run(BASE, "mqar-zeta-0", tmp_path)


MIXERS: dict[str, dict[str, object]] = {
    "softmax": {"d_k": 4, "rotary": True},
    "sliding_window": {"window": 5},
    "performer": {"num_features": 5},
    "based": {"feature_dim": 5, "window": 5},
    "reformer": {"num_buckets": 6, "num_rounds": 2, "window": 5},
    "cosformer": {"period": 5000},
    "mamba": {"state_size": 5, "expand": 1, "conv_width": 3},
    "iceformer": {"top_k": 5, "num_candidates": 99, "num_projections": 5, "num_groups": 1},
    "hedgehog": {},
    "h_transformer_1d": {"block_size": 6},
    "nsa": {"block_size": 6, "num_selected": 3, "window": 5},
    "gla": {"gate_rank": 5, "temperature": 8.0},
}
"""Of each mixer that has not ZETA's fields, another value of each of its own."""


def test_every_member_of_the_union_has_its_fields_looked_at():
    zeta = {path.split(".")[1] for path in CHANGES if path.startswith("attention.")}
    for kind, member in kinds(AttentionConfig).items():
        own = {name for name in member.model_fields if name != "kind"}
        assert own <= zeta if kind in ("zeta", "exact_topk") else own == set(MIXERS[kind]), kind


@pytest.mark.parametrize(("kind", "fields"), MIXERS.items(), ids=MIXERS.keys())
def test_every_field_of_a_mixer_changes_the_id(kind, fields):
    found = {identify(changed({"attention": {"kind": kind}}), DATA)}
    found |= {identify(changed({"attention": {"kind": kind, name: value}}), DATA) for name, value in fields.items()}
    assert len(found) == 1 + len(fields)

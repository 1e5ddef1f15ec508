"""What a sweep trains, from the command line and from files; every value is validated before anything runs."""

import pytest

from zeta_core.attention import AttentionConfig, SoftmaxConfig
from zeta_core.attention.iceformer import IceformerConfig
from zeta_core.config import kinds, to_yaml
from zeta_core.errors import ConfigError
from zeta_core.studies.ablate.axes import AnyAxis
from zeta_core.studies.ablate.config import axis_kinds, make_ablate


def values_of(points):
    return list(dict.fromkeys(point.axis_value for point in points))


@pytest.mark.parametrize("axis", [kind for kind in axis_kinds() if kind != "variants"])
def test_every_axis_has_values_of_its_own_and_builds(axis):
    ablate, points = make_ablate(axis, task="mqar")
    own = kinds(AnyAxis)[axis].model_fields["values"].default
    assert values_of(points) == [str(value) for value in own]
    assert len(points) == 3 * len(own) and {point.run.seed for point in points} == {0, 1, 2}
    assert ablate.axis == axis
    assert len({point.run.model_dump_json() for point in points}) == len(points)


@pytest.mark.parametrize(
    ("axis", "field", "expected"),
    [
        ("dk", "d_k", [1, 2, 3, 8, 32, 64, 128]),
        ("k", "top_k", [2, 4, 8, 16, 24, 32, 40, 48]),
        ("chunks", "num_chunks", [4, 8, 16, 32]),
        ("gamma", "gamma", ["trained", 1.0, 0.5, 0.1, 0.047]),
        ("curves", "curves", [1, 3, 6]),
        ("projection", "projection", ["two_layer", "linear", "random_fixed"]),
    ],
)
def test_an_axis_changes_its_field_alone(axis, field, expected):
    _, points = make_ablate(axis, task="mqar", seeds="5")
    assert [getattr(point.run.attention, field) for point in points] == expected
    others = [point.run.attention.model_dump(exclude={field}) for point in points]
    assert all(other == others[0] for other in others) and {point.run.seed for point in points} == {5}


def test_curves_share_one_k_that_they_divide():
    for settings, top_k in (([], 24), (["attention.top_k=32"], 48)):
        _, points = make_ablate("curves", task="mqar", settings=settings)
        assert {point.run.attention.top_k for point in points} == {top_k}


def test_softmax_over_dot_products_keeps_d_k():
    _, points = make_ablate("softmax", task="mqar", seeds="0", settings=["attention.d_k=2"])
    assert [getattr(point.run.attention, "score", "") for point in points[:4]] == values_of(points)[:4]
    last = points[-1].run.attention
    assert (last.kind, last.d_k) == ("softmax", 2)


def test_a_mixer_keeps_what_it_has_of_the_base():
    _, points = make_ablate("attention", task="mqar", seeds="0", settings=["attention.d_k=5", "attention.top_k=7"])
    found = {point.axis_value: point.run.attention for point in points}
    assert (found["exact_topk"].d_k, found["exact_topk"].top_k) == (5, 7)
    assert found["softmax"].d_k is None
    # Of all other mixers one alone has a field of ZETA's, and it is the same: the keys a query attends to.
    other = {kind: config for kind, config in found.items() if kind not in ("zeta", "exact_topk")}
    assert set(found) == set(kinds(AttentionConfig))
    assert {kind for kind, config in other.items() if config != type(config)()} == {"iceformer"}
    assert other.pop("iceformer") == IceformerConfig(top_k=7)


def test_mixers_that_the_base_is_not_for_are_left_out_unless_they_are_asked_for():
    said = []
    _, points = make_ablate("attention", task="listops", seeds="0", say=said.append)
    assert set(kinds(AttentionConfig)) - set(values_of(points)) == {"mamba", "nsa", "gla"}
    assert len(said) == 1 and said[0].startswith("without mamba, nsa, gla: ")
    _, points = make_ablate("attention", task="listops", seeds="0", settings=["model.causal=true"], say=said.append)
    assert set(values_of(points)) == set(kinds(AttentionConfig)) and len(said) == 1
    with pytest.raises(ConfigError, match="'nsa' is causal alone; these have a bidirectional form: zeta, softmax"):
        make_ablate("attention", task="listops", values="zeta,nsa")


@pytest.mark.parametrize("preset", [None, "paper"])
def test_mixers_get_as_many_parameters_as_the_base_has(preset):
    small = ["model.d_model=32", "model.num_layers=1"]
    _, points = make_ablate("attention", task="listops", preset=preset, seeds="0", settings=small)
    sizes = {"vocab_size": 16, "max_len": 60, "num_classes": 10}
    counts = [point.run.model.build(point.run.attention, **sizes).num_parameters() for point in points]
    assert max(counts) < 1.05 * min(counts) and len(counts) > 10
    _, points = make_ablate("attention", task="listops", seeds="0", settings=[*small, "model.d_mlp=8"])
    assert {(point.run.model.d_mlp, point.run.model.match_parameters) for point in points} == {(8, None)}


def test_parts_change_one_thing_from_the_paper_s_wording():
    _, points = make_ablate("parts", task="mqar", seeds="0")
    runs = {point.axis_value: point.run.model_dump() for point in points}
    base = runs.pop("paper")
    assert base["model"]["short_conv"] == 0 and base["attention"]["history_mean"]
    for name, run in runs.items():
        changed = [
            (part, field)
            for part in ("model", "attention")
            for field in run[part]
            if run[part][field] != base[part][field]
        ]
        assert len(changed) == (2 if name == "visibility_token" else 1), (name, changed)


def test_both_systems():
    _, points = make_ablate("dk", task="mqar", values="1,3", seeds="0", on="both")
    assert [(point.system, point.axis_value) for point in points] == [
        ("zeta", "1"), ("zeta", "3"), ("transformer", "1"), ("transformer", "3"),
    ]  # fmt: skip
    attention = points[-1].run.attention
    assert (attention.selection, attention.visibility, attention.history_mean) == ("all", "token", False)


def test_two_axes_make_a_grid(tmp_path):
    _, points = make_ablate("softmax,dk", task="mqar", seeds="0", on="transformer")
    assert len(points) == 5 * 7 and points[8].axis_value == "negative_euclidean,2" and points[0].axis == "softmax,dk"
    file = tmp_path / "grid.yaml"
    file.write_text("axes: {softmax: [cauchy, dot_product], dk: [1, 2]}\nseeds: [3]\nbase: {task: {kind: mqar}}\n")
    _, points = make_ablate(config=file)
    assert values_of(points) == ["cauchy,1", "cauchy,2", "dot_product,1", "dot_product,2"]
    assert [point.run.attention.d_k for point in points] == [1, 2, 1, 2]


def test_two_axes_may_go_hand_in_hand(tmp_path):
    file = tmp_path / "list.yaml"
    text = "axes: {dk: [1, 2], model.d_model: [16, 32]}\ncombine: list\nseeds: [0]\nbase: {task: {kind: mqar}}\n"
    file.write_text(text)
    _, points = make_ablate(config=file)
    assert values_of(points) == ["1,16", "2,32"]
    assert [(point.run.attention.d_k, point.run.model.d_model) for point in points] == [(1, 16), (2, 32)]
    file.write_text(text.replace("[16, 32]", "[16]"))
    with pytest.raises(ConfigError, match="as many values of every axis, not 2 of dk, 1 of"):
        make_ablate(config=file)


def test_a_field_is_an_axis_by_its_path():
    _, points = make_ablate("model.d_model", task="mqar", values="16,32", seeds="0")
    assert [point.run.model.d_model for point in points] == [16, 32]


def test_a_file_and_what_is_typed_over_it(tmp_path):
    file = tmp_path / "dk.yaml"
    file.write_text(
        "kind: ablate\naxis: dk\nvalues: [1, 2]\nseeds: [0]\n"
        "base: {task: {kind: mqar}, attention: {kind: zeta, top_k: 32}}\n"
    )
    _, points = make_ablate(config=file)
    assert values_of(points) == ["1", "2"] and points[0].run.attention.top_k == 32
    _, points = make_ablate("dk", config=file, values="8", seeds="4,5", settings=["attention.top_k=9"])
    assert values_of(points) == ["8"] and len(points) == 2 and points[0].run.attention.top_k == 9


def test_the_configuration_shown_is_the_sweep(tmp_path):
    ablate, points = make_ablate("k", task="mqar", values="2,4", seeds="7", settings=["training.steps=20"])
    file = tmp_path / "again.yaml"
    file.write_text(to_yaml(ablate.model_dump(mode="json")))
    again, same = make_ablate(config=file)
    assert same == points and again == ablate


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"axis": "dkk"}, r"axis 'dkk' is not one of dk, k, .*did you mean 'dk'"),
        ({"axis": None}, "no AXIS given; name one of dk"),
        ({"axis": "dk", "task": None}, "no TASK given"),
        ({"axis": "dk", "task": "mqr"}, "did you mean 'mqar'"),
        ({"axis": "dk", "values": ""}, "--values is empty"),
        ({"axis": "dk", "values": "2,2"}, "2 is there twice"),
        ({"axis": "dk", "values": "2,x"}, "must be a whole number, not text 'x'"),
        ({"axis": "dk", "values": "0"}, "must be more than 0"),
        ({"axis": "curves", "values": "1,2"}, "must be 1, 3 or 6"),
        ({"axis": "chunks", "values": "4,100"}, "num_chunks=100 is more than the task's seq_len=64"),
        ({"axis": "dk", "seeds": "0,a"}, "seeds.1: must be a whole number, not text 'a'"),
        ({"axis": "dk", "seeds": "1.5"}, "must be a whole number"),
        ({"axis": "dk", "seeds": "1,1"}, "seeds: one is there twice"),
        ({"axis": "k", "flags": {"--attention": ("attention.kind", "softmax")}}, "softmax attention has nothing"),
        (
            {"axis": "chunks", "task": "listops"},
            "AXIS chunks: zeta attention in an encoder has nothing that it changes",
        ),
        ({"axis": "k", "on": "both"}, "AXIS k changes nothing in full attention"),
        ({"axis": "dk", "on": "neither"}, "--on"),
        ({"axis": "model.d_model"}, "has no values of its own"),
        ({"axis": "model.width", "values": "3"}, "unknown field"),
        ({"axis": "dk,k", "values": "3"}, "values belong to one axis"),
        ({"axis": "dk", "settings": ["attention.top=3"]}, "did you mean 'top_k'"),
        ({"axis": "attention", "values": "zeta,perform"}, "'perform' is not one of zeta"),
    ],
)
def test_bad_requests_are_one_line(options, message):
    axis = options.pop("axis")
    with pytest.raises(ConfigError, match=message) as caught:
        make_ablate(axis, **{"task": "mqar", **options})
    assert len(caught.value.lines) == 1


def test_a_file_s_axis_and_task_must_agree_with_what_is_typed(tmp_path):
    file = tmp_path / "dk.yaml"
    file.write_text("axis: dk\nbase: {task: {kind: mqar}}\n")
    with pytest.raises(ConfigError, match="AXIS 'k' is not that of the file, 'dk'"):
        make_ablate("k", config=file)
    file.write_text("axis: dk\nvalues: [1, two]\nbase: {task: {kind: mqar}}\n")
    with pytest.raises(ConfigError, match=r"dk.yaml:2:13: .*must be a whole number, not text 'two'"):
        make_ablate(config=file)


VARIANTS = """
kind: ablate
axes:
  variants:
    softmax: {attention: {kind: softmax, rotary: true}, model: {positions: none, norm: rms}}
    narrow: {attention: {local_window: 4}, model: {d_model: 32}, training: {learning_rate: 1e-4}}
    plain: {}
seeds: [0]
base: {task: {kind: mqar}, attention: {kind: zeta, num_chunks: 4}}
"""


def test_variants_are_named_runs(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text(VARIANTS)
    ablate, points = make_ablate(config=file)
    runs = {point.axis_value: point.run for point in points}
    assert list(runs) == ["softmax", "narrow", "plain"] and {point.axis for point in points} == {"variants"}
    assert runs["softmax"].attention == SoftmaxConfig(rotary=True) and runs["softmax"].model.norm == "rms"
    assert (runs["narrow"].attention.local_window, runs["narrow"].attention.num_chunks) == (4, 4)
    assert (runs["narrow"].model.d_model, runs["narrow"].training.learning_rate) == (32, 1e-4)
    assert runs["plain"].attention.local_window == 0 and runs["plain"].attention.num_chunks == 4
    again = tmp_path / "b.yaml"
    again.write_text(to_yaml(ablate.model_dump(mode="json")))
    assert [point.run for point in make_ablate(config=again)[1]] == [point.run for point in points]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("d_model: 32", "width: 32", "variants=narrow: model.width.*unknown field"),
        ("kind: softmax, rotary", "kind: softmix, rotary", "variants=softmax: .*softmix"),
        ("plain: {}", "plain: 3", "plain"),
    ],
)
def test_what_is_wrong_in_a_variant_is_named(tmp_path, old, new, words):
    file = tmp_path / "a.yaml"
    file.write_text(VARIANTS.replace(old, new))
    with pytest.raises(ConfigError, match=words):
        make_ablate(config=file)


def test_variants_come_from_a_file():
    with pytest.raises(ConfigError, match=r"variants are named in a file, as axes: \{variants:"):
        make_ablate("variants", task="mqar")

"""ListOps: values recomputed by a stack, trees counted one by one, and what is drawn is by the index alone."""

import itertools
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from zeta_core.errors import DataMissing, OptionError
from zeta_core.tasks.generated import words_of
from zeta_core.tasks.listops import ListOpsConfig
from zeta_core.tasks.listops_trees import PADDING, Shape, attempt, draw_levels, trees

FULL = Shape(500, 2000, 10, 10, 0.25)
SHORT = Shape(3, 60, 10, 10, 0.25)
OPERATORS = {10: min, 11: max, 13: lambda values: sum(values) % 10}


def value_of(tokens: list[int]) -> int:
    """The value of a tree, read from left to right with a stack."""
    stack: list[list[int]] = [[]]
    for token in tokens:
        if token < 10:
            stack[-1].append(token)
        elif token < 14:
            stack.append([token])
        else:
            operator, *values = stack.pop()
            assert 2 <= len(values) <= 10
            stack[-1].append(int(OPERATORS.get(operator, statistics.median)(values)))
    assert len(stack) == 1 and len(stack[0]) == 1
    return stack[0][0]


def sequences(examples):
    tokens, offsets = examples.documents[0]
    return [tokens[a:b].tolist() for a, b in itertools.pairwise(offsets)]


@pytest.mark.parametrize(("shape", "number"), [(FULL, 60), (SHORT, 1500)], ids=["full", "short"])
def test_values_are_those_of_a_stack(shape, number):
    examples = trees(shape, 7, 0, number)
    found = sequences(examples)
    assert [value_of(tokens) for tokens in found] == examples.labels.tolist()
    assert all(shape.min_length < len(tokens) < shape.max_length for tokens in found)


def test_the_example_of_the_docstring():
    assert value_of([11, 4, 12, 1, 9, 3, 7, 14, 2, 14]) == 5


def drawn_one_by_one(shape, key, index):
    """The same tree from the same words, node by node: [tokens] of the first that is kept."""
    stream = words_of(key, index)
    while True:
        levels, width = [], 1
        for depth in range(1, shape.max_depth + 1):
            level = []
            for word in stream.random_raw(width).tolist():
                low = word & 0xFFFFFFFF
                operator = depth < shape.max_depth and word >> 34 < shape.operator_share * 2**30
                level.append((10 + (word >> 32 & 3), 2 + low * 9 // 2**32) if operator else (low * 10 // 2**32, 0))
            levels.append(level)
            width = sum(number for _, number in level)
            if not width:
                break
            so_far = sum(1 + (number > 0) for level in levels for _, number in level)
            if so_far + width >= shape.max_length:
                break
        else:
            width = 0
        tokens: list[int] = []
        places = [0] * (len(levels) + 1)

        def write(depth, levels=levels, tokens=tokens, places=places):
            token, number = levels[depth][places[depth]]
            places[depth] += 1
            tokens.append(token)
            for _ in range(number):
                write(depth + 1)
            if number:
                tokens.append(14)

        if not width:
            write(0)
            if shape.min_length < len(tokens) < shape.max_length:
                return tokens


@pytest.mark.parametrize(("shape", "number"), [(FULL, 8), (SHORT, 200), (Shape(3, 60, 3, 10, 0.5), 100)])
def test_trees_are_those_drawn_node_by_node(shape, number):
    found = sequences(trees(shape, 3, 0, number))
    assert found == [drawn_one_by_one(shape, 3, index) for index in range(number)]


def test_the_published_share_of_trees_is_kept():
    """About 8.3 % are kept, the median length is 955, and the largest class has 16.9 %."""
    stream = words_of(5, 0)
    tried = [attempt(FULL, stream) for _ in range(20_000)]
    assert np.mean([one is not None for one in tried]) == pytest.approx(0.083, abs=0.006)
    examples = trees(FULL, 5, 0, 1500)
    assert np.median(np.diff(examples.documents[0].offsets)) == pytest.approx(955, abs=45)
    assert np.bincount(examples.labels).max() / 1500 == pytest.approx(0.169, abs=0.03)


def test_operators_digits_and_arguments_are_uniform():
    tokens = trees(FULL, 9, 0, 300).documents[0].tokens
    counts = np.bincount(tokens, minlength=16)
    assert counts[:10] / counts[:10].sum() == pytest.approx(np.full(10, 0.1), abs=0.004)
    assert counts[10:14] / counts[10:14].sum() == pytest.approx(np.full(4, 0.25), abs=0.01)
    assert counts[14] == counts[10:14].sum() and counts[PADDING] == 0


def test_speed():
    """2,000 full-size trees take under 2 s on one core; here a tenth of them, with room for a busy machine."""
    began = time.process_time()
    trees(FULL, 1, 0, 200)
    assert time.process_time() - began < 0.6


def test_pieces_equal_the_whole():
    whole = trees(SHORT, 2, 0, 300)
    for a, b in itertools.pairwise([0, 1, 2, 170, 300]):
        piece = trees(SHORT, 2, a, b)
        assert sequences(piece) == sequences(whole)[a:b] and np.array_equal(piece.labels, whole.labels[a:b])


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ZETA_DATA", str(tmp_path))
    return tmp_path


def config(**options) -> ListOpsConfig:
    return ListOpsConfig(**{"num_train": 60, "num_validation": 20, "num_test": 30, **options})


def test_the_task_is_what_was_drawn(root):
    with pytest.raises(DataMissing, match="zeta data make listops --examples train=60"):
        config().build()
    made = config().make()
    data = config().build()
    batch = data.parts["train"][0].batch(np.arange(60))
    for row in range(60):
        tokens = batch.tokens[row][~batch.key_padding_mask[row]].tolist()
        assert value_of(tokens) == batch.labels[row]
    assert (batch.tokens[batch.key_padding_mask] == PADDING).all()
    assert data.fingerprint == made.manifest.fingerprint and data.num_classes == 10 and data.vocab_size == 16
    assert data.majority == torch.bincount(data.parts["test"][0].batch(np.arange(30)).labels).max() / 30


def test_splits_and_seeds_are_other_trees(root):
    def first(split, **options):
        return sequences(config(**options).producer(split, 0, 20))

    found = [first("train"), first("validation"), first("test"), first("train", data_seed=1)]
    assert all(not set(map(tuple, a)) & set(map(tuple, b)) for a, b in itertools.combinations(found, 2))
    assert first("train") == first("train", num_train=7, num_test=9)


def test_the_fingerprint_changes_with_every_parameter(root):
    changes = [
        {}, {"min_length": 11}, {"max_length": 61}, {"max_depth": 9}, {"max_arguments": 9}, {"operator_share": 0.26},
        {"num_train": 61}, {"num_validation": 21}, {"num_test": 31}, {"data_seed": 1},
    ]  # fmt: skip
    assert {name for change in changes for name in change} == set(ListOpsConfig.model_fields) - {"kind"}
    assert len({config(**change).make().manifest.fingerprint for change in changes}) == len(changes)


def test_the_same_from_two_workers_with_another_hash_seed(root, monkeypatch):
    script = (
        "from zeta_core.tasks.listops import ListOpsConfig as C\n"
        "if __name__ == '__main__':\n"
        "    C.shard_size = 32\n"
        "    print(C(num_train=60, num_validation=2, num_test=3).make(workers=2).manifest.fingerprint)"
    )
    (root / "make.py").write_text(script)
    environment = {**os.environ, "PYTHONHASHSEED": "4242", "ZETA_DATA": str(root / "other")}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    found = subprocess.check_output([sys.executable, root / "make.py"], env=environment, text=True)
    monkeypatch.setattr(ListOpsConfig, "shard_size", 32)
    assert found.strip() == config(num_validation=2, num_test=3).make().manifest.fingerprint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_length": 60}, "use max_length=65 or more"),
        ({"max_depth": 1}, "greater than or equal to 2"),
        ({"operator_share": 1.0}, "less than 1"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValidationError, match=message):
        config(**options)


def test_lengths_that_no_tree_has():
    with pytest.raises(OptionError, match="none is longer than min_length=500"):
        draw_levels(Shape(500, 2000, 2, 10, 0.25), 0, 0)


def test_the_command_that_makes_it():
    assert ListOpsConfig().command == "zeta data make listops"
    paper = ListOpsConfig.presets["paper"]["task"]
    assert ListOpsConfig(**paper).command == "zeta data make listops --preset paper"
    assert ListOpsConfig(**{**paper, "num_test": 7}).command.endswith("--preset paper --examples test=7")
    assert ListOpsConfig(max_depth=5).command == "zeta data make listops --set max_depth=5"
    assert ListOpsConfig().is_small and ListOpsConfig(**paper).is_small

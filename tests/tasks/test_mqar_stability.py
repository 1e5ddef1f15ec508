"""An example is a function of the parameters, the split and its index: in any process, batch and amount."""

import itertools
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tasks.draws import digest, examples, part_of, small

from zeta_core.tasks import MqarConfig
from zeta_core.tasks.mqar import MqarMix, draw

MIX = MqarMix(seq_len=32, num_pairs=3, num_examples=300)
DEFAULT_FINGERPRINT = "a98a6e7ac79b7b34"
"""Of MqarConfig(). A change of it is a change of everyone's data and run ids."""


def test_the_fingerprint_of_the_defaults():
    assert MqarConfig().build().fingerprint == DEFAULT_FINGERPRINT
    assert MqarConfig().build().fingerprint == DEFAULT_FINGERPRINT


@pytest.mark.parametrize("filler", ["random", "zero"])
def test_pieces_equal_the_whole(filler):
    config = small(filler=filler)
    whole = draw(config, "train", MIX, 0, 300)
    cuts = [0, 1, 2, 77, 205, 300]
    pieces = [draw(config, "train", MIX, a, b) for a, b in itertools.pairwise(cuts)]
    for name in ("tokens", "asked_at"):
        assert np.array_equal(np.concatenate([getattr(piece, name) for piece in pieces]), getattr(whole, name))


def test_more_examples_keep_the_first_ones():
    few, many = examples(part_of(num_train=100)), examples(part_of(num_train=5000))
    assert all(torch.equal(a, b[:100]) for a, b in zip(few, many, strict=True))


def test_other_splits_and_amounts_elsewhere_do_not_matter():
    first = examples(part_of("test"))
    other = examples(part_of("test", num_train=7, num_validation=3, num_test=80))
    assert all(torch.equal(a, b[: len(a)]) for a, b in zip(first, other, strict=True))


def test_an_example_does_not_depend_on_its_batch():
    part = part_of()
    tokens, labels = examples(part)
    for indices in (np.array([5]), np.array([9, 5, 100]), np.arange(250, 300)):
        batch = part.batch(indices)
        assert torch.equal(batch.tokens, tokens[indices])
        assert torch.equal(batch.labels, labels[indices])


def test_splits_share_no_example():
    found = {split: {tuple(row) for row in examples(part_of(split))[0].tolist()} for split in ("train", "validation")}
    found["test"] = {tuple(row) for row in examples(part_of("test"))[0].tolist()}
    assert not found["train"] & found["validation"] and not found["train"] & found["test"]
    assert not found["validation"] & found["test"]


CHANGES = [
    {"seq_len": 34}, {"num_pairs": 2}, {"vocab_size": 42}, {"filler": "zero"}, {"power": 0.02}, {"data_seed": 1},
    {"num_train": 301}, {"num_validation": 41}, {"num_test": 51},
    {"train_mix": [{"seq_len": 32, "num_pairs": 3, "num_examples": 300}]},
    {"test_mix": [{"seq_len": 32, "num_pairs": 3, "num_examples": 50}]},
]  # fmt: skip


def test_the_fingerprint_changes_with_every_parameter():
    assert {next(iter(change)) for change in CHANGES} == set(MqarConfig.model_fields) - {"kind"}
    found = [small(**change).build().fingerprint for change in [{}, *CHANGES]]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("change", CHANGES[:6], ids=str)
def test_the_examples_change_with_what_defines_them(change):
    tokens, _ = examples(part_of())
    other, _ = examples(part_of(**change))
    assert other.shape != tokens.shape or not torch.equal(other, tokens)


def test_the_fingerprint_is_of_the_examples_too(monkeypatch):
    before = small().build().fingerprint
    monkeypatch.setattr("zeta_core.tasks.mqar._below", lambda words, bound: (words % np.uint64(bound)).astype(int))
    assert small().build().fingerprint != before


def test_the_same_bytes_in_fresh_processes_with_other_hash_seeds():
    script = "from tasks.draws import digest, small; print(digest((0, 300)), small().build().fingerprint)"
    root = str(Path(__file__).parents[1])
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "4242")
    ]
    expected = f"{digest((0, 300))} {small().build().fingerprint}\n"
    assert [process.communicate()[0] for process in processes] == [expected] * 2


def test_the_same_bytes_from_any_number_of_workers():
    pieces = [(0, 50), (50, 51), (51, 200), (200, 300)]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tasks.draws", "zeta_cli.train", "zeta_core.studies.train"])
    for workers in (1, 2):
        with context.Pool(workers) as pool:
            assert pool.map(digest, pieces) == [digest(piece) for piece in pieces]

"""Two processes share a run: the same rows, once."""

import os
import subprocess
import sys
from pathlib import Path

import torch
from studies.sittings import folder_of, metrics_of, rows_of, tiny, weights_of, zeta

ZETA = Path(sys.executable).with_name("zeta")


def test_two_processes_train_as_one(tmp_path):
    options = ["--steps", "6", "--set", "model.dropout=0", "--seed", "2"]
    argv = [word.replace("model.dropout=0.1", "model.d_mlp=32") for word in tiny(tmp_path / "two")] + options
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(ZETA)]
    done = subprocess.run(
        [*launcher, *argv],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("test scores") == 1
    argv[argv.index(str(tmp_path / "two"))] = str(tmp_path / "one")
    assert zeta(argv) == 0
    assert folder_of(tmp_path / "two").name == folder_of(tmp_path / "one").name
    two, one = rows_of(tmp_path / "two"), rows_of(tmp_path / "one")
    assert [row["slice"] for row in two] == ["all", "pairs=2"]
    for ours, theirs in zip(two, one, strict=True):
        assert {name for name in ours if ours[name] != theirs[name]} <= {"value", "best_step"}
        assert abs(float(ours["value"]) - float(theirs["value"])) <= 2 / 48
    assert [row["step"] for row in metrics_of(tmp_path / "two")] == ["2", "4", "6"]
    last = [weights_of(place)[1] for place in (tmp_path / "two", tmp_path / "one")]
    for name, tensor in last[0].items():
        torch.testing.assert_close(tensor, last[1][name], rtol=0, atol=2e-3)
        assert (tensor - last[1][name]).abs().mean() < 1e-4

"""What the scaling study measures: settings, rows beside one process, and what becomes of those that cannot run."""

import csv
from dataclasses import replace

import pytest
from studies.sittings import zeta

from zeta_core.errors import ConfigError
from zeta_core.studies import train_rows
from zeta_core.studies.report.scaling import tables
from zeta_core.studies.scaling import study
from zeta_core.studies.scaling.__main__ import main
from zeta_core.studies.scaling.config import make_scaling

FILE = """kind: scaling
processes: [1, 2]
sharing: [none, fsdp]
attentions: [softmax, zeta]
variants: {short: {task: {seq_len: 16}}}
seeds: [0, 1]
jobs: 3
base:
  task: {kind: mqar, num_pairs: 2, vocab_size: 32, num_train: 40, num_validation: 16, num_test: 24}
  attention: {kind: zeta, top_k: 4, num_chunks: 4}
  model: {d_model: 16, num_layers: 1}
  training: {steps: 4, batch_size: 8, eval_every: 2}
  device: cpu
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scaling.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture
def called(monkeypatch):
    """Trains in this process, whoever was to share the run; what was asked for, and the exit codes to come."""
    commands, codes = [], []

    def call(command, folder, timeout_s, environment):
        commands.append((command, environment.get("CUDA_VISIBLE_DEVICES")))
        if codes:
            return codes.pop(0), 1.0
        with monkeypatch.context() as there:
            there.chdir(folder)
            return zeta(command[command.index("zeta_cli") + 1 :]), 2.0

    monkeypatch.setattr(study, "_called", call)
    return commands, codes


def rows_of(tmp_path):
    with (tmp_path / "out" / "results" / "scaling.csv").open(newline="") as table:
        return list(csv.DictReader(table))


def test_the_batch_is_the_same_and_so_is_what_a_process_holds(file):
    _, settings = make_scaling(file)
    found = [(s.run.attention.kind, s.processes, s.sharing, s.run.training.accumulate) for s in settings]
    assert found == [
        (kind, *rest) for kind in ("softmax", "zeta") for rest in [(1, "none", 2), (2, "none", 1), (2, "fsdp", 1)]
    ]
    assert all(s.run.training.sharding == s.sharing and s.run.task.seq_len == 16 for s in settings)


def test_rows_beside_one_process_and_a_second_start(file, tmp_path, called, capsys):
    line = ["--config", str(file), "--out", str(tmp_path / "out")]
    assert main(line) == 0
    commands, _ = called
    assert ["torch.distributed.run" in command for command, _ in commands] == [False, True, True] * 2
    rows = rows_of(tmp_path)
    assert len(rows) == 6 and {row["status"] for row in rows} == {"ok"}
    for alone, *others in (rows[:3], rows[3:]):
        assert float(alone["speedup"]) == 1 and float(alone["loss_gap"]) == 0
        for row in others:
            speedup = float(row["tokens_per_s"]) / float(alone["tokens_per_s"])
            assert float(row["speedup"]) == pytest.approx(speedup)
            assert float(row["efficiency"]) == pytest.approx(speedup / 2)
            assert float(row["loss_gap"]) < 1e-4
    assert "[2/6] softmax short on 2, sharing none" in capsys.readouterr().out
    assert main(line) == 0 and len(commands) == 6 and rows_of(tmp_path) == rows


def test_a_run_that_fails_is_a_row_and_is_done_again(file, tmp_path, called):
    commands, codes = called
    codes += [1, None]
    file.write_text(FILE.replace("[softmax, zeta]", "[softmax]"))
    line = ["--config", str(file), "--out", str(tmp_path / "out")]
    assert main(line) == 1
    assert [(row["status"], row["reason"]) for row in rows_of(tmp_path)[:2]] == [
        ("failed", "exit code 1"), ("timeout", "no end after 3600 s"),
    ]  # fmt: skip
    assert main(line) == 0 and len(commands) == 5
    assert [row["status"] for row in rows_of(tmp_path)] == ["ok", "ok", "ok"]


def test_a_sweep_beside_itself_on_fewer_gpus(file, tmp_path, called, monkeypatch):
    file.write_text(FILE.replace("[none, fsdp]", "[runs]").replace("[softmax, zeta]", "[zeta]"))
    monkeypatch.setattr(study.torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    commands, codes = called
    codes += [0, 0]
    assert main(["--config", str(file), "--out", str(tmp_path / "out")]) == 0
    assert [(command[-2:], gpus) for command, gpus in commands] == [(["-j", "3"], "0"), (["-j", "6"], "0,1")]
    alone, both = rows_of(tmp_path)
    assert (alone["runs"], alone["jobs"], both["jobs"]) == ("2", "3", "6")
    assert float(alone["tokens_per_s"]) == 2 * 4 * 8 * 16 and float(both["efficiency"]) == 0.5


def test_what_needs_more_gpus_is_skipped(file, tmp_path, monkeypatch):
    monkeypatch.setattr(study.torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(train_rows, "device_name", lambda device: "A GPU")
    scaling, settings = make_scaling(file)
    cuda = settings[1].run.model_copy(update={"device": "cuda"})
    row = study._measured(replace(settings[1], run=cuda), tmp_path, 1.0)
    assert (row.status, row.reason) == ("skipped", "needs 2 GPUs, and this machine has 1")
    (table,) = tables([row])
    assert table.rows == [("2", "DDP", row.reason, "-", "-", "-", "-", "-")]
    assert scaling.timeout_s == 3600


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[1, 2]", "[2, 4]", "the first must be 1"),
        ("[1, 2]", "[1, 1]", "each once"),
        ("sharing: [none, fsdp]", "sharing: [ddp]", "none"),
        ("top_k: 4", "top_k: 0", "top_k"),
        ("[softmax, zeta]", "[softmaxx]", "softmaxx"),
    ],
)
def test_refusals(file, tmp_path, old, new, message, capsys):
    file.write_text(FILE.replace(old, new))
    with pytest.raises(ConfigError, match=message):
        make_scaling(file)
    assert main(["--config", str(file), "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()

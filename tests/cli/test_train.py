"""`zeta train` on the command line: every way to ask for it wrongly, and how flags, --set and a file combine."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from cli.mistakes import BAD_FILES, BAD_FLAGS, FILE

from zeta_cli.app import main
from zeta_core.studies.train_failures import RunInterrupted


@pytest.fixture(autouse=True)
def no_key(monkeypatch, tmp_path):
    for name in ("WANDB_MODE", "WANDB_API_KEY", "TRITON_INTERPRET"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr("zeta_core.studies.train.fit", None)  # nothing here may come to training


def refused(capsys, out, *argv):
    """The lines of a refusal: exit code 2, nothing else said, nothing written."""
    code = main(["train", *argv, "--out", str(out)])
    shown, said = capsys.readouterr()
    lines = said.splitlines()
    assert (code, shown) == (2, "")
    assert all(line.startswith("zeta: error: ") for line in lines)
    assert not out.exists()
    return lines


def dry(capsys, *argv):
    """The configuration that a command line means, as plain values."""
    assert main(["train", *argv, "--dry-run"]) == 0
    return yaml.safe_load(capsys.readouterr().out)


@pytest.mark.parametrize(("argv", "words"), BAD_FLAGS.values(), ids=BAD_FLAGS.keys())
def test_a_bad_command_line_is_one_line(argv, words, tmp_path, capsys):
    (line,) = refused(capsys, tmp_path / "out", *argv)
    assert [word for word in words if word not in line] == []


@pytest.mark.parametrize(("text", "words"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_bad_file_is_one_line(text, words, tmp_path, capsys):
    path = tmp_path / "run.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    (line,) = refused(capsys, tmp_path / "out", "mqar", "--config", str(path))
    assert [word for word in words if word not in line] == []


def test_a_missing_file_is_one_line(tmp_path, capsys):
    (line,) = refused(capsys, tmp_path / "out", "mqar", "--config", str(tmp_path / "gone.yaml"))
    assert "gone.yaml: there is no such file" in line
    (line,) = refused(capsys, tmp_path / "out", "--config", str(tmp_path))
    assert "is a folder" in line


def test_every_mistake_has_a_line(tmp_path, capsys):
    path = tmp_path / "run.yaml"
    path.write_text(FILE + "  topk: 4\n  d_k: 0\nseed: x\n")
    lines = refused(capsys, tmp_path / "out", "--config", str(path), "--lr", "-1")
    assert len(lines) == 4
    for words in ("4:3", "5:3", "6:1", "--lr"):
        assert sum(words in line for line in lines) == 1


@pytest.mark.parametrize("place", ["/proc/zeta-out", "file", "file/out"])
def test_a_folder_that_cannot_be_written_is_refused(place, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    out = tmp_path / place
    assert main(["train", "mqar", "--out", str(out)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"zeta: error: --out {out}") and "choose another" in line
    assert (tmp_path / "file").read_text() == ""


RUNS = {
    "defaults": ["mqar"],
    "flags": ["mqar", "--dk", "2", "--k", "12", "--softmax", "normalized_dot", "--gamma", "0.5", "--lr", "1e-4"],
    "chunk_size": ["mqar", "--set", "attention.chunk_size=16"],
    "softmax": ["mqar", "--attention", "softmax", "--seed", "4"],
    "exact_topk": ["mqar", "--attention", "exact_topk"],
    "paper": ["mqar", "--preset", "paper", "--curves", "6", "--k", "36"],
    "mix": ["mqar", "--set", "task.train_mix=[{seq_len: 64, num_pairs: 4, num_examples: 9}]"],
}


@pytest.mark.parametrize("argv", RUNS.values(), ids=RUNS.keys())
def test_dry_run_prints_what_config_takes(argv, tmp_path, capsys):
    assert main(["train", *argv, "--dry-run", "--out", str(tmp_path / "out")]) == 0
    printed, said = capsys.readouterr()
    path = tmp_path / "run.yaml"
    path.write_text(printed)
    assert main(["train", "--config", str(path), "--dry-run"]) == 0
    assert capsys.readouterr() == (printed, "")
    assert main(["train", "mqar", "--config", str(path), "--dry-run"]) == 0
    assert capsys.readouterr().out == printed
    assert said == "" and not (tmp_path / "out").exists()


def test_a_flag_wins_over_set_over_the_file_over_defaults(tmp_path, capsys):
    path = tmp_path / "run.yaml"
    path.write_text("task: {kind: mqar}\nattention: {kind: zeta, d_k: 4}\ntraining: {steps: 7}\n")
    file = ["--config", str(path)]
    five = ["--set", "attention.d_k=5"]
    lines = (["mqar"], file, [*file, *five], [*file, *five, "--dk", "6"])
    found = [dry(capsys, *argv)["attention"]["d_k"] for argv in lines]
    assert found == [3, 4, 5, 6]
    whole = dry(capsys, *file, "--set", "training.eval_every=3")
    assert (whole["training"]["steps"], whole["training"]["eval_every"], whole["training"]["batch_size"]) == (
        7,
        3,
        64,
    )
    assert whole["attention"]["top_k"] == 16


def test_every_flag_sets_its_field(capsys):
    argv = [
        "mqar", "--dk", "5", "--k", "12", "--chunks", "3", "--softmax", "inverse_euclidean", "--gamma", "0.25",
        "--attention", "zeta", "--seq", "48", "--steps", "9", "--batch-size", "7", "--lr", "0.25", "--seed", "11",
        "--device", "cpu", "--dtype", "bf16", "--impl", "reference",
    ]  # fmt: skip
    run = dry(capsys, *argv)
    part = run["attention"]
    assert (part["d_k"], part["top_k"], part["num_chunks"]) == (5, 12, 3)
    assert (part["score"], part["gamma"], part["kind"]) == ("inverse_euclidean", 0.25, "zeta")
    training = run["training"]
    assert (run["task"]["seq_len"], training["steps"], training["batch_size"]) == (48, 9, 7)
    assert (training["learning_rate"], run["seed"]) == (0.25, 11)
    assert (run["device"], run["dtype"], run["impl"]) == ("cpu", "bf16", "reference")
    assert dry(capsys, "mqar", "--curves", "3", "--k", "15")["attention"]["curves"] == 3


def test_gamma_is_trained_or_a_number(capsys):
    for given, wanted in (("trained", "trained"), ("0.5", 0.5), ("2", 2.0), ("1e-3", 0.001)):
        assert dry(capsys, "mqar", "--gamma", given)["attention"]["gamma"] == wanted


def test_another_kind_resets_its_part(tmp_path, capsys):
    path = tmp_path / "run.yaml"
    path.write_text("task: {kind: mqar}\nattention: {kind: zeta, d_k: 4, curves: 1}\n")
    softmax = dry(capsys, "--config", str(path), "--attention", "softmax")["attention"]
    assert softmax == {"kind": "softmax", "d_k": None, "rotary": False}
    exact = dry(capsys, "--config", str(path), "--attention", "exact_topk")["attention"]
    assert (exact["kind"], exact["d_k"], exact["top_k"]) == ("exact_topk", 3, 16)
    assert dry(capsys, "--config", str(path), "--attention", "zeta")["attention"]["d_k"] == 4


def test_a_presets_attention_holds_for_every_mixer_that_has_the_field(tmp_path, capsys):
    path = tmp_path / "run.yaml"
    path.write_text("task: {kind: mqar}\nattention: {kind: exact_topk}\n")
    for argv in (["mqar", "--attention", "exact_topk"], ["--config", str(path)]):
        part = dry(capsys, *argv)["attention"]
        assert (part["kind"], part["top_k"], part["num_chunks"]) == ("exact_topk", 16, 8)
    assert dry(capsys, "mqar", "--attention", "exact_topk", "--preset", "paper")["attention"]["top_k"] == 32
    part = dry(capsys, "--config", str(path), "--attention", "zeta", "--set", "attention.chunk_size=4")["attention"]
    assert (part["kind"], part["top_k"], part["chunk_size"]) == ("zeta", 16, 4)


def test_a_setting_that_a_flag_drops_is_named(capsys):
    chosen = ["train", "mqar", "--chunks", "4", "--set", "attention.chunk_size=16", "--dry-run"]
    assert main([*chosen, "--dk", "3", "--set", "attention.d_k=3", "--set", "seed=1"]) == 0
    shown, said = capsys.readouterr()
    assert said == "zeta: note: --set attention.chunk_size is dropped, since --chunks is given\n"
    assert "num_chunks: 4" in shown and "chunk_size" not in shown
    assert main(["train", "mqar", "--dk", "2", "--set", "attention={kind: zeta, d_k: 5}", "--dry-run"]) == 0
    assert capsys.readouterr().err == "zeta: note: attention.d_k of --set attention is dropped, since --dk is given\n"


def test_a_preset_that_contradicts_a_file_is_named_with_it(tmp_path, capsys):
    path = tmp_path / "run.yaml"
    path.write_text("task:\n  kind: mqar\n  train_mix:\n    - {seq_len: 256, num_pairs: 64, num_examples: 9}\n")
    assert main(["train", "--config", str(path), "--preset", "paper"]) == 2
    assert capsys.readouterr().err == (
        f"zeta: error: --preset paper, {path}:3:3: seq_len=512, num_pairs=64 and train_mix (longest part 256, 64) "
        "contradict each other; leave one out\n"
    )


def test_a_chunk_size_replaces_the_chunks_of_a_lower_layer(tmp_path, capsys):
    path = tmp_path / "run.yaml"
    path.write_text("task: {kind: mqar}\nattention: {chunk_size: 16}\n")
    part = dry(capsys, "--config", str(path))["attention"]
    assert part["chunk_size"] == 16 and "num_chunks" not in part
    part = dry(capsys, "--config", str(path), "--chunks", "4")["attention"]
    assert part["num_chunks"] == 4 and "chunk_size" not in part


@pytest.mark.parametrize("begun", [True, False])
def test_an_interrupted_run_says_how_to_go_on(tmp_path, capsys, monkeypatch, begun):
    def interrupted(*given, **options):
        raise RunInterrupted if begun else KeyboardInterrupt

    monkeypatch.setattr("zeta_core.studies.train.run_train", interrupted)
    argv = ["train", "mqar", "--force", "--set", "task.filler=zero", "--out", str(tmp_path / "an out")]
    monkeypatch.setattr("sys.argv", ["zeta", *argv])
    assert main() == 130
    said = capsys.readouterr().err.splitlines()
    rest = f"--set task.filler=zero --out '{tmp_path / 'an out'}'"
    if begun:
        assert said == [f"zeta: interrupted; go on with: zeta train mqar {rest} --resume"]
    else:
        assert said == [f"zeta: interrupted before it trained; start again with: zeta train mqar --force {rest}"]


LIGHT = """
import contextlib, io, sys
from zeta_cli.app import main
for argv in (["--help"], ["train", "--help"], ["--version"], ["train", "mqar", "--chunkz", "3"]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main(argv)
print(sorted({"torch", "numpy", "pydantic", "accelerate", "pandas", "wandb", "yaml"} & set(sys.modules)))
"""


def test_help_imports_nothing_slow():
    done = subprocess.run(
        [sys.executable, "-c", LIGHT],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    assert set(yaml.safe_load(done.stdout)) <= {"pydantic"}


def test_help_names_every_flag(capsys):
    assert main(["train", "--help"]) == 0
    shown = capsys.readouterr().out
    flags = (
        "dk k chunks softmax curves gamma seq steps batch-size lr seed device dtype impl attention preset config set "
        "out wandb resume force dry-run"
    )
    assert [flag for flag in flags.split() if f"--{flag}" not in shown] == []


def test_a_mixer_chosen_by_its_flag_keeps_what_was_set(capsys):
    chosen = ["train", "mqar", "--attention", "exact_topk", "--set", "attention.top_k=4", "--dry-run"]
    assert main(chosen) == 0
    assert "top_k: 4" in capsys.readouterr().out
    assert main(["train", "mqar", "--attention", "softmax", "--set", "attention.local_window=16"]) == 2
    assert "unknown field of softmax attention" in capsys.readouterr().err


def test_an_out_that_cannot_hold_results_and_a_seed_too_large_are_refused_at_once(tmp_path, capsys):
    out = tmp_path / "held"
    out.mkdir()
    (out / "results").touch()
    assert main(["train", "mqar", "--out", str(out)]) == 2
    assert "is no folder" in capsys.readouterr().err
    assert main(["train", "mqar", "--seed", str(2**32), "--out", str(out)]) == 2
    assert [path.name for path in out.iterdir()] == ["results"]

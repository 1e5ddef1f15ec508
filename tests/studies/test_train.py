"""What a run leaves, when it is repeated, and what it refuses."""

import json

import pytest
import yaml
from studies.sittings import agree, folder_of, metrics_of, rows_of, sit, tiny, weights_of, zeta

from zeta_core.run_folder import RunFolder


def run(capsys, *argv):
    """Exit code, standard output and standard error of a command line."""
    code = zeta(argv)
    return code, *capsys.readouterr()


def state(out):
    return json.loads((folder_of(out) / "state.json").read_text())


def test_a_run_leaves_rows_and_a_folder(tmp_path, capsys):
    out = tmp_path / "out"
    code, shown, said = run(capsys, *tiny(out))
    assert code == 0
    assert all(word in shown for word in ("test scores", "accuracy", "reachable", "pairs=2"))
    folder = folder_of(out)
    assert sorted(path.name for path in folder.iterdir()) == [
        "best", "checkpoints", "config.yaml", "lock", "log.txt", "metrics.csv", "rows.json", "state.json",
    ]  # fmt: skip
    assert str(folder) in shown.replace("\n", "")
    rows = rows_of(out)
    count = f"{int(rows[0]['parameters']):,}"
    assert f"{folder.name}: {count} parameters + {(32 + 16) * 16} of embeddings, 8 steps on cpu in fp32" in said
    assert [row["slice"] for row in rows] == ["all", "pairs=2"]
    for row in rows:
        assert (row["run_id"], row["status"], row["seed"], row["metric"]) == (folder.name, "ok", "0", "accuracy")
        assert (row["top_k"], row["num_chunks"], row["chunk_size"], row["steps"]) == ("4", "4", "", "8")
        assert (row["dtype"], row["impl"]) == ("fp32", "reference")
        assert 0 <= float(row["value"]) <= 1 and 0 < float(row["reachable"]) <= 1
        assert row["data_fingerprint"] and row["torch"] and row["best_step"] in "2468"
    assert [row["step"] for row in metrics_of(out)] == ["2", "4", "6", "8"]
    assert state(out) == {"status": "ok", "reason": ""}
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert (config["device"], config["dtype"], config["impl"]) == ("cpu", "fp32", "reference")


def test_a_stored_configuration_is_the_run(tmp_path, capsys):
    run(capsys, *tiny(tmp_path / "a"))
    stored = folder_of(tmp_path / "a") / "config.yaml"
    code, _, _ = run(capsys, "train", "--config", str(stored), "--out", str(tmp_path / "b"), "--wandb", "off")
    assert code == 0
    agree(tmp_path / "a", tmp_path / "b")


def test_a_finished_run_is_announced_and_not_repeated(tmp_path, capsys):
    out = tmp_path / "out"
    _, first, _ = run(capsys, *tiny(out))
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    for more in ([], ["--resume"]):
        code, shown, said = run(capsys, *tiny(out, *more))
        assert code == 0 and "step" not in said
        assert shown.startswith(f"{folder_of(out).name} is finished already; --force repeats it")
        assert shown.endswith(first)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_force_repeats_a_finished_run_and_replaces_its_rows(tmp_path, capsys):
    out = tmp_path / "out"
    run(capsys, *tiny(tmp_path / "once"))
    run(capsys, *tiny(out))
    run(capsys, *tiny(out, "--seed", "1"))
    code, shown, said = run(capsys, *tiny(out, "--force"))
    assert code == 0 and "finished already" not in shown and "step 8/8" in said
    assert [row["seed"] for row in rows_of(out)] == ["1", "1", "0", "0"]
    other = next(path for path in (out / "runs").iterdir() if "\nseed: 1" in (path / "config.yaml").read_text())
    other.rename(tmp_path / "aside")
    assert rows_of(tmp_path / "once") == rows_of(out)[2:]
    assert metrics_of(out) == metrics_of(tmp_path / "once")
    assert len(weights_of(out)) == 2


def test_rows_that_were_lost_are_made_again_without_training(tmp_path, capsys):
    out = tmp_path / "out"
    run(capsys, *tiny(out))
    rows = rows_of(out)
    table = out / "results" / "train.csv"
    table.unlink()
    code, shown, _ = run(capsys, *tiny(out))
    assert code == 0 and "finished already" in shown
    assert rows_of(out) == rows
    table.unlink()
    (folder_of(out) / "rows.json").write_text("[{}]")  # of a version with other columns
    code, _, said = run(capsys, *tiny(out))
    assert code == 0 and "resumed at step 8 of 8" in said
    assert [row["value"] for row in rows_of(out)] == [row["value"] for row in rows]


def unfinished(out, capsys, *more):
    """A run that ended in its middle by an error of the disk, with checkpoints."""
    run(capsys, *tiny(out, *more))
    RunFolder(folder_of(out)).set_status("running")
    (out / "results" / "train.csv").unlink()


def test_an_unfinished_run_needs_a_decision(tmp_path, capsys):
    out = tmp_path / "out"
    unfinished(out, capsys)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    code, shown, said = run(capsys, *tiny(out))
    assert (code, shown, said.count("\n")) == (2, "", 1)
    assert "unfinished run" in said and "--resume goes on with it" in said and "--force starts over" in said
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert run(capsys, *tiny(out, "--resume"))[0] == 0
    assert len(rows_of(out)) == 2


def test_resume_with_no_run_names_the_nearest(tmp_path, capsys):
    out = tmp_path / "out"
    code, _, said = run(capsys, *tiny(out, "--resume"))
    assert code == 2 and "holds no run of this configuration" in said and "leave --resume out to start it" in said
    assert not out.exists()
    run(capsys, *tiny(out))
    run(capsys, *tiny(out, "--seed", "7", "--lr", "1e-4"))
    near = next(path.name for path in (out / "runs").iterdir() if "\nseed: 0" in (path / "config.yaml").read_text())
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    code, shown, said = run(capsys, *tiny(out, "--resume", "--dk", "2"))
    assert (code, shown, said.count("\n")) == (2, "", 1)
    assert f"the nearest, {near}, differs in attention.d_k (3 there, 2 here)" in said
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_a_run_cannot_be_made_longer(tmp_path, capsys):
    out = tmp_path / "out"
    run(capsys, *tiny(out))
    code, _, said = run(capsys, *tiny(out, "--resume", "--steps", "12"))
    assert code == 2 and "training.steps (8 there, 12 here)" in said
    assert "cannot be made longer, since its learning rates depend on the number of steps" in said


def test_a_failed_run_has_its_row_and_names_its_log(tmp_path, capsys):
    out = tmp_path / "out"
    code, shown, said = run(capsys, *tiny(out, "--lr", "1e30", "--set", "training.warmup_steps=0"))
    line = said.splitlines()[-1]
    assert (code, shown) == (1, "")
    assert line.startswith("zeta: error: ") and "step 2" in line and f"log: {folder_of(out) / 'log.txt'}" in line
    (row,) = rows_of(out)
    assert (row["status"], row["value"], row["best_step"], row["slice"]) == ("failed", "", "", "all")
    assert state(out)["status"] == "failed" and "step 2" in state(out)["reason"]
    assert "failed: " in (folder_of(out) / "log.txt").read_text()
    code, _, _ = run(capsys, *tiny(out, "--lr", "1e30", "--set", "training.warmup_steps=0", "--force"))
    assert code == 1 and len(rows_of(out)) == 1


def test_a_run_that_fails_while_it_is_validated_has_its_row_too(tmp_path, capsys):
    argv = [word.replace("eval_every=2", "eval_every=1") for word in tiny(tmp_path, "--lr", "1e30")]
    code, _, said = run(capsys, *argv, "--set", "training.warmup_steps=0")
    assert code == 1 and "step 1" in said.splitlines()[-1]
    assert [row["status"] for row in rows_of(tmp_path)] == ["failed"]


def test_a_failed_run_that_resumes_fails_again_with_one_row(tmp_path, capsys):
    more = ["--lr", "1e30", "--set", "training.warmup_steps=0"]
    run(capsys, *tiny(tmp_path, *more))
    assert run(capsys, *tiny(tmp_path, *more, "--resume"))[0] == 1
    assert [row["status"] for row in rows_of(tmp_path)] == ["failed"]


def test_a_run_that_another_process_is_at_is_refused(tmp_path, capsys):
    out = tmp_path / "out"
    process = sit(tiny(out), tmp_path / "words", delay=0.2)
    while not (out.exists() and list(out.glob("runs/*/checkpoints/step_*"))):
        assert process.is_alive()
        process.join(0.02)
    for more in (["--resume"], ["--force"], []):
        code, _, said = run(capsys, *tiny(out, *more))
        assert code == 2 and "another process is at this run" in said.splitlines()[-1]
    process.join()
    assert process.exitcode == 0, (tmp_path / "words").read_text()
    run(capsys, *tiny(tmp_path / "alone"))
    agree(out, tmp_path / "alone")


def test_a_refused_run_leaves_the_next_one_its_precision(tmp_path, capsys):
    """accelerate holds the precision for the whole process."""
    assert run(capsys, *tiny(tmp_path / "a", "--dtype", "fp32", "--batch-size", "41"))[0] == 2
    assert not (tmp_path / "a").exists()
    assert run(capsys, *tiny(tmp_path / "b", "--dtype", "bf16", "--steps", "2"))[0] == 0
    assert {row["dtype"] for row in rows_of(tmp_path / "b")} == {"bf16"}
    assert run(capsys, *tiny(tmp_path / "b", "--dtype", "fp32", "--steps", "2"))[0] == 0


@pytest.mark.parametrize("attention", ["softmax", "exact_topk"])
def test_every_other_mixer_trains(tmp_path, capsys, attention):
    argv = [word for word in tiny(tmp_path) if attention != "softmax" or word not in ("--k", "--chunks", "4")]
    code, _, said = run(capsys, *argv, "--attention", attention, "--steps", "2")
    assert code == 0, said
    assert {row["attention"] for row in rows_of(tmp_path)} == {attention}

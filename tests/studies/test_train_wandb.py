"""Whatever W&B does, the run and its CSV are the same."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest
from studies.sittings import agree, folder_of, rows_of, sit, tiny, zeta


@pytest.fixture
def plain(tmp_path):
    assert zeta(tiny(tmp_path / "plain")) == 0
    return tmp_path / "plain"


def online(out, mode):
    """The tiny run with another --wandb."""
    argv = tiny(out)
    argv[argv.index("off")] = mode
    return argv


def test_an_offline_run_leaves_the_same(plain, tmp_path):
    out, words = tmp_path / "out", tmp_path / "words"
    process = sit(online(out, "offline"), words)
    process.join()
    assert process.exitcode == 0, words.read_text()
    assert "W&B is offline: --wandb offline" in words.read_text() and "W&B failed" not in words.read_text()
    agree(out, plain)
    assert list((folder_of(out) / "wandb").glob("offline-run-*/*.wandb"))


def test_a_machine_without_wandb(plain, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert zeta(online(tmp_path / "out", "auto")) == 0
    assert "W&B is off: wandb is not installed" in capsys.readouterr().err
    agree(tmp_path / "out", plain)
    assert zeta(online(tmp_path / "other", "offline")) == 2
    assert "pip install wandb" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("failing", ["init", "log", "table", "finish"])
def test_wandb_that_breaks_is_survived(plain, tmp_path, monkeypatch, capsys, failing):
    calls = []

    def act(name):
        calls.append(name)
        if name == failing and calls.count(name) == (2 if name == "log" else 1):
            raise ConnectionError("the network is away")

    run = SimpleNamespace(
        log=lambda data, step=None: act("log" if step is not None else "table"),
        finish=lambda exit_code: act("finish"),
    )
    module = ModuleType("wandb")
    module.__spec__ = ModuleSpec("wandb", None)
    module.init = lambda **options: act("init") or run
    module.Settings, module.Table = SimpleNamespace, SimpleNamespace
    monkeypatch.setitem(sys.modules, "wandb", module)
    assert zeta(online(tmp_path / "out", "offline")) == 0
    said = capsys.readouterr().err
    assert said.count("W&B failed, going on without it: ConnectionError: the network is away") == 1
    assert calls[-1] == failing
    agree(tmp_path / "out", plain)
    assert len(rows_of(tmp_path / "out")) == 2

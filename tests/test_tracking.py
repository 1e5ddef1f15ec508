"""W&B: when it is used, and that its failures end the sending and nothing else."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest
from rows import toy

from zeta_core.errors import OptionError
from zeta_core.tracking import Tracker, resolve_wandb


@pytest.fixture(autouse=True)
def no_key(monkeypatch, tmp_path):
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)


class FakeRun:
    """Notes what is sent; raises when the call named `failing` comes for the n-th time."""

    def __init__(self, failing=""):
        self.failing, self.calls = failing, []

    def _do(self, name, *given):
        self.calls.append((name, *given))
        if name == self.failing:
            raise RuntimeError("the network\nis away")

    def log(self, data, step=None):
        self._do("log" if step is not None else "table", data, step)

    def finish(self, exit_code=None):
        self._do("finish", exit_code)


@pytest.fixture
def fake(monkeypatch):
    def install(failing=""):
        run, module = FakeRun(failing), ModuleType("wandb")
        module.__spec__ = ModuleSpec("wandb", None)
        module.init = lambda **options: run._do("init", options) or run
        module.Settings = lambda **options: options
        module.Table = lambda columns, data: SimpleNamespace(columns=columns, data=data)
        monkeypatch.setitem(sys.modules, "wandb", module)
        return run

    return install


def use(tracker, folder):
    tracker.start("mqar-zeta-1", {"seed": 0}, folder)
    for step in (2, 4):
        tracker.log({"step": step, "loss": 1.5})
    tracker.table("train", [toy("mqar-zeta-1", None)])
    tracker.finish(failed=False)


def test_auto_is_off_without_a_key(fake, monkeypatch, tmp_path):
    fake()
    assert resolve_wandb("auto") == ("off", "no key is configured")
    (tmp_path / ".netrc").write_text("machine api.wandb.ai login user password 123\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert resolve_wandb("auto") == ("online", "a key is configured")
    (tmp_path / ".netrc").write_text("broken")
    assert resolve_wandb("auto")[0] == "off"
    monkeypatch.setenv("WANDB_API_KEY", "123")
    assert resolve_wandb("auto")[0] == resolve_wandb("online")[0] == "online"


@pytest.mark.parametrize(("named", "mode"), [("offline", "offline"), ("ONLINE", "online"), ("disabled", "off")])
def test_auto_follows_the_environment(fake, monkeypatch, named, mode):
    fake()
    monkeypatch.setenv("WANDB_MODE", named)
    monkeypatch.setenv("WANDB_API_KEY", "123")
    assert resolve_wandb("auto")[0] == mode
    assert resolve_wandb("off")[0] == "off"


def test_online_by_the_environment_without_a_key_is_off_and_asks_nothing(fake, monkeypatch):
    fake()
    monkeypatch.setenv("WANDB_MODE", "online")
    assert resolve_wandb("auto") == ("off", "WANDB_MODE=online, but no key is configured")


def test_online_needs_a_key(fake):
    fake()
    with pytest.raises(OptionError, match=r"--wandb online: no key is configured.*--wandb offline"):
        resolve_wandb("online")
    assert resolve_wandb("offline") == ("offline", "--wandb offline")


def test_without_wandb_nothing_is_asked_of_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert resolve_wandb("auto") == ("off", "wandb is not installed")
    for mode in ("online", "offline"):
        with pytest.raises(OptionError, match=f"--wandb {mode}: wandb is not installed; pip install wandb"):
            resolve_wandb(mode)
    said = []
    use(Tracker("off", said.append), tmp_path)
    assert said == []


def test_a_run_is_sent_whole(fake, tmp_path):
    run, said = fake(), []
    use(Tracker("online", said.append), tmp_path)
    assert [call[0] for call in run.calls] == ["init", "log", "log", "table", "finish"]
    options = run.calls[0][1]
    assert (options["id"], options["config"], options["mode"]) == ("mqar-zeta-1", {"seed": 0}, "online")
    assert options["resume"] == "allow"
    assert run.calls[2][1:] == ({"step": 4, "loss": 1.5}, 4)
    table = run.calls[3][1]["train"]
    assert dict(zip(table.columns, table.data[0], strict=True))["run_id"] == "mqar-zeta-1"
    assert run.calls[4] == ("finish", 0)
    assert said == []


def test_a_failed_run_is_marked(fake, tmp_path):
    run = fake()
    tracker = Tracker("offline", print)
    tracker.start("a", {}, tmp_path)
    tracker.finish(failed=True)
    tracker.finish(failed=True)
    assert run.calls[1:] == [("finish", 1)]


@pytest.mark.parametrize("failing", ["init", "log", "table", "finish"])
def test_a_failure_is_said_once_and_ends_the_sending(fake, tmp_path, failing):
    run, said = fake(failing), []
    use(Tracker("online", said.append), tmp_path)
    assert said == ["W&B failed, going on without it: RuntimeError: the network"]
    assert [call[0] for call in run.calls].count(failing) == 1
    assert run.calls[-1][0] == failing


def test_an_interrupt_is_no_failure_of_wandb(fake, tmp_path, monkeypatch):
    run = fake()
    tracker = Tracker("online", print)
    tracker.start("a", {}, tmp_path)

    def interrupted(*given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "log", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tracker.log({"step": 1})

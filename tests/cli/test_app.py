"""Every way to get a command line wrong gives one line and its exit code; never a traceback unasked."""

import os
import subprocess
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import pytest
import typer

from zeta_cli.app import app, main, run_app
from zeta_cli.console import Interrupted, one_line
from zeta_core.errors import ConfigError, OptionError, RunFailed, StorageError

Outcome = tuple[int, str, str]
Run = Callable[..., Outcome]


class Color(Enum):
    RED = "red"
    GREEN = "green"


def raised(error: BaseException) -> Callable[[], None]:
    def command() -> None:
        raise error

    return command


def toy() -> typer.Typer:
    target = typer.Typer(name="zeta")

    @target.command()
    def train(
        task: Annotated[Literal["mqar", "listops"], typer.Argument()],
        steps: Annotated[int | None, typer.Option("--steps", "-s", min=1)] = None,
        rate: float | None = None,
        color: Color = Color.RED,
        seeds: Annotated[list[int] | None, typer.Option("--seed")] = None,
        config: Annotated[Path | None, typer.Option(exists=True)] = None,
    ) -> int:
        print("trained", task, steps, rate, color.value, seeds, config)
        return 0

    @target.command(hidden=True)
    def secret() -> None: ...

    @target.command()
    def show(name: str) -> None:
        print(name)

    errors: dict[str, BaseException] = {
        "broken-config": ConfigError("a.yaml:1:1: first", "a.yaml:2:1: second\nline"),
        "wrong-request": OptionError("top_k=3 is not divisible by curves=2"),
        "failed-run": RunFailed("run 1f2e failed; its log is out/runs/1f2e/log.txt"),
        "full-disk": StorageError("out/results/train.csv: no space left"),
        "bug": ZeroDivisionError("division\nby zero"),
        "ctrl-c": KeyboardInterrupt(),
        "stopped": Interrupted("stopped at step 10; go on with: zeta train mqar --resume"),
        "abort": typer.Abort(),
        "refused": typer.BadParameter("Not today."),
        "code": typer.Exit(5),
        "socket": BrokenPipeError("a socket's"),
    }
    for name, error in errors.items():
        target.command(name)(raised(error))
    return target


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def outcome(*argv: str) -> Outcome:
        code = run_app(toy(), list(argv))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return outcome


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["tran"], "unknown command 'tran' (did you mean 'train'?)"),
        (["secre"], "unknown command 'secre'; see zeta --help"),
        (["it's"], 'unknown command "it\'s"; see zeta --help'),
        (["xyz\nq"], "unknown command 'xyz\\nq'; see zeta --help"),
        (["train", "mqar", "--stps", "3"], "unknown option '--stps' of zeta train (did you mean '--steps'?)"),
        (["train", "mqar", "--qqqq"], "unknown option '--qqqq' of zeta train; see zeta train --help"),
        (["train", "mqar", "-x"], "unknown option '-x' of zeta train; see zeta train --help"),
        (["train", "mqar", "--debg"], "unknown option '--debg' of zeta train (did you mean '--debug'?)"),
        (["--hlp"], "unknown option '--hlp' of zeta (did you mean '--help'?)"),
        (
            ["train"],
            "missing argument TASK of zeta train (it is one of 'mqar', 'listops'; see zeta train --help)",
        ),
        (["show"], "missing argument NAME of zeta show (see zeta show --help)"),
        (["train", "mqr"], "TASK=mqr: must be one of 'mqar', 'listops' (did you mean 'mqar'?)"),
        (["train", "mqar", "--steps", "abc"], "--steps=abc: must be a whole number"),
        (["train", "mqar", "-s", "1.5"], "--steps=1.5: must be a whole number"),
        (["train", "mqar", "--steps", "1e3"], "--steps=1e3: must be a whole number"),
        (["train", "mqar", "--steps", "9" * 5000], None),
        (["train", "mqar", "--steps", "0"], "--steps=0: must be at least 1"),
        (["train", "mqar", "--steps", ""], "--steps=: must be a whole number"),
        (["train", "mqar", "--rate", "x"], "--rate=x: must be a number"),
        (
            ["train", "mqar", "--color", "gren"],
            "--color=gren: must be one of 'red', 'green' (did you mean 'green'?)",
        ),
        (["train", "mqar", "--seed", "1", "--seed", "b"], "--seed=b: must be a whole number"),
        (["train", "mqar", "--steps"], "option '--steps' requires an argument"),
        (["train", "mqar", "two"], "got unexpected extra argument(s) (two); see zeta train --help"),
        (["train", "mqar", "--config", "no.yaml"], None),
        (["refused"], "invalid value: Not today; see zeta refused --help"),
        (["wrong-request"], "top_k=3 is not divisible by curves=2"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
)
def test_a_wrong_request_is_one_line_and_code_2(run: Run, argv: list[str], line: str | None) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert err.startswith("zeta: error: ") and err.count("\n") == 1 and err.endswith("\n")
    if line is not None:
        assert err == f"zeta: error: {line}\n"


def test_a_missing_file_is_named(run: Run) -> None:
    assert "--config: " in run("train", "mqar", "--config", "no.yaml")[2]
    assert "no.yaml" in run("train", "mqar", "--config", "no.yaml")[2]


@pytest.mark.parametrize(
    ("command", "code", "err"),
    [
        ("broken-config", 2, "zeta: error: a.yaml:1:1: first\nzeta: error: a.yaml:2:1: second line\n"),
        ("failed-run", 1, "zeta: error: run 1f2e failed; its log is out/runs/1f2e/log.txt\n"),
        ("full-disk", 1, "zeta: error: out/results/train.csv: no space left\n"),
        (
            "bug",
            1,
            "zeta: internal error: ZeroDivisionError: division by zero (run again with --debug for the traceback)\n",
        ),
        ("ctrl-c", 130, "zeta: interrupted\n"),
        ("abort", 130, "zeta: interrupted\n"),
        ("stopped", 130, "zeta: stopped at step 10; go on with: zeta train mqar --resume\n"),
        ("code", 5, ""),
    ],
)
def test_errors_of_a_command(run: Run, command: str, code: int, err: str) -> None:
    assert run(command) == (code, "", err)


def test_a_broken_pipe_that_is_not_ours_is_an_error(run: Run) -> None:
    code, _, err = run("socket")
    assert code == 1 and "BrokenPipeError" in err


@pytest.mark.parametrize("argv", [["--debug", "bug"], ["bug", "--debug"]])
def test_debug_anywhere_shows_the_traceback(run: Run, argv: list[str]) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (1, "")
    assert err.startswith("Traceback") and "ZeroDivisionError" in err


def test_a_closed_standard_output_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert run_app(toy(), ["show", "x"]) == 0


def test_debug_after_two_dashes_is_an_argument(run: Run) -> None:
    assert run("show", "--", "--debug") == (0, "--debug\n", "")


def test_a_right_request_passes_everything_on(run: Run) -> None:
    argv = ["train", "--steps", "3", "mqar", "--seed", "1", "--debug", "--seed", "2"]
    assert run(*argv) == (0, "trained mqar 3 None red [1, 2] None\n", "")


def test_one_line_keeps_terminal_codes_out() -> None:
    assert one_line("a\x1b[31m\n\tb\u2028c") == "a\\x1b[31m b c"


def test_zeta_alone_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    alone = capsys.readouterr()
    assert main(["-h"]) == 0
    assert "--debug" in alone.out and alone.out.split() == capsys.readouterr().out.split()
    assert alone.err == ""


def test_version_names_python_and_torch(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["zeta-attention", "python", "torch"]
    assert lines[1] == f"python {sys.version.split()[0]}"


def zeta(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)


def test_help_imports_nothing_slow() -> None:
    slow = {"torch", "pandas", "wandb", "pydantic", "yaml", "numpy"}
    done = zeta(f"import sys; from zeta_cli.app import main; main(['--help']); print({slow} & set(sys.modules))")
    assert done.stdout.splitlines()[-1] == "set()", done.stderr


def test_a_reader_that_leaves_ends_it_quietly() -> None:
    code = (
        "import sys, typer; from zeta_cli.app import run_app\n"
        "app = typer.Typer()\n"
        "@app.command()\n"
        "def many(): [print('x' * 100) for _ in range(10000)]\n"
        "sys.exit(run_app(app, []))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_the_shell_gets_completions() -> None:
    code = "from zeta_cli.start import run; run()"
    done = zeta(code, _ZETA_COMPLETE="complete_bash", COMP_WORDS="zeta --ver", COMP_CWORD="1")
    assert done.stdout.split() == ["--version"] and done.stderr == ""


@pytest.mark.parametrize("module", ["typer", "zeta_core.studies.train"])
def test_ctrl_c_during_an_import_is_one_line(tmp_path: Path, module: str) -> None:
    """A library may turn the exception into another one, so it must never get one."""
    code = (
        "import os, signal, sys\n"
        "from zeta_cli.start import run\n"
        "class Slow:\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {module!r}:\n"
        "            try:\n"
        "                os.kill(os.getpid(), signal.SIGINT)\n"
        "                [None for _ in range(1000)]\n"
        "            except KeyboardInterrupt: raise RecursionError\n"
        "sys.meta_path.insert(0, Slow())\n"
        f"sys.argv = ['zeta', 'train', 'mqar', '--out', {str(tmp_path / 'out')!r}]\n"
        "run()"
    )
    done = zeta(code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "zeta: interrupted\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("command", "code"), [("ctrl-c", 130), ("stopped", 130), ("wrong-request", 2), ("broken-config", 2), ("tran", 2)]
)
def test_of_several_processes_the_first_alone_speaks(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, code: int
) -> None:
    monkeypatch.setenv("RANK", "1")
    assert run(command) == (code, "", "")
    monkeypatch.setenv("RANK", "0")
    assert run(command)[2].startswith("zeta: ")


def test_a_failure_of_any_process_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    assert run("failed-run")[2] == "zeta: error: run 1f2e failed; its log is out/runs/1f2e/log.txt\n"


def test_app_is_what_the_script_runs() -> None:
    assert typer.main.get_command(app).name == "zeta"

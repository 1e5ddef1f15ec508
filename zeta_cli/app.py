"""The `zeta` command: its global options, and the one place where errors become lines and exit codes."""

import contextlib
import os
import sys
import traceback
from typing import Annotated

import typer

from zeta_core.errors import ConfigError, RequestError, RunFailed, ZetaError

from .console import Interrupted, fail_line, interrupted_line, is_main_process, one_line

app = typer.Typer(
    name="zeta",
    help="Train and check ZETA attention.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
BROKEN_PIPE = 141  # what a shell reports for a program that SIGPIPE ended


def add_commands() -> None:
    """Import the file of each command, which adds it to `app`; `zeta --help` lists them in this order."""
    from . import train, ablate, bench, locality, generate, eval, export  # noqa: F401, I001
    from . import data, data_import, report, check, list_command  # noqa: F401


def main(argv: list[str] | None = None) -> int:
    """Run one `zeta` command line (default: the process's own) and return its exit code."""
    add_commands()
    return run_app(app, sys.argv[1:] if argv is None else argv)


def run_app(target: typer.Typer, argv: list[str], name: str = "zeta") -> int:
    """Run a Typer app; every error becomes one line on standard error, or several for a configuration.

    Returns: 0 done; 1 a run or a file failed; 2 the request was wrong; 130 interrupted; 141 the reader of
    standard output left. A command may return another code, or raise typer.Exit.
    `--debug` anywhere before `--` is taken out, and adds tracebacks.
    """
    end = argv.index("--") if "--" in argv else len(argv)
    debug = "--debug" in argv[:end]
    args = [arg for arg in argv[:end] if arg != "--debug"] + argv[end:]
    try:
        code = _invoke(target, args, name)
        if sys.stdout is not None:  # it is None if the shell closed it (`>&-`)
            sys.stdout.flush()  # here, so that a closed pipe is noticed inside this `try`
        return code
    except (KeyboardInterrupt, typer.Abort, Interrupted) as error:
        interrupted_line(str(error) if isinstance(error, Interrupted) else "", name)
        return 130
    except typer.TyperException as error:
        from .usage import usage_line

        if is_main_process():
            fail_line(usage_line(error))
        return error.exit_code
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _output_closed():  # it may also be a socket's
            return BROKEN_PIPE
        if debug:
            traceback.print_exc()
        return _report(error)


def _invoke(target: typer.Typer, args: list[str], name: str) -> int:
    command = typer.main.get_command(target)
    if os.environ.get(f"_{name}_COMPLETE".replace("-", "_").upper()):
        command.main(args=args, prog_name=name)  # the shell asks for completions; this ends the process
    try:
        with command.make_context(name, args) as context:
            result = command.invoke(context)
    except typer.Exit as done:
        result = done.exit_code
    return result if isinstance(result, int) else 0


def _report(error: Exception) -> int:
    """Print the lines for an error that a command raised, and return the exit code.

    Of several processes asked for the same, the first alone refuses it aloud; a failure may be one's own."""
    if isinstance(error, RequestError) and not is_main_process():
        return 2
    if isinstance(error, RunFailed) and error.quiet:
        return 1
    if isinstance(error, ConfigError):
        for line in error.lines:
            fail_line(line)
    elif isinstance(error, ZetaError):
        fail_line(str(error))
    else:
        hint = "(run again with --debug for the traceback)"
        print(f"zeta: internal error: {type(error).__name__}: {one_line(str(error))} {hint}", file=sys.stderr)
    return 2 if isinstance(error, RequestError) else 1


def _output_closed() -> bool:
    """Whether the reader of standard output left; if so, point it nowhere, or Python complains at its end."""
    try:
        print(flush=True)
    except BrokenPipeError:
        with contextlib.suppress(OSError, ValueError):  # standard output is no file, as in a test
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _version(wanted: bool) -> None:
    if not wanted:
        return
    import platform
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in ("zeta-attention", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "(not installed)"
    print(f"zeta-attention {found['zeta-attention']}")
    print(f"python {platform.python_version()}")
    print(f"torch {found['torch']}")
    raise typer.Exit


@app.callback(invoke_without_command=True)
def zeta(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show versions and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; accepted anywhere.")] = False,
) -> None:
    """Train and check ZETA attention."""
    if context.invoked_subcommand is None:
        print(context.get_help(), end="")

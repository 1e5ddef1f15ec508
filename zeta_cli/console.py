"""Where commands write: results on standard output, messages on standard error."""

import os
import sys
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console


FILE_COLUMNS = 132
"""Where there is no terminal, which rich takes for one of 80 columns."""


class Interrupted(Exception):
    """Ctrl-C, with a message of the command's own, such as how to go on; the exit code is 130."""


def console() -> "Console":
    """A rich console on standard output, for tables and other results; in a file or a pipe as wide as they need."""
    from rich.console import Console

    found = Console(highlight=False)
    if not found.is_terminal and "COLUMNS" not in os.environ:
        found.width = FILE_COLUMNS
    return found


def error_console() -> "Console":
    """A rich console on standard error, for progress bars and notes."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def fail_line(text: str) -> None:
    """Print an error as exactly one line on standard error, whatever characters text holds."""
    print(f"zeta: error: {one_line(text)}", file=sys.stderr)


def note_line(text: str, kind: Literal["note", "warning"] = "note") -> None:
    """Print a note, or a warning, as one line on standard error."""
    if is_main_process():
        print(f"zeta: {kind}: {one_line(text)}", file=sys.stderr)


def interrupted_line(text: str = "", name: str = "zeta") -> None:
    """Print that Ctrl-C ended the command, or a line of its own that says more."""
    if is_main_process():
        print(f"{name}: {one_line(text) or 'interrupted'}", file=sys.stderr, flush=True)


def is_main_process() -> bool:
    """Whether this is the only process, or the first of those that a launcher started together."""
    return os.environ.get("RANK", "0") == "0"


def one_line(text: str) -> str:
    """Text with line breaks and tabs as single spaces, and other unprintable characters escaped."""
    words = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in words)

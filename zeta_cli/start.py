"""The `zeta` script: what has to hold before anything slow is imported."""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType

IMPORTING = "<frozen importlib._bootstrap>"
REFUSED = 5.0
"""Seconds for the first of several processes to say why all refuse: a launcher ends all with one that leaves."""


def run() -> None:
    """The `zeta` script."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell may have it ignored
        signal.signal(signal.SIGINT, on_interrupt)
    # Threads that wait for work spin for long by default, and take the processor from other busy programs; with a
    # short spin a step costs little more alone and far less beside them. OpenMP reads this when torch is imported.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    from .app import main

    code = main()
    if os.environ.get("WORLD_SIZE", "1") != "1":
        # torch 2.13's gloo now and then aborts while Python ends, destroyed group or not, and the launcher then
        # stops the other processes before they have written their results.
        if code == 2 and os.environ.get("RANK", "0") != "0":
            time.sleep(REFUSED)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(code)
    sys.exit(code)


def on_interrupt(signal_number: int, frame: FrameType | None) -> None:
    """Ctrl-C: KeyboardInterrupt, but during an import the end at once.

    An exception inside an import can turn into another one, or abort the process in a library's own code."""
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            if os.environ.get("RANK", "0") == "0":
                os.write(2, b"zeta: interrupted\n")  # nothing can be imported here that would say it
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt

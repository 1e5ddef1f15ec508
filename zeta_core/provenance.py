"""Where a result was made and with what: device, versions, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@dataclass(frozen=True)
class Versions:
    """Of what a result depends on."""

    python: str
    torch: str
    triton: str
    commit: str


@cache
def versions() -> Versions:
    """The versions here; an empty text where something is not installed or no git repository."""
    return Versions(platform.python_version(), installed("torch"), installed("triton"), _commit())


def installed(package: str) -> str:
    """The version of an installed package, or an empty text."""
    with suppress(PackageNotFoundError):
        return version(package)
    return ""


def _commit() -> str:
    """The commit of this program's own checkout, `+` behind it if files differ; empty outside one.

    ZETA_COMMIT says it where the checkout travels without its history, as into a container."""
    if named := os.environ.get("ZETA_COMMIT"):
        return named
    here = Path(__file__).resolve().parent.parent
    if not (here / ".git").exists():
        return ""
    try:
        text = [
            subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, timeout=10, check=True).stdout
            for words in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        ]
    except (OSError, subprocess.SubprocessError):
        return ""
    return text[0].strip() + ("+" if text[1].strip() else "")


def device_name(kind: str) -> str:
    """The name of the GPU, or of the processor and the number of threads that torch uses on it."""
    import torch

    if kind == "cuda":
        return torch.cuda.get_device_name()
    model = platform.processor() or platform.machine()
    with suppress(OSError):
        names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    return f"{model}, {torch.get_num_threads()} threads"

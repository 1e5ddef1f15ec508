"""`zeta check`."""

from __future__ import annotations

from typing import Annotated

import typer

from .app import app
from .console import console, error_console


@app.command()
def check(
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:N.")] = "auto",
) -> int:
    """Check the operator on this machine: values, gradients, leaks, determinism."""
    from rich.table import Table

    from zeta_core.ops.impl import missing_for_kernels, resolve_impl
    from zeta_core.studies.check import TORCH_RANGE, TRITON_RANGE, run_checks
    from zeta_core.studies.train_run import resolve_device

    where = resolve_device(device)
    impl = resolve_impl("auto", where)
    table = Table(title=f"{impl} on {where}")
    for name in ("check", "result", "found"):
        table.add_column(name)
    failed = 0
    with error_console().status("checking (kernels are compiled first)" if impl == "triton" else "checking"):
        for line in run_checks(where):
            failed += not line.passed
            table.add_row(line.name, "ok" if line.passed else "FAILED", line.found)
    out = console()
    out.print(table)
    out.print(f"tested with torch {TORCH_RANGE} and Triton {TRITON_RANGE}")
    if impl == "reference":
        out.print(f"the Triton kernels were not run: {missing_for_kernels(where)}", soft_wrap=True)
    if failed:
        out.print(f"{failed} checks failed: do not train on this machine with impl={impl}", soft_wrap=True)
    return int(failed > 0)

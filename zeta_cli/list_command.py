"""`zeta list`."""

from __future__ import annotations

from .app import app
from .console import console


@app.command("list")
def list_all() -> None:
    """List the tasks, mixers, axes of `zeta ablate` and providers of `zeta bench`, each with a phrase."""
    from rich.table import Table

    from zeta_core.attention import AttentionConfig
    from zeta_core.config import kinds
    from zeta_core.studies.ablate.axes import AnyAxis
    from zeta_core.studies.bench.providers import AnyProvider
    from zeta_core.tasks import TaskConfig

    unions = {"tasks": TaskConfig, "attention": AttentionConfig, "axes": AnyAxis, "providers": AnyProvider}
    for title, union in unions.items():
        table = Table(title=title, title_justify="left", show_header=False, box=None)
        for kind, config_type in kinds(union).items():
            presets = ", ".join(getattr(config_type, "presets", ()))
            phrase = (config_type.__doc__ or "").splitlines()[0]
            table.add_row(kind, phrase + (f" Presets: {presets}." if presets else ""))
        console().print(table)

"""`zeta generate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options as o
from .app import app
from .console import note_line

if TYPE_CHECKING:
    from zeta_core.generate import Sampling

PROMPT, DRAWING = "Prompt", "Drawing"
Run = Annotated[str, typer.Argument(metavar="RUN", help="A run's folder or id under --out, or an exported folder.")]


@app.command()
def generate(
    run: Run,
    prompt: Annotated[
        str | None,
        typer.Option("--prompt", help="Text, or token numbers where the task has none.", rich_help_panel=PROMPT),
    ] = None,
    prompt_file: Annotated[
        Path | None,
        typer.Option("--prompt-file", metavar="FILE", help="Read the prompt from a file.", rich_help_panel=PROMPT),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", help="New tokens at most; 256 if left out.", rich_help_panel=DRAWING),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", help="0: always the likeliest token.", rich_help_panel=DRAWING)
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="Draw from the likeliest so many.", rich_help_panel=DRAWING)
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            "--top-p", help="Draw from the fewest that have this probability together.", rich_help_panel=DRAWING
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Same seed, same text.", rich_help_panel=DRAWING)] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:N, mps.")] = "auto",
    out: o.Out = o.OUT,
) -> None:
    """Print the text that a trained decoder puts behind a prompt, as it comes.

    For example: zeta generate RUN --prompt 'def main' --temperature 0.8 --top-p 0.95"""
    from zeta_core.errors import OptionError

    text = _prompt(prompt, prompt_file)
    if max_tokens is not None and max_tokens < 1:
        raise OptionError(f"--max-tokens: max_tokens={max_tokens} must be at least 1")
    sampling = _sampling(temperature, top_k, top_p, seed)
    from .progress import quiet_imports

    quiet_imports()
    from zeta_core.studies.generation import continue_text
    from zeta_core.studies.saved_model import find_model
    from zeta_core.studies.train_run import resolve_device

    where = resolve_device(device)
    saved = find_model(run, out)
    found = continue_text(saved, text, sampling=sampling, max_tokens=max_tokens, device=where)
    if not saved.finished:
        note_line("the run's training has not come to an end: these are its best weights so far")
    if found.note:
        note_line(found.note)
    for piece in found.pieces:
        print(piece, end="", flush=True)
    print(flush=True)
    print(f"zeta: {found.rate()}", file=sys.stderr)


def _prompt(text: str | None, file: Path | None) -> str:
    """The prompt, from where it was given."""
    from zeta_core.errors import OptionError

    if (text is None) == (file is None):
        raise OptionError(
            f"give {'a prompt' if file is None else 'one prompt alone'}: --prompt TEXT or --prompt-file FILE"
        )
    if file is None:
        return text or ""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise OptionError(f"--prompt-file {file}: byte {error.start} is not UTF-8; save it as UTF-8 text") from None
    except OSError as error:
        raise OptionError(f"--prompt-file {file}: cannot be read: {error.strerror or error}") from None


def _sampling(temperature: float | None, top_k: int | None, top_p: float | None, seed: int | None) -> Sampling:
    """The flags as a configuration."""
    from zeta_core.generate import Sampling
    from zeta_core.layers import build, flags_layer

    flags = {
        "--temperature": ("temperature", temperature),
        "--top-k": ("top_k", top_k),
        "--top-p": ("top_p", top_p),
        "--seed": ("seed", seed),
    }
    return build(Sampling, flags_layer(flags))

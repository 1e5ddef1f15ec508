"""Typer's usage errors in our words: what was given, the rule, a way out."""

import ast
import re
from typing import Any

import typer

from zeta_core.wording import did_you_mean, one_of, rule, shorten


def usage_line(error: typer.TyperException) -> str:
    """One line for an error that Typer found while reading the command line.

    Typer keeps the classes of these errors private, so they are told apart by what they carry.
    """
    context: Any = getattr(error, "ctx", None)
    place = context.command_path if context is not None else "zeta"
    unknown = getattr(error, "option_name", None)
    if unknown is not None and hasattr(error, "possibilities"):
        options = [name for parameter in context.command.params for name in _names(parameter)]
        hint = did_you_mean(unknown, [*options, "--help", "--debug"]) or f"; see {place} --help"
        return f"unknown option {unknown!r} of {place}{hint}"
    command = re.match(r"No such command (.+?)\.(?: Did you mean|$)", error.message)
    if command:
        given = ast.literal_eval(command[1])  # Typer writes it as Python would
        names = [name for name, found in context.command.commands.items() if not found.hidden]
        return f"unknown command {given!r}{did_you_mean(given, names) or f'; see {place} --help'}"
    parameter: Any = getattr(error, "param", None)
    if parameter is None:
        message = error.format_message().rstrip(".")
        return f"{message[:1].lower()}{message[1:]}" + (f"; see {place} --help" if context else "")
    name = _label(parameter)
    if hasattr(error, "param_type"):
        hint = f"it is {one_of(_choices(parameter))}; " if _choices(parameter) else ""
        return f"missing {parameter.param_type_name} {name} of {place} ({hint}see {place} --help)"
    return _bad_value(error, parameter, name)


def _bad_value(error: typer.TyperException, parameter: Any, name: str) -> str:
    found = _first(error.__cause__)
    if found is None:
        return f"{name}: {error.message[:1].lower()}{error.message[1:].rstrip('.')}"
    choices = _choices(parameter)
    shown = found["input"] if isinstance(found["input"], str) else shorten(found["input"])
    if choices:
        hint = did_you_mean(shown, choices)
        return f"{name}={shown}: must be {one_of(choices)}{hint}"
    if found["type"] == "value_error":
        return f"{name}={shown}: {found['ctx']['error']}"
    return f"{name}={shown}: {rule(found['type'], found.get('ctx', {}), found['msg'])}"


def _first(cause: Any) -> Any:
    """The first of pydantic's errors; an item of a list has its own inside that of the list."""
    if not hasattr(cause, "errors"):
        return None
    found = cause.errors(include_url=False)[0]
    return _first(found.get("ctx", {}).get("error")) or found


def _label(parameter: Any) -> str:
    """An option by its longest spelling, an argument by its name in the help."""
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name.upper())


def _names(parameter: Any) -> list[str]:
    if parameter.param_type_name != "option" or parameter.hidden:
        return []
    return [*parameter.opts, *parameter.secondary_opts]


def _choices(parameter: Any) -> list[str]:
    descriptor = getattr(parameter, "type_descriptor", None)
    choices = descriptor.choices if descriptor is not None and descriptor.is_choice else None
    return [str(getattr(choice, "value", choice)) for choice in choices or ()]

"""How messages say what was given, which rule it breaks and what was probably meant."""

import difflib
import json
from collections.abc import Iterable, Mapping


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the option closest to word, or "" if none is close. Case does not count."""
    by_lower = {option.lower(): option for option in options}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return f" (did you mean {by_lower[close[0]]!r}?)" if close else ""


def one_of(options: Iterable[str]) -> str:
    """`one of 'a', 'b'`, or just the option if there is one."""
    quoted = [repr(option) for option in options]
    return quoted[0] if len(quoted) == 1 else "one of " + ", ".join(quoted)


def describe(value: object) -> str:
    """A value with its type, for the end of "must be a number, not ...": "text 'abc'", "a list", "3.5"."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return f"text {shorten(value)}" if isinstance(value, str) else shorten(value)


def shorten(value: object, limit: int = 60) -> str:
    """A value as it would stand in a configuration, on one line, cut after `limit` characters."""
    text = repr(value) if isinstance(value, str | float) else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= limit else text[: limit - 3] + "..."


_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "tuple": "a list",
    "list": "a list",
    "dict": "a mapping",
    "model": "a mapping of fields",
    "model_attributes": "a mapping of fields",
    "path": "a path",
}
_BOUNDS = {
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "finite_number": "must be a finite number",
    "too_short": "must have at least {min_length} items, not {actual_length}",
    "too_long": "must have at most {max_length} items, not {actual_length}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "missing": "is required and was not given",
    "none_required": "must be null",
}


def rule(error: str, context: Mapping[str, object], message: str) -> str:
    """The rule behind a validation error, worded for someone who writes configurations.

    error, context, message: pydantic's name of the error, its numbers, and its own words, which are used
    (with "must" for "Input should") where we have none.
    """
    stem, _, ending = error.rpartition("_")
    if ending in ("type", "parsing") and stem in _TYPES:
        return f"must be {_TYPES[stem]}"
    if error in ("int_from_float", "int_parsing_size"):
        return "must be a whole number" if error == "int_from_float" else "is too large a number"
    if error in _BOUNDS:
        numbers = {name: f"{bound:g}" if isinstance(bound, float) else bound for name, bound in context.items()}
        return _BOUNDS[error].format_map(numbers)
    return message.replace("Input should", "must")

"""Whole numbers as they are typed: by commas, and as ranges that double."""

from __future__ import annotations

import re
from collections.abc import Sequence

from zeta_core.errors import ConfigError


def whole_numbers(flag: str, texts: Sequence[str] | None, *, least: int = 0) -> tuple[int, ...] | None:
    """Numbers from `1,2`, from repeated options and from `512..4096` (doubling); None stays.

    Raises: ConfigError, one line, for what is no such text and for a number below `least`."""
    if texts is None:
        return None
    found: list[int] = []
    for text in ",".join(texts).split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\.\.(\d+))?\s*", text)
        first = int(match[1]) if match else -1
        last = int(match[2]) if match and match[2] else first
        if first < least or last < first or (last > first == 0):
            bound = f" of {least} or more" if least else ""
            raise ConfigError(
                f"{flag} {text!r}: must be whole numbers{bound} by commas, or a range like 512..4096 (doubling)"
            )
        found += doubling(first, last)
    return tuple(found)


def doubling(first: int, last: int) -> tuple[int, ...]:
    """first, twice that, and so on, up to last."""
    found = [first]
    while found[-1] * 2 <= last and first:
        found.append(found[-1] * 2)
    return tuple(found)

"""Units in which names and files of other programs tell a time, each as epoch seconds."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["UNITS", "time_of"]


def _dirq(text: str) -> float:
    """The time in the name of an element of dirq: 8 hexadecimal digits of seconds, 5 of microseconds, and a random one."""
    return int(text[:8], 16) + int(text[8:13], 16) / 1e6


UNITS: dict[str, Callable[[str], float]] = {
    "sec": float,
    "ms": lambda text: float(text) / 1e3,
    "us": lambda text: float(text) / 1e6,
    "hexsec": lambda text: float(int(text, 16)),
    "hexms": lambda text: int(text, 16) / 1e3,
    "dirq": _dirq,
}
"""Functions from a text to epoch seconds, by the name of the unit. They raise ``ValueError`` for a text of another form."""

_LATEST = 253402300800.0
"""The year 10000: no time of a message, and more than a calendar prints."""


def time_of(unit: str, text: str) -> float | None:
    """Epoch seconds that ``text`` tells in this unit; None where it tells none."""
    try:
        at = UNITS[unit](text.strip())
    except (ValueError, OverflowError):
        return None
    return at if 0.0 <= at < _LATEST else None

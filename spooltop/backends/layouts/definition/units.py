"""Units in which names and files of other programs tell a time, each as epoch seconds."""

from __future__ import annotations

import calendar
import time
from collections.abc import Callable

__all__ = ["DOMAIN", "UNITS", "domain_of", "is_time", "time_of"]

DOMAIN = "domain"
"""The unit of a text that is an address: its domain."""


def _dirq(text: str) -> float:
    """The time in the name of an element of dirq: 8 hexadecimal digits of seconds, 5 of microseconds, and a random one."""
    return int(text[:8], 16) + int(text[8:13], 16) / 1e6


def _timeval(text: str) -> float:
    """Seconds and microseconds with a space between."""
    seconds, _, micros = text.partition(" ")
    return int(seconds) + int(micros or 0) / 1e6


def _hexlocal(text: str) -> float:
    """Milliseconds as ``time.mktime`` makes them of a UTC time that it takes for a local one, as huey does with a task's time.
    Right where the program runs in the time zone of whoever reads it."""
    at = int(text, 16) / 1e3
    return calendar.timegm(time.localtime(at)) + at % 1


UNITS: dict[str, Callable[[str], float]] = {
    "sec": float,
    "ms": lambda text: float(text) / 1e3,
    "us": lambda text: float(text) / 1e6,
    "hexsec": lambda text: float(int(text, 16)),
    "hexms": lambda text: int(text, 16) / 1e3,
    "hexlocal": _hexlocal,
    "timeval": _timeval,
    "dirq": _dirq,
}
"""Functions from a text to epoch seconds, by the name of the unit. They raise ``ValueError`` for a text of another form."""

_LATEST = 253402300800.0
"""The year 10000: no time of a message, and more than a calendar prints."""


def time_of(unit: str, text: str) -> float | None:
    """Epoch seconds that ``text`` tells in this unit; None where it tells none."""
    try:
        at = UNITS[unit](text.strip())
    except (ValueError, OverflowError, OSError):
        return None
    return at if is_time(at) else None


def is_time(at: float) -> bool:
    """True for epoch seconds that a calendar has."""
    return 0.0 <= at < _LATEST


def domain_of(address: str) -> str:
    """The domain of an address, by which mail queues are counted, in small letters; the name of a user without a domain. The
    empty sender is that of bounces."""
    return address.rpartition("@")[2].lower() or "MAILER-DAEMON"

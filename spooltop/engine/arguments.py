"""Checks and limits of the arguments of the engine's calls, and the error of calls on a closed spool."""

from __future__ import annotations

import math
import os
from typing import Any, BinaryIO, TypeAlias, TypeGuard

from spooltop.model import Clock, Closed, UsageError

from .names import LATEST

MAX_ATTEMPTS = 10
"""Attempts after which a release, a requeue and a recover reject instead."""


Data: TypeAlias = "bytes | bytearray | memoryview | BinaryIO"


# Replacements for the parts of a closed object.

def closed(path: str, what: str = "Spool") -> Closed:
    """Builds the error for any call on ``what`` after it was closed."""
    return Closed(f"this {what} is closed", "open it again", path=path)


class AfterClose:
    """Replaces any part of a closed object, so that no method has to check first if the object is open: every attribute access
    raises ``Closed``.

    >>> AfterClose("/jobs").unlink("x")
    Traceback (most recent call last):
    ...
    spooltop.errors.Closed: /jobs: this Spool is closed; open it again
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, _name: str) -> Any:
        raise closed(self._path)


class OwnedDescriptor:
    """A copy of the descriptor ``fd``, closed when nothing refers to this object any more."""

    number = -1

    def __init__(self, fd: int) -> None:
        self.number = os.dup(fd)

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)


def absolute_path(path: str | os.PathLike[str]) -> str:
    """Returns the absolute form of ``path``. Raises ``UsageError`` for an empty one, which would mean the working directory."""
    decoded = os.fsdecode(path)
    if not decoded:
        raise UsageError("an empty path", "name the file or the directory; . is the working directory")
    return os.path.abspath(decoded)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_clock(clock: Clock) -> None:
    """Raises ``TypeError`` unless ``clock`` gives a number, and ``UsageError`` for a time before 1970 or past the year 5000: no
    name can carry it."""
    now = clock()
    if not _is_number(now):
        raise TypeError(f"clock gives epoch seconds, not {type(now).__name__}: {now!r:.80}")
    if not 0 <= now <= LATEST / 1e6:
        raise UsageError(f"clock gives epoch seconds, not {now}", "a name carries times from 1970 to 5000")


def check_text(what: str, value: object) -> None:
    """Raises ``TypeError`` unless the value is a ``str``.

    >>> check_text("source", 5)
    Traceback (most recent call last):
    ...
    TypeError: source takes a str, not int: 5
    """
    if not isinstance(value, str):
        raise TypeError(f"{what} takes a str, not {type(value).__name__}: {value!r:.80}")


def check_bytes(what: str, value: object, for_text: str) -> None:
    """Raises ``TypeError`` unless the value is bytes; ``for_text`` says what to do with a ``str``."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"{what} takes bytes, not {type(value).__name__}" + (f": {for_text}" if isinstance(value, str) else ""))


def check_seconds(what: str, value: object, *, or_none: bool = True) -> None:
    """Raises ``TypeError`` unless the value is a number of seconds, and ``UsageError`` for NaN."""
    wanted = "seconds or None" if or_none else "seconds"
    if value is None and or_none:
        return
    if not _is_number(value):
        raise TypeError(f"{what} takes {wanted}, not {type(value).__name__}: {value!r:.80}")
    if math.isnan(value):
        raise UsageError(f"{what} takes {wanted}, not NaN")


def check_number(what: str, value: object, least: int) -> None:
    """Raises ``TypeError`` unless the value is an integer, and ``UsageError`` if it is below ``least``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} takes a whole number, not {type(value).__name__}: {value!r:.80}")
    if value < least:
        raise UsageError(f"{what} takes a number from {least} up, not {value}")


def microseconds(what: str, value: object) -> int:
    """A time in seconds since the epoch as µs. Raises ``TypeError`` and ``UsageError``.

    >>> microseconds("not_before", 1.5)
    1500000
    """
    if not _is_number(value):
        hint = ": give its timestamp()" if hasattr(value, "timestamp") else f": {value!r:.80}"
        raise TypeError(f"{what} takes epoch seconds, not {type(value).__name__}{hint}")
    if not math.isfinite(value):
        raise UsageError(f"{what} takes epoch seconds, not {value}")
    return int(value * 1e6)


def check_data(data: object) -> None:
    """Raises ``TypeError`` unless the value is ``Data``."""
    if type(data) is not bytes and not isinstance(data, (bytes, bytearray, memoryview)) and not hasattr(data, "read"):
        hint = ": encode it, as in data.encode()" if isinstance(data, str) else ""
        raise TypeError(f"data: a message is bytes or a binary file, not {type(data).__name__}{hint}")

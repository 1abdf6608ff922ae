"""Replacements for the parts of a closed object."""

from __future__ import annotations

import os
from typing import Any

from spooltop.errors import Closed

__all__ = ["AfterClose", "OwnedDescriptor", "closed"]


def closed(path: str, what: str = "Spool") -> Closed:
    """Builds the error for any call on ``what`` after it was closed."""
    return Closed(f"this {what} is closed", path=path, advice="open it again")


class AfterClose:
    """Replaces any part of a closed object, so that no method has to check first if the object is open: every attribute access
    raises ``Closed``.

    >>> AfterClose("/jobs").unlink("x")
    Traceback (most recent call last):
    ...
    spooltop.errors.Closed: /jobs: this Spool is closed; open it again
    """

    def __init__(self, path: str, what: str = "Spool") -> None:
        self._path = path
        self._what = what

    def __getattr__(self, _name: str) -> Any:
        raise closed(self._path, self._what)


class OwnedDescriptor:
    """A copy of the descriptor ``fd``, closed when nothing refers to this object any more."""

    number = -1

    def __init__(self, fd: int) -> None:
        self.number = os.dup(fd)

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)

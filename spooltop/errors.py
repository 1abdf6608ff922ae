"""What the user must hear of. Losing a race is a return value and never one of these.

Each error carries the path it is about and what to do, and prints as one line: ``path: what happened; what to do``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

__all__ = [
    "AuditFailed",
    "ClaimLost",
    "Closed",
    "CursorMismatch",
    "CursorUnreadable",
    "LockTimedOut",
    "MailFolder",
    "NoSuchOperation",
    "NotASpool",
    "PutUnknown",
    "Refused",
    "SpoolFull",
    "SpooltopError",
    "Stopped",
    "Unreadable",
    "UsageError",
]


class SpooltopError(Exception):
    """Base of all errors of spooltop.

    ``what`` says what happened, ``advice`` what to do about it, ``path`` what it is about; ``exit_code`` is what the command
    line returns for it (0 done, 1 some items failed, 2 usage, 3 refused, 4 nothing matched, 5 not a spool or unreadable, 130
    stopped).
    """

    exit_code = 1

    def __init__(self, what: str, *, path: str | bytes | os.PathLike[str] | None = None, advice: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.path = None if path is None else os.fsdecode(path)
        self.advice = advice

    def __reduce__(self) -> tuple[object, ...]:
        # As it was made, without the arguments of its class: a pool hands its workers' errors over this way.
        return _again, (type(self), self.args), self.__dict__

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.what}" + (f"; {self.advice}" if self.advice else "")


def _again(kind: type[SpooltopError], args: tuple[object, ...]) -> SpooltopError:
    return kind.__new__(kind, *args)


class UsageError(SpooltopError, ValueError):
    """The words of a command or a filter, or an argument of the engine, make no sense."""

    exit_code = 2


class NoSuchOperation(UsageError):
    """No operation of that id was done here."""

    exit_code = 4


class Refused(SpooltopError):
    """A change that is not allowed here: read-only, a mail folder, not confirmed, no right to write."""

    exit_code = 3


class NotASpool(SpooltopError):
    """The path has no boxes; ``what`` names what is missing."""

    exit_code = 5


class MailFolder(NotASpool):
    """The path is a mail folder: its ``cur`` is read mail and no work in progress (maildir(5))."""

    exit_code = 3


class Unreadable(SpooltopError):
    """A component of the path, a box or a file does not let itself be read."""

    exit_code = 5


class Closed(SpooltopError, ValueError):
    """A method of something that was closed. Nothing was done."""


class ClaimLost(SpooltopError):
    """The claim was taken away (requeued by force, purged, or already ended) before this step.

    ``names`` are the lost claims' names in ``cur``: unlike ids they are never the same twice, also where one consumer was given
    back a message that an operator had just taken from it.
    """

    def __init__(self, what: str, *, names: Sequence[str] = (), path: str | bytes | None = None, advice: str = "") -> None:
        super().__init__(what, path=path, advice=advice)
        self.names = tuple(names)


class PutUnknown(SpooltopError):
    """An error came after the move into ``new``: the message may or may not be there. Retry with ``id=``; it is a no-op then.

    ``id`` is the message's id. Of a group, ``ids`` are those that arrived or may have; the others did not.
    """

    def __init__(
        self, what: str, *, id: str, ids: Sequence[str] = (), path: str | bytes | None = None, advice: str = ""
    ) -> None:
        super().__init__(what, path=path, advice=advice or f"put it again with id={id!r}: that is a no-op if it arrived")
        self.id = id
        self.ids = tuple(ids) or (id,)


class SpoolFull(SpooltopError):
    """No space, no inodes or no quota left. Acks go on; puts and claims wait until space is freed."""


class Stopped(SpooltopError):
    """Ended before it was through, as whoever wanted it does so no longer; nothing was changed."""

    exit_code = 130


class LockTimedOut(SpooltopError):
    """A lock was not to be had in the time that was given for it; nothing was done."""


class CursorUnreadable(SpooltopError):
    """The cursor file does not parse; nothing is published over it."""

    exit_code = 5


class CursorMismatch(SpooltopError):
    """``expect=`` was given and the file holds another value; ``found`` is that value."""

    def __init__(self, what: str, *, found: object, path: str | bytes | None = None, advice: str = "") -> None:
        super().__init__(what, path=path, advice=advice)
        self.found = found


class AuditFailed(SpooltopError):
    """The audit line or the journal could not be written, so the change did not happen. ``full``: for want of space, or because
    the file system is read-only by now; then what frees space goes on all the same."""

    exit_code = 3

    def __init__(
        self, what: str, *, path: str | bytes | os.PathLike[str] | None = None, advice: str = "", full: bool = False
    ) -> None:
        super().__init__(what, path=path, advice=advice)
        self.full = full

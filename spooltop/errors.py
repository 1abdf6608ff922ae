"""Exceptions that the user must see. Losing a race is a return value and never one of these.

Each error has the path that it is about and what to do, and prints as one line: ``path: what happened; what to do``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

_Path = str | bytes | os.PathLike[str] | None


class SpooltopError(Exception):
    """Base of all errors of spooltop.

    ``what`` says what happened, ``advice`` what to do about it, ``path`` what it is about; ``exit_code`` is what the command
    line returns for it (0 done, 1 some items failed, 2 usage, 3 refused, 4 nothing matched, 5 not a spool or unreadable, 130
    stopped). ``answer_lost``: the command was sent to a server, and may have been done.
    """

    exit_code = 1
    answer_lost = False

    def __init__(self, what: str, advice: str = "", *, path: _Path = None) -> None:
        super().__init__(what)
        self.what = what
        self.path = None if path is None else os.fsdecode(path)
        self.advice = advice

    def __reduce__(self) -> tuple[object, ...]:
        # As it was made, without the arguments of its class: a pool hands its workers' errors over this way.
        return _again, (type(self), self.args), self.__dict__

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        between = " " if self.what.endswith("?") else "; "
        return f"{where}{self.what}" + (f"{between}{self.advice}" if self.advice else "")


def _again(kind: type[SpooltopError], args: tuple[object, ...]) -> SpooltopError:
    return kind.__new__(kind, *args)


class UsageError(SpooltopError, ValueError):
    """Invalid words of a command or a filter, or an invalid argument of the engine."""

    exit_code = 2


class NoSuchOperation(UsageError):
    """There is no operation with that id."""

    exit_code = 4


class Refused(SpooltopError):
    """A change that is not allowed: read-only, a mail folder, not confirmed, no write permission."""

    exit_code = 3


class NotASpool(SpooltopError):
    """The path has no boxes; ``what`` names what is missing."""

    exit_code = 5


class MailFolder(NotASpool):
    """The path is a mail folder: its ``cur`` is read mail, not work in progress (maildir(5))."""

    exit_code = 3


class Unreadable(SpooltopError):
    """A component of the path, a box or a file cannot be read."""

    exit_code = 5


class DoesNotAnswer(Unreadable):
    """A file system has not answered for ``seconds``: its server, or the program behind it, may be gone. ``step`` is what was
    under way."""

    def __init__(self, step: str, seconds: float, *, path: _Path) -> None:
        what = f"does not answer: {step or 'opening it'} takes over {seconds:g}s"
        super().__init__(what, "is its server gone? see /proc/mounts and dmesg", path=path)


class Unavailable(Unreadable):
    """The server does not answer, or cannot do it now: the same call may succeed later."""


class AnswerLost(Unavailable):
    """The command was sent, and may have been done."""

    answer_lost = True


class Closed(SpooltopError, ValueError):
    """A method was called on a closed object. Nothing was done."""


class ClaimLost(SpooltopError):
    """The claim was taken away (requeued by force, purged, or already ended) before this step.

    ``names`` are the lost claims' names in ``cur``. Unlike ids they are never reused, even if a consumer claims a message again
    that an operator had just taken from it.
    """

    def __init__(self, what: str, advice: str = "", *, names: Sequence[str] = (), path: _Path = None) -> None:
        super().__init__(what, advice, path=path)
        self.names = tuple(names)


class PutUnknown(SpooltopError):
    """An error occurred after the move into ``new``: the message may or may not be there. Retry with ``id=``; it is a no-op then.

    ``id`` is the message's id. For a group, ``ids`` are those that arrived or may have; the others did not.
    """

    def __init__(self, what: str, advice: str = "", *, id: str, ids: Sequence[str] = (), path: _Path = None) -> None:
        super().__init__(what, advice or f"put it again with id={id!r}: that is a no-op if it arrived", path=path)
        self.id = id
        self.ids = tuple(ids) or (id,)


class SpoolFull(SpooltopError):
    """No space, no inodes or no quota left. Acks continue; puts and claims wait until space is freed."""


class Stopped(SpooltopError):
    """The work was cancelled before it was complete; nothing was changed."""

    exit_code = 130


class LockTimedOut(SpooltopError):
    """A lock was not acquired within the timeout; nothing was done."""


class CursorUnreadable(SpooltopError):
    """The cursor file does not parse; it is not overwritten."""

    exit_code = 5


class CursorMismatch(SpooltopError):
    """``expect=`` was given and the file holds another value; ``found`` is that value."""

    def __init__(self, what: str, advice: str = "", *, found: object, path: _Path = None) -> None:
        super().__init__(what, advice, path=path)
        self.found = found


class AuditFailed(SpooltopError):
    """The journal could not be written, so the change did not happen. ``full``: because there is no space left
    or the file system has become read-only; operations that free space then continue anyway."""

    exit_code = 3
    full = False


class AuditFull(AuditFailed):
    """The journal has no space left on the disk of the queue."""

    full = True

"""Audit log records, as they are read back for one operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from spooltop.records import dataclass

from ..text import escape

if TYPE_CHECKING:
    from .plan import ItemResult

__all__ = ["AuditLine", "AuditLog", "AuditTrail", "said"]


class AuditLog(NamedTuple):
    """A log as it is read back.

    ``torn``: its last line was cut off and is left out. ``unread``: bytes before these lines that were not read. ``trusted`` is
    False if the owner of a spool could have written it to mislead another user.
    """

    lines: Sequence[bytes]
    torn: bool
    unread: int
    trusted: bool


@dataclass(frozen=True, slots=True)
class AuditLine:
    """A line of the audit log.

    ``event`` is ``before`` (what was about to happen, to ``names``) or ``after`` (``results`` after ``tried`` of ``count``;
    ``ended`` says why there are none). The other fields are the actor, as that process wrote them. Nothing is escaped, and a line
    that is not ``trusted`` may contain anything.
    """

    at: float
    event: str
    action: str
    user: str
    uid: int | None = None
    sudo_user: str | None = None
    ssh_connection: str | None = None
    tty: str | None = None
    pid: int | None = None
    count: int = 0
    tried: int | None = None
    force: bool = False
    ended: str = ""
    names: tuple[str, ...] = ()
    results: tuple[ItemResult, ...] = ()
    trusted: bool = True


@dataclass(frozen=True, slots=True)
class AuditTrail:
    """All lines of one operation, oldest first, and the faults of the log, in words."""

    lines: tuple[AuditLine, ...] = ()
    problems: tuple[str, ...] = ()


def said(line: AuditLine) -> str:
    """Describes one line, escaped: the actor, the origin, and what was about to happen or the result.

    >>> said(AuditLine(0.0, "after", "purge", "root", sudo_user="ann", tty="/dev/pts/3", pid=77, count=2, tried=1))
    'root (sudo by ann) on /dev/pts/3, pid 77: purge, 1 of 2 attempted'
    """
    who = escape(line.user) + (f" (sudo by {escape(line.sudo_user)})" if line.sudo_user else "")
    if line.ssh_connection:
        who += f" from {escape(line.ssh_connection.partition(' ')[0])}"
    if line.tty:
        who += f" on {escape(line.tty)}"
    if line.pid is not None:
        who += f", pid {line.pid}"
    what = escape(line.action) + (" by force" if line.force else "")
    if line.event == "before":
        what += f" of {line.count:,} started"
    else:
        what += f", {line.tried or 0:,} of {line.count:,} attempted" + (f", {_words(line.ended)}" if line.ended else "")
    return f"{who}: {what}" + ("" if line.trusted else " (from the log in the spool, which its owner can write)")


def _words(text: str) -> str:
    """Escapes unprintable characters in our own text, in which names are escaped already."""
    return "".join(char if char.isprintable() else escape(char) for char in text)

"""Locations of tracked messages, and the audit trail of an operation."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from ..text import escape
from ..vocabulary import Box, Verdict
from .plan import ItemResult

# Locations of messages that are tracked by id.


class TrackedMessage(Struct, frozen=True):
    """Location of the message with one id, as far as it was seen. Times are epoch seconds.

    ``box`` is its current box; None if it is in no box (``gone_at`` says since when at the latest) or not found yet. ``place`` in
    ``new``: 1 is the oldest of the ``of`` messages that wait there. ``claimed_at`` and ``pid`` belong to its last claim since
    tracking began (for a canary: since it was put), None if none was seen; ``verdict`` is that of the claim while it lasts.
    ``put_at`` is when it was put, according to its id.
    """

    id: str
    box: Box | None = None
    place: int | None = None
    of: int | None = None
    claimed_at: float | None = None
    pid: int | None = None
    gone_at: float | None = None
    verdict: Verdict | None = None
    put_at: float | None = None


# The audit trail of an operation, as its journal tells it.


def _terminal() -> str | None:
    try:
        return os.ttyname(2)
    except OSError:
        return None  # cron, a pipe: no terminal is a fact and no failure


_Id = Annotated[int, Meta(ge=0, lt=1 << 32)]


class Actor(Struct, frozen=True):
    """The process of the user who makes a change, and where that user is: the environment and the terminal say so, None if they
    do not."""

    uid: _Id | None = None
    pid: _Id | None = None
    sudo_user: str | None = None
    ssh_connection: str | None = None
    tty: str | None = None

    @staticmethod
    def here(environ: Mapping[str, str] = os.environ, terminal: Callable[[], str | None] = _terminal) -> Actor:
        """Returns the actor of this process."""
        return Actor(os.geteuid(), os.getpid(), environ.get("SUDO_USER"), environ.get("SSH_CONNECTION"), terminal())


class AuditLine(Struct, frozen=True):
    """A step of an operation.

    ``event`` is ``before`` (no result was written: these ``names`` were about to be changed) or ``after`` (``results``, after
    which ``tried`` of ``count`` had been attempted). ``user`` and ``by`` are as that process wrote them. Nothing is escaped, and
    a line that is not ``trusted`` may contain anything.
    """

    at: float
    event: str
    action: str
    user: str
    by: Actor = Actor()
    count: int = 0
    tried: int | None = None
    force: bool = False
    names: tuple[str, ...] = ()
    results: tuple[ItemResult, ...] = ()
    trusted: bool = True


class AuditTrail(Struct, frozen=True):
    """The steps of one operation in their order, and the faults of the journal, in words."""

    lines: tuple[AuditLine, ...] = ()
    problems: tuple[str, ...] = ()


def said(line: AuditLine) -> str:
    """Describes one line, escaped: the actor, the origin, and what was about to happen or the result.

    >>> said(AuditLine(0.0, "after", "purge", "root", Actor(pid=77, sudo_user="ann", tty="/dev/pts/3"), count=2, tried=1))
    'root (sudo by ann) on /dev/pts/3, pid 77: purge, 1 of 2 attempted'
    """
    by = line.by
    who = escape(line.user) + (f" (sudo by {escape(by.sudo_user)})" if by.sudo_user else "")
    if by.ssh_connection:
        who += f" from {escape(by.ssh_connection.partition(' ')[0])}"
    if by.tty:
        who += f" on {escape(by.tty)}"
    if by.pid is not None:
        who += f", pid {by.pid}"
    what = escape(line.action) + (" by force" if line.force else "")
    if line.event == "before":
        what += f" of {line.count:,} started"
    else:
        what += f", {line.tried or 0:,} of {line.count:,} attempted"
    return f"{who}: {what}" + ("" if line.trusted else " (from the log in the spool, which its owner can write)")

"""Locations of tracked messages, and the lines of logs: encoded, and as they are read back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from ..text import bare_all, escape
from ..vocabulary import Box, Json, Verdict
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


# Encodes log lines, one JSON object each, whose lists are written by columns. Pure.

_dumps = json.JSONEncoder(separators=(",", ":")).encode


def encode_object(head: Mapping[str, Json], **members: str) -> str:
    """Encodes ``head``, which is not empty, with ``members`` that are JSON already.

    >>> encode_object({"schema": 1}, ids=encode_names(["a", "b"]), others="[]")
    '{"schema":1,"ids":["a","b"],"others":[]}'
    """
    parts = [_dumps(head)[:-1]]
    for name, value in members.items():
        parts += f',"{name}":', value
    return "".join((*parts, "}"))  # at once: a batch takes some hundred KB


def encode_line(head: Mapping[str, Json], **members: str) -> bytes:
    """Encodes an object as a line."""
    return f"{encode_object(head, **members)}\n".encode()


def encode_names(names: Sequence[str]) -> str:
    r"""Encodes a list of names, escaped: a thousand are checked and joined at once.

    >>> encode_names(["a", "\x1b"]), encode_names([])
    ('["a","\\\\x1b"]', '[]')
    """
    return '["' + '","'.join(bare_all(names)) + '"]' if names else "[]"


def column_of(values: Sequence[Any]) -> Any:
    """The value that all of ``values`` have, or else the list of them.

    >>> column_of(["done", "done"]), column_of([1, 2]), column_of([])
    ('done', [1, 2], [])
    """
    return values[0] if values and values.count(values[0]) == len(values) else list(values)


def encode_column(column: Sequence[Json]) -> str:
    """Encodes ``column_of`` them."""
    return _dumps(column_of(column))


# Audit log records, as they are read back for one operation.

class AuditLog(NamedTuple):
    """A log as it is read back.

    ``torn``: its last line was cut off and is left out. ``unread``: bytes before these lines that were not read. ``trusted`` is
    False if the owner of a spool could have written it to mislead another user.
    """

    lines: Sequence[bytes]
    torn: bool
    unread: int
    trusted: bool


class AuditLine(Struct, frozen=True):
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


class AuditTrail(Struct, frozen=True):
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

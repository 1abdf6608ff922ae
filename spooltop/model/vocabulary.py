"""Boxes, verdicts, owners and actions: the terms that every package uses."""

from __future__ import annotations

from collections.abc import Hashable
from enum import StrEnum
from typing import NamedTuple, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

Key: TypeAlias = Hashable
"""Identity of a message while it is listed: marks and the cursor are kept by it. Opaque above the backends."""

Ref: TypeAlias = Hashable
"""Identity of a message that is pinned in a plan (in a directory box: name, inode, size, ctime). Opaque above the backends."""


class Box(StrEnum):
    """Location of a message."""

    TMP = "tmp"
    NEW = "new"
    CUR = "cur"
    HELD = "held"
    REJECTED = "rejected"
    TRASH = "trash"
    DELIVERED = "delivered"
    """Handed out by a queue that knows no ack: done, running or lost."""

    __hash__ = str.__hash__  # equal to its word, and found by it; and without a call into Python


DIED = "died"
"""End of an attempt that its consumer did not end: ``recover`` or an operator took the claim away."""
RUNNING, EXITED = "running", "exited"
"""Evidence that says no more than the verdict: the holder itself is running, or has exited."""
NOT_A_CLAIM = "not a claim that spooltop knows: no holder in its name"
"""Evidence on a file in ``cur`` that is not judged: other programs keep there what was read."""
LIVE = (Box.TMP, Box.NEW, Box.CUR)
ASIDE = (Box.HELD, Box.REJECTED, Box.TRASH)


class Verdict(StrEnum):
    """Judgement of a claim (ALIVE, DEAD or UNKNOWN) or of a file in ``tmp`` (WRITING, ABANDONED or UNKNOWN). Never by age
    alone."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"
    WRITING = "writing"
    ABANDONED = "abandoned"

    __hash__ = str.__hash__


class Action(StrEnum):
    """Kinds of operations. A kind of spool says by ``Capabilities`` which of them it has."""

    REQUEUE = "requeue"
    PURGE = "purge"
    INJECT = "inject"
    HOLD = "hold"
    RELEASE = "release"
    RESTORE = "restore"
    EMPTY = "empty"
    UNDO = "undo"
    SET_CURSOR = "set-cursor"
    UNLOCK = "unlock"
    PAUSE = "pause"
    RESUME = "resume"

    __hash__ = str.__hash__


class Owner(NamedTuple):
    """The holder of a claim or the writer of a file, according to its name or its presence file; ``start`` in epoch seconds.
    ``name`` is that of a consumer in a queue that knows consumers by names, and not by processes. ``moves_to`` names the queue
    into which ``spooltop move`` was moving the message: only the same move may take its claim."""

    host: str | None = None
    pid: int | None = None
    start: float | None = None
    command: str | None = None
    user: str | None = None
    name: str | None = None
    moves_to: str | None = None

    @property
    def called(self) -> str:
        """The name, else the program without path, interpreter and arguments; empty if neither is known. Not escaped."""
        from .text import program

        return self.name or (program(self.command) if self.command else "")

    @property
    def label(self) -> str:
        """The pid and ``called``, as far as they are known; only the name where the pid is part of it. Not escaped."""
        if self.name is not None and self.pid is not None and str(self.pid) in self.name:
            return self.name
        return " ".join(str(part) for part in (self.pid, self.called) if part)

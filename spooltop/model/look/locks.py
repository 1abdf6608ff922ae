"""Locks, and the processes that hold them, wait for them, or have a file open, as far as they are visible from here."""

from __future__ import annotations

from msgspec import Struct


class LockHolder(Struct, frozen=True):
    """A holder or a waiter of a lock; ``pid`` None: not visible from here. ``since`` is when it was first seen."""

    pid: int | None
    command: str | None = None
    user: str | None = None
    since: float | None = None
    alive: bool | None = None


class Lock(Struct, frozen=True):
    """A lock file.

    ``kind``: flock, posix, ofd, soft (the existing file is the lock), mkdir (a directory is the lock), ticket (a queue of
    tickets), rw (filelock's ``SoftReadWriteLock``), redis, none. ``verdict``: held, free, blocked, stale, unknown.
    """

    path: str
    kind: str
    holders: tuple[LockHolder, ...] = ()
    waiters: tuple[LockHolder, ...] = ()
    verdict: str = "unknown"
    evidence: str = ""
    failed: bool = False
    """True if the lock could not be read, for example because a server does not answer; ``evidence`` says why."""


class Holding(Struct, frozen=True):
    """A process and its use of the file.

    ``how``: "open for writing", "open for reading", "mapped", "flock, holds", "flock, waits" (also posix, ofd), "holds the
    claim", "ticket, first". ``of`` names the file if it is not the one that was asked about (the lock beside a cursor file).
    ``pid`` None: a process that is not visible from here. ``since`` is epoch seconds, None if unknown: a claim has it in its
    name, the kernel has it for neither open files nor locks.
    """

    pid: int | None
    command: str | None
    user: str | None
    how: str
    since: float | None = None
    of: str = ""


class Holders(Struct, frozen=True):
    """The processes that use ``path``. ``complete`` is False if there may be others; ``notes`` say in words what was not
    visible."""

    path: str
    processes: tuple[Holding, ...] = ()
    complete: bool = True
    notes: tuple[str, ...] = ()

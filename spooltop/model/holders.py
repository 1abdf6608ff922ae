"""Processes that have a file open or locked, as far as they are visible from here."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Holders", "Holding"]


@dataclass(frozen=True, slots=True)
class Holding:
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


@dataclass(frozen=True, slots=True)
class Holders:
    """The processes that use ``path``. ``complete`` is False if there may be others; ``notes`` say in words what was not
    visible."""

    path: str
    parties: tuple[Holding, ...] = ()
    complete: bool = True
    notes: tuple[str, ...] = ()

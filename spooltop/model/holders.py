"""Who has a file open or locked, as far as it can be seen from here."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Holders", "Holding"]


@dataclass(frozen=True, slots=True)
class Holding:
    """One process and what it does with the file. ``how``: "open for writing", "open for reading", "mapped", "flock, holds",
    "flock, waits" (also posix, ofd), "holds the claim", "ticket, first"; ``of`` names the file where it is another than the one
    that was asked about (the lock beside a cursor file). ``pid`` None: somebody who is not visible from here. ``since`` is epoch
    seconds, None where nobody knows: a claim tells it in its name, of open files and of locks the kernel does not.
    """

    pid: int | None
    command: str | None
    user: str | None
    how: str
    since: float | None = None
    of: str = ""


@dataclass(frozen=True, slots=True)
class Holders:
    """The answer about ``path``. ``complete`` is False where there may be others; ``notes`` say in words what was not seen."""

    path: str
    parties: tuple[Holding, ...] = ()
    complete: bool = True
    notes: tuple[str, ...] = ()

"""Questions about the system around a queue: its processes, locks, disk and user. Whoever opens a queue passes in what answers
them, since kinds of queues do not know each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from spooltop.model import Capabilities, Disk, Frozen, Holders, Verdict, Viewer

Connection = tuple[str, str]
"""A TCP connection: its end at the client and its end at the server, ``ADDRESS:PORT`` each."""


class Users(Frozen):
    """Processes that use a file. ``complete`` False: there may be others that are not visible from here; ``why`` says so."""

    pids: tuple[int, ...]
    complete: bool
    why: str = ""


class LocalClient(Frozen):
    """A process of this host, started at ``started`` (seconds since boot), and a connection that it has open."""

    pid: int
    started: float
    connection: Connection


class Surroundings(Protocol):
    """Answers from the process table and the kernel's locks, of this moment. Every method may read all of ``/proc``."""

    def local(self, root: int) -> bool:
        """True where only this machine mounts the file system of ``root`` (a descriptor)."""
        ...

    def pids(self, claims: Sequence[tuple[int, float]], root: int) -> list[tuple[Verdict, str]]:
        """Judges holders by their pid: (pid, time of the claim in epoch seconds) each."""
        ...

    def clients(self, pids: Collection[int], connections: Collection[Connection]) -> list[LocalClient]:
        """Finds which of these processes have one of these connections open, as far as this user may look into them."""
        ...

    def has_ended(self, pid: int, started: float) -> bool | None:
        """True where the process with this pid and start (seconds since boot) is gone; None where that is not visible."""
        ...

    def locks(self, root: int) -> Callable[[os.stat_result], Users]:
        """Reads all kernel locks, once, and returns what tells who holds one on the file with a status."""
        ...

    def opened(self, found: Sequence[os.stat_result]) -> list[Users]:
        """Finds who has each of these files open."""
        ...

    def watching(self, found: os.stat_result, root: int) -> Users:
        """Finds who watches the directory with this status, on the file system of ``root``, by inotify(7)."""
        ...

    def holders(self, shown: str, found: os.stat_result, folder: int) -> Holders:
        """Finds the processes that have the file with this status, in the directory ``folder`` (a descriptor), open or locked."""
        ...

    def disk(self, root: int) -> Disk:
        """Reads the free space of the file system of ``root``."""
        ...

    def viewer(self, capabilities: Capabilities, read_only: str) -> Viewer:
        """Describes the user who runs this."""
        ...

"""The kernel's table of locks, read twice, and the owners of a lock in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from msgspec import Struct

from spooltop.model.proc import Device, LockLine, parse_locks

from ..world import System
from .processes import Descriptor, Processes

_TABLE_FOR = 1.0
"""Seconds for which a table is kept."""
_OTHER_NAMESPACES = "processes outside this container are not visible from here"
_NO_TABLE = "this system does not show who holds a lock"


class LockTable(Struct, frozen=True):
    """All locks that were seen. ``unseen`` says why there may be more; if it is empty, an absent lock is free."""

    by_file: Mapping[tuple[Device, int], tuple[LockLine, ...]]
    unseen: str = ""

    def of(self, found: os.stat_result, device: Device | None = None) -> tuple[LockLine, ...]:
        """The locks on the file with this status; ``device`` is that of its mount, which btrfs has in the table in place of the
        one of the status."""
        devices = dict.fromkeys(((os.major(found.st_dev), os.minor(found.st_dev)), device))
        return tuple(dict.fromkeys(line for one in devices if one for line in self.by_file.get((one, found.st_ino), ())))


def read_table(processes: Processes) -> LockTable:
    """Reads the table twice and merges both. Outside the first pid namespace it leaves out the locks of others."""
    lines: dict[LockLine, None] = {}
    unseen = "" if processes.in_first_namespace() else _OTHER_NAMESPACES
    for _ in range(2):
        text = processes.locks()
        if text is None:
            unseen = _NO_TABLE
        else:
            lines.update(dict.fromkeys(parse_locks(text)))
    by_file: dict[tuple[Device, int], list[LockLine]] = {}
    for line in lines:
        by_file.setdefault((line.device, line.inode), []).append(line)
    return LockTable({key: tuple(found) for key, found in by_file.items()}, unseen)


class LockTableCache(Struct):
    """The lock table, read at most once a second."""

    _world: System
    _read: tuple[float, LockTable] | None = None

    def read(self) -> LockTable:
        """Returns all locks of this machine that can be seen."""
        at = self._world.monotonic()
        if self._read is None or at - self._read[0] >= _TABLE_FOR:
            self._read = (at, read_table(self._world.processes))
        return self._read[1]


def lock_owners(line: LockLine, opened: Iterable[Descriptor], processes: Processes) -> list[int | None]:
    """Returns the owners of a lock: the pid of the line; where it is hidden or has ended (an OFD lock, or the child of a process
    that ended), those that have the lock through one of the descriptors on the file, ``opened``: read only
    then."""
    if line.pid > 0 and processes.exists(line.pid):
        process = processes.process(line.pid)
        if process is None or not process.zombie:
            return [line.pid]
    if line.waits:
        return [line.pid if line.pid > 0 else None]
    inheritors: list[int | None] = []
    for pid in dict.fromkeys(one.pid for one in opened):
        own = parse_locks(b"\n".join(processes.lock_lines(pid)))
        if any(held.inode == line.inode and held.kind == line.kind for held in own):
            inheritors.append(pid)
    return inheritors or [None]

"""Further conditions on files of a queue: another path is there, the file is executable, is locked, or ends with a line."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping

from ..surroundings import Users
from .definition.layout import FileCondition
from .inside import exists, read_end, status

__all__ = ["TAIL", "Conditions", "last_line"]

TAIL = 512
"""Bytes at the end of a file that are read for its last line."""
_State = tuple[int, int, int]


class Conditions:
    """Judges conditions on the files below ``root`` (a descriptor), look after look. ``read_locks`` is asked once for a look, by
    the first condition on a lock, after all names were read; what it returns tells who holds flock(2) on a file. Without it
    nobody does. The end of a file is read once, until the file changes; those of files that were not asked for in the last look
    are forgotten."""

    def __init__(self, root: int, read_locks: Callable[[], Callable[[os.stat_result], Users]] | None = None) -> None:
        self._root = root
        self._read_locks = read_locks
        self._locks: Callable[[os.stat_result], Users] | None = None
        self._ends: dict[str, tuple[_State, str]] = {}
        self._before: dict[str, tuple[_State, str]] = {}

    def next_look(self) -> None:
        """Begins a look."""
        self._before, self._ends = self._ends, {}
        self._locks = None

    def hold(self, when: FileCondition, path: str, fields: Mapping[str, str]) -> bool:
        """True where ``when`` holds for the file; False also where the file is gone."""
        other = path
        if when.path is not None:
            filled = when.path.path_of({**fields, "path": path, "name": os.path.basename(path)})
            if filled is None:
                return False
            other = filled
        try:
            if when.kind == "exists":
                return exists(self._root, other)
            found = status(self._root, other)
            if when.kind == "mode":
                return bool(found.st_mode & stat.S_IXUSR)
            if when.kind == "flock":
                return self._may_be_locked(found)
            return when.text is not None and when.text.match(self._end(other, found)) is not None
        except OSError:
            return False

    def _may_be_locked(self, found: os.stat_result) -> bool:
        """True also where it cannot be seen."""
        if self._read_locks is None:
            return False
        if self._locks is None:
            self._locks = self._read_locks()
        users = self._locks(found)
        return bool(users.pids) or not users.complete

    def _end(self, path: str, found: os.stat_result) -> str:
        state = found.st_ino, found.st_mtime_ns, found.st_ctime_ns
        known = self._before.get(path) or self._ends.get(path)
        if known is None or known[0] != state:
            known = state, last_line(read_end(self._root, path, TAIL))
        self._ends[path] = known
        return known[1]


def last_line(data: bytes) -> str:
    """The last line that is not empty."""
    lines = data.decode("utf-8", "replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "")

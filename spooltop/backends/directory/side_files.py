"""Reads the files beside the boxes: the lock files and the cursors of a spool, and the kernel's lock table that both need."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from spooltop.engine import counters
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.cursors import CursorSource
from spooltop.model.locks import Lock, LockHolder
from spooltop.model.vocabulary import Box

from .cursors.files import CursorFiles, named_folders
from .cursors.watcher import CursorWatcher
from .cursors.writers import WriterWatch
from .locks.lock_files import LockFiles, LockTable, device_of, message_locks, read_table
from .scan.scan import BoxScan
from .storage.filesystem import Mount
from .storage.open_spool import OpenSpool
from .world import World

__all__ = ["Beside"]

_TABLE_FOR = 1.0
LOCKS_FOR = 300.0
"""Seconds for which the counts of the engine's own locks are looked at."""


class Beside:
    """Lock files and cursors in the directory of the spool and in the one above it. The lock table is read at most once a second.
    ``changed`` is set when a cursor file was replaced; without it nobody listens."""

    def __init__(
        self,
        place: OpenSpool,
        world: World,
        *,
        writers: WriterWatch | None = None,
        named: Sequence[str] = (),
        changed: threading.Event | None = None,
    ) -> None:
        self._place = place
        self._world = world
        self._cursor_watcher = None
        if changed is not None:
            self._cursor_watcher = CursorWatcher(changed, clock=world.clock, handles=writers is not None)
        self._lock_files = LockFiles(world)
        self._cursor_files = CursorFiles(world, writers=writers, named=named, watcher=self._cursor_watcher)
        self._named = tuple(named)
        self._table: tuple[float, LockTable] | None = None
        self._in_boxes: dict[Box, tuple[int, tuple[str, ...]]] = {}

    def close(self) -> None:
        if self._cursor_watcher is not None:
            self._cursor_watcher.close()

    def table(self) -> LockTable:
        """All locks of this machine that can be seen."""
        at = self._world.monotonic()
        if self._table is None or at - self._table[0] >= _TABLE_FOR:
            self._table = (at, read_table(self._world.processes))
        return self._table[1]

    def locks(self, dirs: SpoolDirs, mount: Mount | None, scans: Mapping[Box, BoxScan]) -> tuple[Lock, ...]:
        device = mount.device if mount is not None else None
        boxes = self._place.boxes(dirs)
        within = {path: self._in_box(box, scans[box]) for box, (path, _) in boxes.items()}
        folders = [(path, fd, device) for path, fd in (*self._place.folders(dirs), *boxes.values())]
        return self._lock_files.look(folders, self.table, within)

    def _in_box(self, box: Box, scan: BoxScan) -> tuple[str, ...]:
        number, names = self._in_boxes.get(box, (-1, ()))
        if number != scan.number:
            names = message_locks(chunk for _, chunk in scan.names.chunks())
            self._in_boxes[box] = (scan.number, names)
        return names

    def locks_used(self, dirs: SpoolDirs) -> tuple[int, int]:
        """Counts how often the engine's own locks were acquired, and how often they were given up, in the last five minutes."""
        try:
            own = dirs.private_dir()
        except OSError:
            own = None  # closed to this user: what cannot be seen is no trouble of the locks
        with self.folders(dirs) as folders:
            return counters.locks_used(dirs.files, own, (fd for _, fd in folders), since=self._world.clock() - LOCKS_FOR)

    def suppressed(self, dirs: SpoolDirs) -> Mapping[str, int]:
        """Counts the puts that were suppressed because their message was already there, by source."""
        try:
            own = dirs.private_dir()
        except OSError:
            return {}  # closed to this user
        return {} if own is None else counters.total(counters.read(dirs.files, own, counters.COUNTERS), counters.DUPLICATE)

    @contextmanager
    def folders(self, dirs: SpoolDirs) -> Iterator[list[tuple[str, int]]]:
        """(path, descriptor) of the folders whose cursors are shown."""
        with named_folders(self._named) as opened:
            yield opened or self._place.folders(dirs)

    def cursors(self, dirs: SpoolDirs) -> tuple[CursorSource, ...]:
        with self.folders(dirs) as folders:
            return self._cursors(folders)

    def _cursors(self, folders: list[tuple[str, int]]) -> tuple[CursorSource, ...]:
        def holders(found: os.stat_result) -> tuple[LockHolder, ...]:
            files = [found]
            for _, fd in folders:
                try:
                    files.append(os.stat(".cursors.lock", dir_fd=fd, follow_symlinks=False))
                except OSError:
                    continue  # nobody locks there
            table = self.table()
            lines = {line for file in files for line in table.of([device_of(file)], file.st_ino) if not line.waits}
            return tuple(LockHolder(line.pid if line.pid > 0 else None, since=self._world.clock()) for line in lines)

        return self._cursor_files.look(folders, holders)

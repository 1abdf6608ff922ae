"""Reads the files beside the boxes: the lock files and the cursors of a spool, its pause, and the counters of the engine."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from spooltop.engine import counters
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.cursors import CursorSource
from spooltop.model.look.locks import Holders, Lock, LockHolder
from spooltop.model.look.observation import Pause
from spooltop.model.vocabulary import Box

from .cursors.files import CursorFiles
from .cursors.folders import cursor_rights, named_folders
from .locks.lock_files import LockFiles, LockTableCache, device_of, message_locks
from .options import OpenOptions
from .pausing.reading import PauseReader
from .scan.scan import BoxScan
from .storage.filesystem import Mount
from .storage.open_spool import OpenSpool
from .world import World

if TYPE_CHECKING:
    from .cursors.watcher import CursorWatcher
    from .cursors.writers import WriterWatch

__all__ = ["LOCKS_FOR", "Counted", "SideFiles"]

LOCKS_FOR = 300.0
"""Seconds for which the uses of the engine's own locks are counted."""


class Counted(NamedTuple):
    """How often the engine's own locks were acquired and given up in the last five minutes, and how often a wait for one of the
    spool's own timed out ever; the puts that were suppressed because their message was already there, by source."""

    locks_had: int
    locks_given_up: int
    lock_timeouts: int
    suppressed: Mapping[str, int]


class SideFiles:
    """Lock files and cursors in the directory of the spool and in the one above it. ``changed`` is set when a cursor file was
    replaced, if the options say ``watch``. ``writers`` is closed with it."""

    def __init__(
        self,
        spool: OpenSpool,
        world: World,
        options: OpenOptions,
        table: LockTableCache,
        *,
        writers: WriterWatch | None,
        changed: threading.Event,
    ) -> None:
        self._spool = spool
        self._world = world
        self._table = table
        self._named = options.cursor_files
        self._writers = writers
        self._cursor_watcher: CursorWatcher | None = None
        if options.watch:
            from .cursors.watcher import CursorWatcher  # only for those who look more than once

            self._cursor_watcher = CursorWatcher(changed, clock=world.clock, handles=writers is not None)
        self._lock_files = LockFiles(world)
        self._pause = PauseReader()
        self._cursor_files = CursorFiles(world, writers=writers, named=self._named, watcher=self._cursor_watcher)
        self._locks_in_boxes: dict[Box, tuple[int, tuple[str, ...]]] = {}

    @property
    def writers_watched(self) -> bool:
        """True if the kernel reports who writes the cursors."""
        return self._writers is not None

    def close(self) -> None:
        if self._cursor_watcher is not None:
            self._cursor_watcher.close()
        if self._writers is not None:
            self._writers.close()

    def locks(self, dirs: SpoolDirs, mount: Mount | None, scans: Mapping[Box, BoxScan]) -> tuple[Lock, ...]:
        """Returns the locks in the directory of the spool, in the one above it, and in the boxes."""
        device = mount.device if mount is not None else None
        boxes = self._spool.boxes(dirs)
        within = {path: self._in_box(box, scans[box]) for box, (path, _) in boxes.items()}
        folders = [(path, fd, device) for path, fd in (*self._spool.folders(dirs), *boxes.values())]
        return self._lock_files.look(folders, self._table.read, within)

    def _in_box(self, box: Box, scan: BoxScan) -> tuple[str, ...]:
        number, names = self._locks_in_boxes.get(box, (-1, ()))
        if number != scan.number:
            names = message_locks(chunk for _, chunk in scan.names.chunks())
            self._locks_in_boxes[box] = (scan.number, names)
        return names

    def pause(self, dirs: SpoolDirs) -> Pause | None:
        """Returns the pause of the spool, None if it is not paused."""
        return self._pause.look(dirs)

    def counted(self, dirs: SpoolDirs) -> Counted:
        """Sums up what the engine has counted, also where cursor files are."""
        try:
            own = dirs.private_dir()
        except OSError:
            own = None  # closed to this user: what cannot be seen is not an error of the locks
        counts = [] if own is None else counters.read(dirs.files, own, counters.COUNTERS)
        with self._folders(dirs) as folders:
            since = self._world.clock() - LOCKS_FOR
            had, given_up = counters.locks_used(dirs.files, counts, (fd for _, fd in folders), since=since)
        timeouts = sum(counters.total(counts, counters.TIMED_OUT).values())
        return Counted(had, given_up, timeouts, counters.total(counts, counters.DUPLICATE))

    def cursors(self, dirs: SpoolDirs) -> tuple[CursorSource, ...]:
        """Returns the cursors in the directory of the spool or in the one above it, or those that were named."""
        with self._folders(dirs) as folders:
            fds = [fd for _, fd in folders]
            return self._cursor_files.look(folders, lambda found: self._cursor_lock_holders(found, fds))

    def why_not_set(self, dirs: SpoolDirs, cursors: tuple[CursorSource, ...]) -> str | None:
        """Returns why this user may not set the cursors, or None. Raises ``OSError``."""
        with self._folders(dirs) as folders:
            return cursor_rights(cursors, folders)

    def holders(self, dirs: SpoolDirs, path: str) -> Holders:
        """Finds the processes that have a lock or a cursor file open or locked. Raises ``Unreadable``."""
        with self._folders(dirs) as folders:
            known = [*folders, *self._spool.folders(dirs), *self._spool.boxes(dirs).values()]
            from .liveness.users_of import who_has_path  # asked for one file at a time, never by a look

            return who_has_path(path, known, self._world.processes)

    @contextmanager
    def _folders(self, dirs: SpoolDirs) -> Iterator[list[tuple[str, int]]]:
        """Opens the folders whose cursors are shown, as (path, descriptor)."""
        with named_folders(self._named) as opened:
            yield opened or self._spool.folders(dirs)

    def _cursor_lock_holders(self, file: os.stat_result, folders: list[int]) -> tuple[LockHolder, ...]:
        """Returns the holders of a lock on a cursor file, or on the lock file beside it."""
        files = [file]
        for fd in folders:
            try:
                files.append(os.stat(".cursors.lock", dir_fd=fd, follow_symlinks=False))
            except OSError:
                continue  # nobody locks there
        table = self._table.read()
        lines = {line for one in files for line in table.of([device_of(one)], one.st_ino) if not line.waits}
        return tuple(LockHolder(line.pid if line.pid > 0 else None, since=self._world.clock()) for line in lines)

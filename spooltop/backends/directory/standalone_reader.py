"""A folder without boxes that still has something to watch: a ``cursors.json`` alone, or a directory of tickets or lock files.

It has cursors and locks, no messages and nothing to change; the same views show it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from spooltop.engine import counters
from spooltop.errors import Unreadable
from spooltop.model.capabilities import Capabilities
from spooltop.model.cursors import CursorSource
from spooltop.model.look.consumers import ConsumerList
from spooltop.model.look.locks import Holders, Lock
from spooltop.model.look.observation import BoxState, Observation, Watch
from spooltop.model.operations.results import TrackedMessage
from spooltop.model.protocols import Listing, ListProgress, ListQuery
from spooltop.model.row import Payload, Row
from spooltop.model.vocabulary import LIVE, Action, Key

from .cursors.files import CursorFiles
from .cursors.folders import cursor_rights, named_folders
from .cursors.watcher import CursorWatcher
from .cursors.writers import WriterWatch
from .events.change_waiter import ChangeWaiter
from .liveness.users_of import who_has_path
from .locks.lock_files import LockFiles, folder_closed, read_table
from .locks.soft_lock_liveness import Judge
from .locks.ticket_queues import orphaned, ticket_queue
from .options import OpenOptions
from .side_files import LOCKS_FOR
from .storage.disk import disk_of, who_am_i
from .storage.filesystem import is_local, mount_of
from .world import World

__all__ = ["StandaloneReader"]

_PERIOD = 1.0
"""Seconds between two looks: a stat of a few files each."""


class StandaloneReader:
    """Implements ``model.protocols.Reader`` for a target of layout "cursors", "tickets" or "locks". ``writers`` reports who
    writes the cursors and is closed with the reader."""

    def __init__(
        self,
        path: str,
        options: OpenOptions,
        world: World,
        *,
        writers: WriterWatch | None = None,
    ) -> None:
        self._path = path
        self._layout = options.layout or ""
        self._world = world
        self._since = world.clock()
        self._waiter = ChangeWaiter(world)
        self._cursor_watcher = None
        if options.watch:
            self._cursor_watcher = CursorWatcher(self._waiter.changed, clock=world.clock, handles=writers is not None)
        self._named = options.cursor_files
        self._cursors = CursorFiles(world, writers=writers, named=self._named, watcher=self._cursor_watcher)
        self._writers = writers
        self._locks = LockFiles(world)
        self._judge = Judge(world.processes)
        self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._above = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._root)
        self._read_only = options.read_only

    def see(self, *, rescan: bool = False) -> Observation:
        mount = mount_of(self._root)
        device = mount.device if mount is not None else None
        folders = [(self._path, self._root, device)]
        if self._layout == "tickets":  # the lock that the tickets queue for stands beside their directory
            folders.append((os.path.normpath(os.path.join(self._path, "..")), self._above, device))
        table = read_table(self._world.processes)
        locks = self._locks.look(folders, lambda: table)
        if self._layout == "tickets" and not any(os.path.normpath(lock.path) == os.path.normpath(self._path) for lock in locks):
            queue = ticket_queue(self._path, ".", self._root, self._judge, local=is_local(mount))
            locks = orphaned([*([queue] if queue is not None else []), *locks])
        held_by = next((lock.holders for lock in locks if os.path.basename(lock.path) == ".cursors.lock"), ())

        cursors: tuple[CursorSource, ...] = ()
        if self._layout == "cursors":
            cursors = self._cursors.look([(self._path, self._root)], lambda _: held_by)
        capabilities = self._can(cursors, locks)
        now = self._world.clock()
        locks_had, locks_given_up = self._locks_used(now)
        return Observation(
            target=self._path,
            layout=self._layout,
            taken_at=now,
            complete=not any(one.left_out for one in cursors),
            boxes={box: BoxState(box, count=None, error=f"{self._layout} alone", as_of=now) for box in LIVE},
            disk=disk_of(self._root, mount),
            cursors=cursors,
            locks=locks,
            locks_had=locks_had,
            locks_given_up=locks_given_up,
            who=who_am_i(capabilities, read_only=self._read_only, layout=self._layout),
            capabilities=capabilities,
            watch=Watch("scan", "", _PERIOD, self._since),
            writers_watched=self._writers is not None,
        )

    def _locks_used(self, now: float) -> tuple[int, int]:
        with named_folders(self._named) as named:
            folders = [fd for _, fd in named or [(self._path, self._root)]]
            return counters.locks_used(self._world.files, (), folders, since=now - LOCKS_FOR)

    def _can(self, cursors: tuple[CursorSource, ...], locks: Sequence[Lock]) -> Capabilities:
        """Returns the capabilities for a directory without messages: cursors can be set and stale locks removed, nothing else."""
        if self._read_only is not None:
            return Capabilities.nothing(self._read_only)
        refusals = dict.fromkeys(Action, f"{self._layout} alone: there are no messages here")
        del refusals[Action.UNLOCK]
        if self._layout in ("tickets", "locks"):
            del refusals[Action.UNDO]
            if (closed := self._closed(locks)) is not None:
                refusals[Action.UNLOCK] = refusals[Action.UNDO] = closed
        if self._layout == "cursors":
            with named_folders(self._named) as named:
                why = cursor_rights(cursors, named or [(self._path, self._root)])
            for action in (Action.SET_CURSOR, Action.UNDO):
                if why is None:
                    del refusals[action]
                else:
                    refusals[action] = why
        return Capabilities(refusals)

    def _closed(self, locks: Sequence[Lock]) -> str | None:
        """Returns why this user can neither remove a lock nor put one back; None where a lock may be in a directory that is open.
        Each lock is checked again, on its own."""
        path, own = os.path.normpath(self._path), folder_closed(self._root, "the directory", self._path)
        if own is None or all(path in (os.path.normpath(lock.path), os.path.dirname(lock.path)) for lock in locks):
            return own
        return None if folder_closed(self._above, "the directory above", self._path) is None else own

    def listing(
        self, query: ListQuery, cancelled: Callable[[], bool] = lambda: False, progress: ListProgress | None = None
    ) -> Listing:
        return _Nothing(query)

    def read(self, key: Key, limit: int) -> Payload:
        raise Unreadable("there are no messages here", path=self._path)

    def follow(self, ids: Sequence[str], since: float) -> Mapping[str, TrackedMessage]:
        return {}

    def consumers(self) -> ConsumerList:
        return ConsumerList()

    def holders(self, key: Key) -> Holders:
        above = os.path.normpath(os.path.join(self._path, ".."))
        folders = [(self._path, self._root), (os.path.normpath(self._path), self._root), (above, self._above)]
        with named_folders(self._named) as named:
            return who_has_path(str(key), [*folders, *named], self._world.processes)

    def current_step(self) -> str:
        return f"reading {self._path}"

    def changes(self, timeout: float) -> bool:
        return self._waiter.wait(min(timeout, _PERIOD))

    def wake(self) -> None:
        self._waiter.wake()

    def close(self) -> None:
        if self._cursor_watcher is not None:
            self._cursor_watcher.close()
        if self._writers is not None:
            self._writers.close()
        os.close(self._root)
        os.close(self._above)


class _Nothing:
    """A list of nothing."""

    complete = True
    generation = 0
    timed = False
    ordered_over: int | None = None

    def __init__(self, query: ListQuery) -> None:
        self.query = query

    def __len__(self) -> int:
        return 0

    def window(self, start: int, stop: int) -> Sequence[Row]:
        return ()

    def find(self, key: Key) -> int | None:
        return None

    def keys(self) -> Iterator[Key]:
        return iter(())

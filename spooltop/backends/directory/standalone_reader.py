"""A folder without boxes that still has something to watch: a ``cursors.json`` alone, or a directory of tickets or lock files.

It has cursors and locks, no messages and nothing to change; the same views show it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from spooltop.engine import counters
from spooltop.errors import Unreadable
from spooltop.model.backend import Capabilities
from spooltop.model.cursors import CursorSource
from spooltop.model.look.consumers import ConsumerList
from spooltop.model.look.locks import Holders, Lock
from spooltop.model.look.observation import BoxState, Disk, Observation, Viewer, Watch
from spooltop.model.operations.results import TrackedMessage
from spooltop.model.protocols import Listing, ListProgress, ListQuery
from spooltop.model.row import Payload, Row
from spooltop.model.vocabulary import LIVE, Action, Key, Verdict

from ..access import user_name
from ..surroundings import Connection, LocalClient, Users
from .cursors.files import CursorFiles, cursor_rights, named_folders
from .cursors.watcher import CursorWatcher, WriterWatch
from .events.watcher import ChangeWaiter
from .liveness.processes import BootClock, Certainty, Processes, judge_pid
from .liveness.users import Asked, holders_of, who_has_path
from .locks.lock_files import Judge, LockFiles, folder_closed, orphaned, read_table, ticket_queue
from .reader import LOCKS_FOR
from .storage.disk import disk_of, is_local, mount_of, who_am_i
from .world import OpenOptions, System

# Answers about processes, locks, disk and user for kinds of queues that are no spool, by the same rules as for a spool.

_UNNAMED = "somebody locks it whom the kernel does not name"
_UNREADABLE = "the processes of other users cannot be seen"


class LocalSurroundings:
    """Answers of this machine. ``pids_here``: the user vouches that all pids are those of processes seen here
    (``claims.pids``)."""

    def __init__(self, processes: Processes, *, pids_here: bool = False) -> None:
        self._processes = processes
        self._pids_here = pids_here
        self._boot_clock = BootClock(processes)

    def local(self, root: int) -> bool:
        return is_local(mount_of(root))

    def pids(self, claims: Sequence[tuple[int, float]], root: int) -> list[tuple[Verdict, str]]:
        processes = self._processes
        self._boot_clock.look()
        certainty = Certainty(self.local(root), processes.in_first_namespace(), self._pids_here)
        there = {pid: processes.exists(pid) for pid, _ in claims}
        namesakes = processes.namesakes(there) if certainty.local and not all(there.values()) else {}
        seen = processes.boottime()
        return [
            judge_pid(
                pid, there[pid], processes.process(pid), None if namesakes is None else namesakes.get(pid, []),
                self._boot_clock.latest(since, seen), certainty,
            )
            for pid, since in claims
        ]  # fmt: skip

    def clients(self, pids: Collection[int], connections: Collection[Connection]) -> list[LocalClient]:
        return [LocalClient(*one) for one in self._processes.clients(pids, connections)]

    def has_ended(self, pid: int, started: float) -> bool | None:
        return self._processes.has_ended(pid, started)

    def locks(self, root: int) -> Callable[[os.stat_result], Users]:
        mount = mount_of(root)
        table = read_table(self._processes)

        def of(found: os.stat_result) -> Users:
            lines = [line for line in table.of(found, mount.device if mount is not None else None) if not line.waits]
            pids = tuple(line.pid for line in lines if line.pid > 0)
            why = table.unseen or (_UNNAMED if len(pids) < len(lines) else "")
            return Users(pids, not why, why)

        return of

    def opened(self, found: Sequence[os.stat_result]) -> list[Users]:
        seen = self._processes.descriptors({(one.st_dev, one.st_ino) for one in found})
        return [
            Users(
                tuple(dict.fromkeys(each.pid for each in seen.by_file.get((one.st_dev, one.st_ino), ()))), seen.all_seen,
                "" if seen.all_seen else _UNREADABLE,
            )
            for one in found
        ]  # fmt: skip

    def watching(self, found: os.stat_result, root: int) -> Users:
        # The kernel names the device of the mount, which on btrfs is not the one of the file's status.
        mount = mount_of(root)
        devices = {found.st_dev} | ({os.makedev(*mount.device)} if mount is not None else set())
        seen = self._processes.watchers({(device, found.st_ino) for device in devices})
        why = "" if seen.complete and self._processes.in_first_namespace() else _UNREADABLE
        # Who has none left works without a watch, and tries again until there is one.
        full = seen.full if found.st_mode & 0o022 else seen.full & {0, found.st_uid}
        if full and not why:
            why = f"user {user_name(min(full))} has no inotify watch left, so who works may have none"
        own = os.getpid()
        return Users(tuple(pid for pid in seen.pids if pid != own), not why, why)

    def holders(self, shown: str, found: os.stat_result, folder: int) -> Holders:
        return holders_of(shown, [Asked(found, folder)], self._processes, user=user_name(os.geteuid()))

    def disk(self, root: int) -> Disk:
        return disk_of(root, mount_of(root))

    def viewer(self, capabilities: Capabilities, read_only: str) -> Viewer:
        return who_am_i(capabilities, read_only=read_only, layout="layout")


_PERIOD = 1.0
"""Seconds between two looks: a stat of a few files each."""


class StandaloneReader:
    """Implements ``model.protocols.Reader`` for a target of layout "cursors", "tickets" or "locks". ``writers`` reports who
    writes the cursors and is closed with the reader."""

    def __init__(
        self,
        path: str,
        options: OpenOptions,
        world: System,
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

"""Looks at one spool directory: opens it, takes the change events, scans the boxes, judges, and assembles an ``Observation``.

It writes nothing. A change event is a reason to look; the scan is the truth. What cannot be seen is named in the observation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain

from spooltop.cursors.files import CursorFiles, CursorWatcher, WriterWatch, cursor_rights, named_folders
from spooltop.cursors.model import CursorSource
from spooltop.engine import counters
from spooltop.engine.cursors import LOCK
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.pausing import read_pause
from spooltop.locks.lock_files import LockFiles, folder_closed, holder_info, message_locks
from spooltop.model import Capabilities, Listing, ListProgress, ListQuery, Mount, TrackedMessage, Unreadable
from spooltop.model.snapshot import BoxState, ConsumerList, Disk, Observation, Pause, Watch
from spooltop.model.vocabulary import ASIDE, LIVE, Action, Box, Holders, Key, Lock, LockHolder, Payload, Row, Stop

from ..row_listing import RowListing
from .flow import FlowMeter, MessageTracker, OperatorMoves
from .judges import ConsumerGatherer, JudgedRows, RowJudge, TokenJudge
from .listing import NameListing, read_message, split_key
from .scan import Boxes, BoxScan, Scans, SetAsideBoxes, age_counter, irregular_rows, pieces
from .storage import (
    OpenFolder,
    OpenOptions,
    OpenSpool,
    System,
    can_change,
    changes_unseen,
    disk_of,
    mail_row,
    mount_of,
    new_row,
    sends_no_events,
    tried_of,
    who_am_i,
)
from .surroundings import who_has, who_has_path
from .watcher import ChangeWaiter, EventReport, Watcher

LOCKS_FOR = 300.0
"""Seconds for which the uses of the engine's own locks are counted."""


class _FolderReader:
    """Reads what a target has besides its boxes: lock files and cursors in folders, each as (path, descriptor). Is woken when a
    cursor file was replaced, if the options say ``watch``. ``writers`` reports who writes the cursors and is closed with it."""

    def __init__(self, path: str, options: OpenOptions, world: System, *, writers: WriterWatch | None) -> None:
        self.path = path
        self._options = options
        self._world = world
        self._writers = writers
        self._since = world.clock()
        self._waiter = ChangeWaiter(world.monotonic)
        self._cursor_watcher = (
            CursorWatcher(self._waiter.changed, clock=world.clock, handles=writers is not None) if options.watch else None
        )
        self._lock_files = LockFiles(world, tickets=options.layout == "tickets")
        self._cursor_files = CursorFiles(
            world, writers=writers, named=options.cursor_files, watcher=self._cursor_watcher
        )  # fmt: skip

    def wake(self) -> None:
        self._waiter.changed.set()

    def close(self) -> None:
        for opened in (self._cursor_watcher, self._writers):
            if opened is not None:
                opened.close()

    def _locks_used(self, folders: list[OpenFolder], counts: Sequence[counters.Count] = ()) -> tuple[int, int]:
        """Sums up how often the engine's own locks were acquired and given up in the last five minutes. ``counts`` are those of a
        spool."""
        with self._cursor_folders(folders) as opened:
            since = self._world.clock() - LOCKS_FOR
            return counters.locks_used(self._world.files, counts, (fd for _, fd in opened), since=since)

    def _lock_holders(self, file: os.stat_result, folder: int) -> tuple[LockHolder, ...]:
        """Returns the holders of a lock on a cursor file, or on the lock file beside it in the open ``folder``."""
        files = [file]
        with suppress(OSError):  # nobody locks there
            files.append(os.lstat(LOCK, dir_fd=folder))
        table = self._world.lock_table()
        lines = {line for one in files for line in table.of(one) if not line.waits}
        now, processes = self._world.clock(), self._world.processes
        return tuple(holder_info(line.pid if line.pid > 0 else None, now, processes) for line in lines)

    def _why_not_set(self, cursors: tuple[CursorSource, ...], folders: list[OpenFolder]) -> str | None:
        """Returns why this user may not set the cursors, or None. Raises ``OSError``."""
        with self._cursor_folders(folders) as opened:
            return cursor_rights(cursors, opened)

    def _holders(self, path: str, folders: list[OpenFolder]) -> Holders:
        """Finds the processes that have a lock or a cursor file open or locked. Raises ``Unreadable``."""
        with self._cursor_folders(folders) as opened:
            return who_has_path(path, [*opened, *folders], self._world.processes)

    @contextmanager
    def _cursor_folders(self, folders: list[OpenFolder]) -> Iterator[list[OpenFolder]]:
        """Opens the folders whose cursors are shown: ``folders``, if none were named."""
        with named_folders(self._options.cursor_files) as opened:
            yield opened or folders


_GLANCE = 1.75
"""Seconds of a longer wait after which the directories are asked whether they changed: ``tmp`` and those below ``.spooltop`` send
no events."""


class DirectoryReader(_FolderReader):
    """Implements ``model.backend.Reader`` for a directory with ``tmp``, ``new`` and ``cur``.

    ``writers`` reports who writes the cursors and is closed with the reader. Opening raises ``UsageError`` for an invalid value
    of ``pids``, else nothing: the first ``Observation`` says what is wrong with the spool.
    """

    def __init__(self, path: str, options: OpenOptions, world: System, *, writers: WriterWatch | None) -> None:
        super().__init__(os.path.abspath(path), options, world, writers=writers)
        self._mail = options.layout == "mail"
        self._spool = OpenSpool(self.path, world)
        self._watcher: Watcher | None = None
        self._boxes = Boxes(world, options.least)
        self._judge = RowJudge(world, options)
        self._set_aside = SetAsideBoxes(options.retention)
        self._flow = FlowMeter(self._set_aside, partial(self._spool.status, Box.NEW), OperatorMoves(world.files))
        self._tracker = MessageTracker(self._spool.status, self._set_aside)
        self._consumers = ConsumerGatherer(world.processes, TokenJudge(world.processes, options.hosts))
        self._scans: Scans = {}
        self._judged = JudgedRows()
        self._state: tuple[object, ...] = ()
        self._generation = 0
        """Changes when a list may have changed: with ``_state``."""
        self._by_name = {Box.NEW: new_row, Box.CUR: mail_row} if self._mail else {Box.NEW: new_row}
        """Boxes that are listed by name alone, because nothing in them is judged."""
        self._taken_at = 0.0
        self._stamps: tuple[int, ...] = ()
        self._step = ""

    def see(self, *, rescan: bool = False) -> Observation:
        now = self._taken_at = self._world.clock()
        self._step = "opening the directory"
        try:
            dirs, reopened = self._spool.open()
        except OSError as problem:
            return self._unseen(now, problem)
        if reopened:
            self._stop_listening()  # it does so in directories that no longer have these names
        mount = self._spool.mount
        report = self._take_events(dirs, mount)
        taken_at = self._world.clock()  # the events until then are counted, however long the look takes
        self._tracker.add_events(report.batches)
        self._stamps = self._boxes.stamps(dirs)
        scans = self._boxes.scan(dirs, force=rescan or reopened or report.restarted, unseen=changes_unseen(mount))
        new = scans[Box.NEW]
        self._step = "judging who holds what"
        judged = self._judge.look(dirs, mount, scans)
        duplicates = self._boxes.duplicates(dirs, new, scans[Box.CUR])
        irregular = irregular_rows(dirs, new, judged.irregular, duplicates)
        self._step = "listing what is set aside"
        set_aside = self._set_aside.look(dirs, now)
        self._step = "looking at cursors and locks"
        flow = self._flow.look(dirs, taken_at, report, new, scans[Box.CUR], judged.claims, exact=not reopened)
        folders, opened = self._spool.folders(dirs), self._spool.boxes(dirs)
        within = {path: _locks_in(scans[box]) for box, (path, _) in opened.items()}
        cursors = self._cursor_files.look(folders, self._lock_holders)
        capabilities = self._capabilities(dirs, cursors)
        boxes = {box: self._judge.box_state(box, scans[box], judged) for box in LIVE} | set_aside
        self._scans, self._judged = scans, judged.replace(irregular=irregular)
        numbers, errors = [scan.number for scan in scans.values()], [box.error for box in set_aside.values()]
        before = self._state
        self._state = numbers, judged.claims, judged.tmp, self._set_aside.generation, duplicates, errors
        self._generation += self._state != before
        self._waiter.set_due(self._boxes.due, self._options.least * 5 if self._flow.unsettled else None)
        counts: list[counters.Count] = []
        paused: Pause | None = None
        with suppress(OSError):  # what cannot be seen is not an error of the locks
            counts = counters.read(dirs)
        with suppress(OSError):
            paused = read_pause(dirs)
        locks_had, locks_given_up = self._locks_used(folders, counts)
        return Observation(
            target=self.path,
            layout=self._options.layout,
            taken_at=now,
            complete=all(state.complete for state in boxes.values())
            and not any(one.left_out for one in cursors),
            boxes=boxes,
            claims=judged.claims,
            tmp=judged.tmp,
            counts=judged.counts,
            judged_all=judged.all_claims and judged.all_tmp,
            tried=() if self._mail else tried_of(new.tried, judged.claims),
            tried_all=new.tried_all and judged.all_claims,
            irregular=irregular,
            conflicts=duplicates.conflicts,
            flow=flow,
            disk=disk_of(dirs.root, mount, dirs),
            cursors=cursors,
            locks=self._lock_files.look([*folders, *opened.values()], self._world.lock_table, within),
            locks_had=locks_had,
            locks_given_up=locks_given_up,
            suppressed=counters.total(counts, counters.DUPLICATE),
            lock_timeouts=sum(counters.total(counts, counters.TIMED_OUT).values()),
            paused=paused,
            consumers=self._judge.consumers(dirs, mount, scans),
            last_claim_at=self._flow.last_claim_at,
            ages=None if self._mail or new.error else new.once("ages", partial(age_counter, new)).ages(now),
            who=who_am_i(capabilities, read_only=self._options.read_only, dirs=dirs),
            capabilities=capabilities,
            watch=self._watch(report, mount),
            clock_jumped=self._judge.boot_clock.jumped,
            generation=self._generation,
            writers_watched=self._writers is not None,
        )

    def listing(
        self, query: ListQuery, cancelled: Stop = lambda: False, progress: ListProgress | None = None
    ) -> Listing:
        """Lists one box as the last look saw it. The list is empty and not complete if it did not see the box."""
        box = query.box
        rows: list[Row] = []
        complete = False
        if (scan := self._scans.get(box)) is not None and (row := self._by_name.get(box)) is not None:
            return NameListing(
                query=query, scan=scan, status=partial(self._spool.status, box), row=row, now=self._world.clock(),
                generation=self._generation, cancelled=cancelled, progress=progress,
            )  # fmt: skip
        if scan is not None:
            judged, all_of_it = self._judged.of(box)
            known_keys = {row.key for row in judged}
            rows = [*judged, *(row for row in self._judged.irregular if row.box is box and row.key not in known_keys)]
            complete = all_of_it and scan.complete
        elif box in ASIDE and self._spool.dirs is not None:
            rows, complete = self._set_aside.rows(self._spool.dirs, box, cancelled)
        return RowListing(query, rows, now=self._world.clock(), complete=complete, generation=self._generation)

    def read(self, key: Key, limit: int) -> Payload:
        dirs = self._opened()
        box, operation, name = split_key(key)
        if box in ASIDE:
            row: Row | None = self._set_aside.row(dirs, box, operation, name)
        else:
            row = next((row for row in self._judged.of(box)[0] if row.key == key), None)
        return read_message(dirs, key, limit, row, self._judge.claims.sentences)

    def follow(self, ids: Sequence[str], since: float) -> Mapping[str, TrackedMessage]:
        new = self._scans.get(Box.NEW)
        if new is None or self._spool.dirs is None or self._spool.dirs.new is None:
            return {}
        current = self._boxes.is_current(self._spool.dirs.new)
        rows = chain(self._judged.claims, self._judged.tmp)
        return self._tracker.where(ids, since, self._world.clock(), new, rows, current=current)

    def consumers(self) -> ConsumerList:
        dirs, judged = self._spool.dirs, self._judged
        if dirs is None or self._mail:
            return ConsumerList(taken_at=self._taken_at)
        certainty = self._judge.certainty(self._spool.mount)
        return self._consumers.gather(dirs, judged.claims, certainty, self._taken_at, complete=judged.all_claims)

    def holders(self, key: Key) -> Holders:
        dirs = self._opened()
        if isinstance(key, str):
            known = [*self._spool.folders(dirs), *self._spool.boxes(dirs).values()]
            return self._holders(key, known)
        return who_has(dirs, key, self._world.processes)

    @property
    def last_claim_at(self) -> float | None:
        """Time of the last claim that was observed, epoch seconds. May be called from any thread."""
        return self._flow.last_claim_at

    def current_step(self) -> str:
        return self._boxes.doing or self._step

    def changes(self, timeout: float) -> bool:
        while timeout > _GLANCE:
            if self._waiter.wait(_GLANCE) or self._changed_unheard():
                return True
            timeout -= _GLANCE
        return self._waiter.wait(timeout) or (timeout <= 0 and self._changed_unheard())

    def _changed_unheard(self) -> bool:
        """True if a directory of the spool has changed since the last look."""
        return self._spool.dirs is not None and self._boxes.stamps(self._spool.dirs) != self._stamps

    def close(self) -> None:
        self._stop_listening()
        super().close()
        self._spool.close()

    def _take_events(self, dirs: SpoolDirs, mount: Mount | None) -> EventReport:
        """Returns the events in ``new`` and ``cur`` since the last look; the first look begins to listen."""
        if not self._options.watch:
            return EventReport(reason="nobody asked for events")
        if mount is not None and sends_no_events(mount):
            return EventReport(reason=f"{mount.fs_type} sends no events")
        if self._watcher is None:
            there = {path: box for box, (path, _) in self._spool.boxes(dirs).items() if box is not Box.TMP}
            if not there:
                return EventReport(reason="there is no box to watch")
            self._watcher = Watcher(there, self._waiter.changed, self._world)
        return self._watcher.take()

    def _stop_listening(self) -> None:
        """The next look begins anew, in the directories that have these names then."""
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None

    def _watch(self, report: EventReport, mount: Mount | None) -> Watch:
        """Describes how changes are noticed: by events, or by a listing from time to time."""
        if not self._options.watch:
            return Watch("once", "", None, self._since)
        why = report.reason or ("overlay" if changes_unseen(mount) else "")
        return Watch("scan" if report.reason else "live", why, self._boxes.period if why else None, self._since)

    def _opened(self) -> SpoolDirs:
        if self._spool.dirs is None:
            raise Unreadable("the spool cannot be opened", path=self.path)
        return self._spool.dirs

    def _capabilities(self, dirs: SpoolDirs, cursors: tuple[CursorSource, ...]) -> Capabilities:
        """Returns what an operator of this spool would allow."""
        if self._options.read_only is not None:
            return Capabilities.nothing(self._options.read_only)
        try:
            return can_change(dirs).replaced(self._why_not_set(cursors, self._spool.folders(dirs)), Action.SET_CURSOR)
        except OSError as problem:  # the spool was removed meanwhile: the next look says so
            return Capabilities.nothing(str(problem.strerror))

    def _unseen(self, now: float, problem: OSError) -> Observation:
        """Returns an observation without content: the directory itself is gone or closed to this user."""
        why = f"{self.path} is missing" if isinstance(problem, FileNotFoundError) else str(problem.strerror)
        self._scans, self._judged, self._state = {}, JudgedRows(), ()
        self._generation += 1
        self._judge.boot_clock.look()  # nothing is judged here, which would
        capabilities = Capabilities.nothing(why)
        return Observation(
            self.path, self._options.layout, now, False,
            {box: BoxState(box, None, False, error=why, as_of=now) for box in LIVE},
            judged_all=False, who=who_am_i(capabilities, read_only=why), capabilities=capabilities, disk=Disk(),
            watch=Watch("scan", why, self._options.least, self._since), generation=self._generation,
            clock_jumped=self._judge.boot_clock.jumped,
        )  # fmt: skip


def _locks_in(scan: BoxScan) -> tuple[str, ...]:
    return scan.once("locks", lambda: message_locks("/".join(piece) for _, piece in pieces(scan.names)))


# A folder without boxes that still has something to watch: a ``cursors.json`` alone, or a directory of tickets or lock files. It
# has cursors and locks, no messages and nothing to change; the same views show it.

_PERIOD = 1.0
"""Seconds between two looks: a stat of a few files each."""


class StandaloneReader(_FolderReader):
    """Implements ``model.backend.Reader`` for a target of layout "cursors", "tickets" or "locks"."""

    def __init__(self, path: str, options: OpenOptions, world: System, *, writers: WriterWatch | None) -> None:
        super().__init__(path, options, world, writers=writers)
        self._layout = options.layout
        self._root = world.files.open_dir(path, follow=True)
        try:
            self._above = world.files.open_dir("..", self._root)
        except OSError:
            os.close(self._root)
            raise
        self._folders = [(path, self._root)]
        self._in_full = [(os.path.normpath(path), self._root), (os.path.normpath(os.path.join(path, "..")), self._above)]

    def see(self, *, rescan: bool = False) -> Observation:
        folders = self._folders
        if self._layout == "tickets":  # the lock that the tickets queue for stands beside their directory
            folders = [*folders, self._in_full[1]]
        locks = self._lock_files.look(folders, self._world.lock_table, {})
        cursors = self._cursor_files.look(self._folders, self._lock_holders) if self._layout == "cursors" else ()
        capabilities = self._can(cursors, locks)
        now = self._world.clock()
        locks_had, locks_given_up = self._locks_used(self._folders)
        return Observation(
            target=self.path,
            layout=self._layout,
            taken_at=now,
            complete=not any(one.left_out for one in cursors),
            boxes={box: BoxState(box, count=None, error=f"{self._layout} alone", as_of=now) for box in LIVE},
            disk=disk_of(self._root, mount_of(self._root)),
            cursors=cursors,
            locks=locks,
            locks_had=locks_had,
            locks_given_up=locks_given_up,
            who=who_am_i(capabilities, read_only=self._options.read_only, layout=self._layout),
            capabilities=capabilities,
            watch=Watch("scan", "", _PERIOD, self._since),
            writers_watched=self._writers is not None,
        )

    def _can(self, cursors: tuple[CursorSource, ...], locks: Sequence[Lock]) -> Capabilities:
        """Returns the capabilities for a directory without messages: cursors can be set and stale locks removed, nothing else."""
        if self._options.read_only is not None:
            return Capabilities.nothing(self._options.read_only)
        none = Capabilities.nothing(f"{self._layout} alone: there are no messages here")
        if self._layout != "cursors":
            return none.replaced(self._closed(locks), Action.UNLOCK, Action.UNDO)
        why = self._why_not_set(cursors, self._folders)
        return none.replaced(None, Action.UNLOCK).replaced(why, Action.SET_CURSOR, Action.UNDO)

    def _closed(self, locks: Sequence[Lock]) -> str | None:
        """Returns why this user can neither remove a lock nor put one back; None where a lock may be in a directory that is open.
        Each lock is checked again, on its own."""
        path, own = self._in_full[0][0], folder_closed(self._root, "the directory", self.path)
        if own is None or all(path in (os.path.normpath(lock.path), os.path.dirname(lock.path)) for lock in locks):
            return own
        return None if folder_closed(self._above, "the directory above", self.path) is None else own

    def listing(
        self, query: ListQuery, cancelled: Stop = lambda: False, progress: ListProgress | None = None
    ) -> Listing:
        return RowListing(query, (), now=0.0, complete=True, generation=0)

    def read(self, key: Key, limit: int) -> Payload:
        raise Unreadable("there are no messages here", path=self.path)

    def follow(self, ids: Sequence[str], since: float) -> Mapping[str, TrackedMessage]:
        return {}

    def consumers(self) -> ConsumerList:
        return ConsumerList()

    def holders(self, key: Key) -> Holders:
        return self._holders(str(key), [*self._folders, *self._in_full])

    def current_step(self) -> str:
        return f"reading {self.path}"

    def changes(self, timeout: float) -> bool:
        return self._waiter.wait(min(timeout, _PERIOD))

    def close(self) -> None:
        super().close()
        os.close(self._root)
        os.close(self._above)

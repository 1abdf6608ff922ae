"""Looks at one spool directory: opens it, takes the change events, scans the boxes, judges, and assembles an ``Observation``.

It writes nothing. A change event is a reason to look; the scan is the truth. What cannot be seen is named in the observation.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from spooltop.engine import counters
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.pausing import PAUSED, pause_of
from spooltop.errors import Unreadable
from spooltop.model.backend import Capabilities
from spooltop.model.cursors import CursorSource
from spooltop.model.look.consumers import ConsumerList
from spooltop.model.look.locks import Holders, Lock, LockHolder
from spooltop.model.look.observation import BoxState, Disk, Observation, Pause, Watch
from spooltop.model.operations.plan import Progress
from spooltop.model.operations.results import TrackedMessage
from spooltop.model.protocols import Listing, ListProgress, ListQuery
from spooltop.model.row import Payload, Row
from spooltop.model.vocabulary import ASIDE, LIVE, Action, Box, Key, Verdict

from .cursors.files import CursorFiles, cursor_rights, named_folders
from .detect import with_layout
from .events.flow import FlowMeter
from .events.tracker import MessageTracker
from .events.watcher import ChangeWaiter, EventListener, Source
from .liveness.claim_liveness import ConsumerGatherer
from .locks.lock_files import LockFiles, LockTableCache, message_locks
from .operator.rules import can_change
from .row_judge import JudgedRows, RowJudge
from .scan.boxes import AgeCounter, Boxes, count_verdicts, irregular_rows
from .scan.scan import BoxScan
from .scan.set_aside import SetAsideBoxes
from .storage.disk import Mount, changes_unseen, disk_of, who_am_i
from .storage.location import Pin, pinned
from .storage.open_spool import OpenSpool
from .storage.rows import mail_row, new_row, tried_of
from .world import OpenOptions, System

if TYPE_CHECKING:
    from .cursors.watcher import CursorWatcher, WriterWatch
    from .listing import NameListing, Order


# Reads the files beside the boxes: the lock files and the cursors of a spool, its pause, and the counters of the engine.

LOCKS_FOR = 300.0
"""Seconds for which the uses of the engine's own locks are counted."""


class PauseReader:
    """Reads the pause; its file only if that has changed since the last look."""

    def __init__(self) -> None:
        self._seen: tuple[Pin, Pause | None] | None = None

    def look(self, dirs: SpoolDirs) -> Pause | None:
        """Returns the pause; None if the spool is not paused, or if that is not visible."""
        try:
            own = dirs.private_dir()
            if own is None:
                return None
            pin = pinned(dirs.files.stat(PAUSED, own))
            if self._seen is None or self._seen[0] != pin:
                self._seen = pin, pause_of(dirs, own)
            return self._seen[1]
        except OSError:
            return None


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
        world: System,
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
            from .liveness.users import who_has_path  # asked for one file at a time, never by a look

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
        lines = {line for one in files for line in table.of(one) if not line.waits}
        return tuple(LockHolder(line.pid if line.pid > 0 else None, since=self._world.clock()) for line in lines)


# Lists of the boxes and single messages, from what the last look found. The modules that make lists are loaded with the first
# list: a status has none.

class LookResult(Struct, frozen=True):
    """Result of one look, as far as lists depend on it. ``others`` are values that change with the lists of the set-aside boxes.
    ``generation`` changes when a list may have changed."""

    scans: Mapping[Box, BoxScan] = field(default_factory=dict)
    judged: JudgedRows = field(default_factory=JudgedRows)
    irregular: tuple[Row, ...] = ()
    others: tuple[object, ...] = ()
    generation: int = 0

    @property
    def state(self) -> tuple[object, ...]:
        """Values that are equal in two looks if all their lists are."""
        return [scan.number for scan in self.scans.values()], self.judged.claims, self.judged.tmp, self.others


class BoxLists:
    """Makes lists from the last look. The order of a box is kept until its next scan."""

    def __init__(self, spool: OpenSpool, boxes: Boxes, set_aside: SetAsideBoxes, world: System, *, mail: bool) -> None:
        self._spool = spool
        self._boxes = boxes
        self._set_aside = set_aside
        self._clock = world.clock
        self._by_name = {Box.NEW: new_row, Box.CUR: mail_row} if mail else {Box.NEW: new_row}
        """Boxes that are listed by name alone, because nothing in them is judged."""
        self._orders: dict[Box, tuple[int, str, Order]] = {}
        self.last = LookResult()

    def update(self, look: LookResult) -> None:
        """Makes ``look`` the last look, with the generation that follows from the look before."""
        self.last = replace(look, generation=self.last.generation + (look.state != self.last.state))

    def clear(self) -> None:
        """Forgets the last look: nothing can be seen now."""
        self.last = LookResult(generation=self.last.generation + 1)

    def listing(self, query: ListQuery, cancelled: Callable[[], bool], progress: ListProgress | None) -> Listing:
        """Lists one box as the last look saw it. The list is empty and not complete if it did not see the box."""
        last, box = self.last, query.box
        rows: list[Row] = []
        complete = False
        if (scan := last.scans.get(box)) is not None and box in self._by_name:
            return self._names(query, scan, cancelled, progress)
        if scan is not None:
            judged, complete = (
                (last.judged.claims, last.judged.all_claims) if box is Box.CUR else (last.judged.tmp, last.judged.all_tmp)
            )
            known = {row.key for row in judged} if last.irregular else set()
            rows = [*judged, *(row for row in last.irregular if row.box is box and row.key not in known)]
            complete = complete and scan.complete
        elif box in ASIDE and self._spool.dirs is not None:
            rows, complete = self._set_aside.rows(self._spool.dirs, box, cancelled)
        from ..row_listing import RowListing

        return RowListing(query, rows, now=self._clock(), complete=complete, generation=last.generation)

    def _names(
        self, query: ListQuery, scan: BoxScan, cancelled: Callable[[], bool], progress: ListProgress | None
    ) -> NameListing:
        from .listing import NamedBox, NameListing

        box, column = query.box, query.sort.column
        named = NamedBox(
            scan.names, partial(self._spool.status, box), dict(self._boxes.times(box)), box, self._by_name[box],
            scan.complete and not scan.error, self.last.generation,
        )  # fmt: skip
        before = self._orders.get(box)
        known = before[2] if before is not None and before[:2] == (scan.number, column) else None
        listing = NameListing(query, named, now=self._clock(), cancelled=cancelled, known=known, progress=progress)
        if listing.order is not None:
            self._orders[box] = (scan.number, column, listing.order)
        return listing

    def read(self, key: Key, limit: int) -> Payload:
        """Returns the first ``limit`` bytes of a message, and the facts about it. Raises ``Unreadable``."""
        dirs = self._spool.dirs
        if dirs is None:
            raise Unreadable("the spool cannot be opened", path=self._spool.path)
        from .message import read_message, split_key

        box, operation, name = split_key(key)
        row = self._set_aside.row(dirs, box, operation, name) if box in ASIDE else self.last.judged.find(box, key)
        return read_message(dirs, key, limit, row, self.last.judged.sentences)


_GLANCE = 1.75
"""Seconds of a longer wait after which the directories are asked whether they changed: ``tmp`` and those below ``.spooltop`` send
no events."""


class DirectoryReader:
    """Implements ``model.protocols.Reader`` for a directory with ``tmp``, ``new`` and ``cur``.

    ``writers`` reports who writes the cursors and is closed with the reader. Opening raises ``UsageError`` for an invalid value
    of ``pids``, else nothing: the first ``Observation`` says what is wrong with the spool.
    """

    def __init__(
        self,
        path: str,
        options: OpenOptions | None = None,
        world: System | None = None,
        *,
        source: Source | None = None,
        writers: WriterWatch | None = None,
    ) -> None:
        self.path = os.path.abspath(path)
        self._world = world = world or System()
        self._options = options = with_layout(path, options or OpenOptions())
        self._layout = options.layout or "spool"
        self._waiter = ChangeWaiter(world)
        self._spool = OpenSpool(self.path, world)
        self._events = EventListener(self.path, self._waiter.changed, world, wanted=options.watch, source=source)
        self._boxes = Boxes(world, options.least)
        table = LockTableCache(world)
        self._judge = RowJudge(world, options, table)
        self._set_aside = SetAsideBoxes(options.retention)
        self._flow = FlowMeter(self._set_aside, partial(self._spool.has, Box.NEW))
        self._tracker = MessageTracker(self._spool.has, self._set_aside)
        self._side_files = SideFiles(self._spool, world, options, table, writers=writers, changed=self._waiter.changed)
        self._ages = AgeCounter()
        self._lists = BoxLists(self._spool, self._boxes, self._set_aside, world, mail=self._layout == "mail")
        self._consumers: ConsumerGatherer | None = None
        self._since = self._taken_at = 0.0
        self._stamps: tuple[int, ...] = ()
        self._step = ""

    def see(self, *, rescan: bool = False, progress: Progress | None = None) -> Observation:
        """Implements ``model.protocols.Reader``. If ``progress`` is given, it raises ``Stopped`` between two steps, and the next
        look finds everything as if this one had not been made."""
        now = self._taken_at = self._world.clock()
        self._since = self._since or now
        self._judge.check_clock()
        self._step = "opening the directory"
        try:
            dirs, reopened = self._spool.open()
        except OSError as problem:
            return self._unseen(now, problem)
        if reopened:
            self._events.close()  # it listens in directories that no longer have these names
        mount = self._spool.mount(dirs)
        report = self._events.take(dirs, mount)
        taken_at = self._world.clock()  # the events until then are counted, however long the look takes
        self._tracker.add_events(report.batches)
        self._stamps = self._boxes.stamps(dirs)
        scans = self._boxes.scan(dirs, force=rescan or reopened or report.restarted, unseen=changes_unseen(mount))
        self._step = "judging who holds what"
        judged = self._judge.look(dirs, mount, scans, progress or Progress())
        duplicates = self._boxes.duplicates(dirs, scans[Box.NEW])
        irregular = irregular_rows(dirs, scans[Box.NEW], judged.irregular, duplicates)
        self._step = "listing what is set aside"
        set_aside = self._set_aside.look(dirs, now)
        self._step = "looking at cursors and locks"
        starting = self._events.starting(report)
        self._flow.read_operator_moves(dirs)
        flow = self._flow.look(
            taken_at, report, scans[Box.NEW], scans[Box.CUR], judged.claims, starting=starting, exact=not reopened
        )
        cursors = self._side_files.cursors(dirs)
        capabilities = self._capabilities(dirs, cursors)
        mail = self._layout == "mail"
        boxes = self._judge.box_states(scans, judged) | set_aside
        errors = tuple(box.error for box in set_aside.values())
        self._lists.update(LookResult(scans, judged, irregular, (self._set_aside.generation, duplicates, errors)))
        self._waiter.set_due(self._boxes.due, within=self._options.least * 5 if self._flow.unsettled else None)
        counted = self._side_files.counted(dirs)
        return Observation(
            target=self.path,
            layout=self._layout,
            taken_at=now,
            complete=all(state.complete and not state.error for state in boxes.values())
            and not any(one.left_out for one in cursors),
            boxes=boxes,
            claims=judged.claims,
            tmp=judged.tmp,
            counts=count_verdicts(judged.claims, judged.tmp),
            judged_all=judged.complete,
            tried=() if mail else tried_of(scans[Box.NEW].tried, judged.claims),
            tried_all=scans[Box.NEW].tried_all and judged.all_claims,
            irregular=irregular,
            conflicts=duplicates.conflicts,
            flow=flow,
            disk=disk_of(dirs.root, mount, dirs),
            cursors=cursors,
            locks=self._side_files.locks(dirs, mount, scans),
            locks_had=counted.locks_had,
            locks_given_up=counted.locks_given_up,
            suppressed=counted.suppressed,
            lock_timeouts=counted.lock_timeouts,
            paused=self._side_files.pause(dirs),
            consumers=self._judge.consumers(dirs, mount, scans),
            last_claim_at=self._flow.last_claim_at,
            ages=None if mail else self._ages.look(scans[Box.NEW], self._boxes.times(Box.NEW), now),
            who=who_am_i(capabilities, read_only=self._options.read_only, dirs=dirs),
            capabilities=capabilities,
            watch=self._events.describe(report, mount, period=self._boxes.period, since=self._since),
            clock_jumped=self._judge.clock_jumped,
            generation=self._lists.last.generation,
            writers_watched=self._side_files.writers_watched,
        )

    def listing(
        self, query: ListQuery, cancelled: Callable[[], bool] = lambda: False, progress: ListProgress | None = None
    ) -> Listing:
        return self._lists.listing(query, cancelled, progress)

    def judge_again(self, box: Box, names: Sequence[str]) -> Mapping[str, tuple[Verdict | None, str]]:
        """Judges ``names`` of ``tmp`` or ``cur`` now, with the help of earlier looks, and looks at nothing else: name →
        (verdict, evidence). Leaves out names that have gone. Raises ``Unreadable``."""
        self._judge.check_clock()
        try:
            dirs, _ = self._spool.open()
            return self._judge.judge_again(dirs, self._spool.mount(dirs), box, names)
        except OSError as problem:
            raise Unreadable(f"{box} cannot be looked at: {problem.strerror}", path=self.path) from problem

    def read(self, key: Key, limit: int) -> Payload:
        return self._lists.read(key, limit)

    def follow(self, ids: Sequence[str], since: float) -> Mapping[str, TrackedMessage]:
        last = self._lists.last
        new = last.scans.get(Box.NEW)
        if new is None or self._spool.dirs is None or self._spool.dirs.new is None:
            return {}
        times = self._boxes.times(Box.NEW)
        current = self._boxes.is_current(Box.NEW, self._spool.dirs.new)
        rows = chain(last.judged.claims, last.judged.tmp)
        return self._tracker.where(ids, since, self._world.clock(), new, rows, times, current=current)

    def consumers(self) -> ConsumerList:
        if self._consumers is None:
            self._consumers = ConsumerGatherer(self._world.processes, self._options.hosts)
        dirs, judged = self._spool.dirs, self._lists.last.judged
        if dirs is None or self._layout == "mail":
            return ConsumerList(taken_at=self._taken_at)
        try:
            certainty = self._judge.certainty(self._spool.mount(dirs))
        except OSError as problem:  # the spool was removed meanwhile: the next look says so
            return ConsumerList(taken_at=self._taken_at, error=str(problem.strerror))
        return self._consumers.gather(dirs, judged.claims, certainty, self._taken_at, complete=judged.all_claims)

    def holders(self, key: Key) -> Holders:
        dirs = self._spool.dirs
        if dirs is None:
            raise Unreadable("the spool cannot be opened", path=self.path)
        if isinstance(key, str):
            return self._side_files.holders(dirs, key)
        from .liveness.users import who_has  # asked for one file at a time, never by a look

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

    def wake(self) -> None:
        self._waiter.wake()

    def close(self) -> None:
        self._events.close()
        self._side_files.close()
        self._spool.close()

    def _capabilities(self, dirs: SpoolDirs, cursors: tuple[CursorSource, ...]) -> Capabilities:
        """Returns what an operator of this spool would allow."""
        if self._options.read_only is not None:
            return Capabilities.nothing(self._options.read_only)
        try:
            return can_change(dirs).replaced(Action.SET_CURSOR, self._side_files.why_not_set(dirs, cursors))
        except OSError as problem:  # the spool was removed meanwhile: the next look says so
            return Capabilities.nothing(str(problem.strerror))

    def _unseen(self, now: float, problem: OSError) -> Observation:
        """Returns an observation without content: the directory itself is gone or closed to this user."""
        why = f"{self.path} is missing" if isinstance(problem, FileNotFoundError) else str(problem.strerror)
        self._lists.clear()
        capabilities = Capabilities.nothing(why)
        return Observation(
            self.path, self._layout, now, False, {box: BoxState(box, None, False, None, False, None, why, now) for box in LIVE},
            judged_all=False, who=who_am_i(capabilities, read_only=why), capabilities=capabilities, disk=Disk(),
            watch=Watch("scan", why, self._options.least, self._since), generation=self._lists.last.generation,
            clock_jumped=self._judge.clock_jumped,
        )  # fmt: skip

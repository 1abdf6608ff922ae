"""Looks at one spool directory: opens it, takes the change events, scans the boxes, judges, and assembles an ``Observation``.

It writes nothing. A change event is a reason to look; the scan is the truth. What cannot be seen is named in the observation.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from spooltop.engine.dirs import SpoolDirs
from spooltop.errors import Unreadable
from spooltop.model.capabilities import Capabilities
from spooltop.model.cursors import CursorSource
from spooltop.model.look.observation import BoxState, Disk, Observation, Watch
from spooltop.model.operations.plan import Progress
from spooltop.model.vocabulary import LIVE, Action, Box, Key, Verdict

from .box_lists import BoxLists, LookResult
from .detect import with_layout
from .events.change_waiter import ChangeWaiter
from .events.flow_meter import FlowMeter
from .events.listener import EventListener
from .events.tracker import MessageTracker
from .locks.lock_files import LockTableCache
from .operator.permission import can_change
from .options import OpenOptions
from .row_judge import RowJudge
from .scan.age_histogram import AgeCounter
from .scan.box_states import count_verdicts
from .scan.boxes import Boxes, irregular_rows
from .scan.set_aside import SetAsideBoxes
from .side_files import SideFiles
from .storage.disk import disk_of, who_am_i
from .storage.filesystem import changes_unseen
from .storage.open_spool import OpenSpool
from .storage.rows import tried_of
from .world import World

if TYPE_CHECKING:
    from spooltop.model.look.consumers import ConsumerList
    from spooltop.model.look.locks import Holders
    from spooltop.model.operations.results import TrackedMessage
    from spooltop.model.protocols import Listing, ListProgress, ListQuery
    from spooltop.model.row import Payload

    from .cursors.writers import WriterWatch
    from .events.watcher import Source
    from .liveness.consumers import ConsumerGatherer

__all__ = ["DirectoryReader"]

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
        world: World | None = None,
        *,
        source: Source | None = None,
        writers: WriterWatch | None = None,
    ) -> None:
        self.path = os.path.abspath(path)
        self._world = world = world or World()
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
        from spooltop.model.look.consumers import ConsumerList

        if self._consumers is None:
            from .liveness.consumers import ConsumerGatherer  # used while somebody looks at them, never by a look

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
        from .liveness.users_of import who_has  # asked for one file at a time, never by a look

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

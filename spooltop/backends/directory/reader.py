"""Looks at one spool directory: what is where, whose it is, what came and went. Writes nothing.

A change event is a reason to look, the scan is the truth, and what cannot be seen is said in the ``Observation``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from spooltop.engine import names, presence
from spooltop.engine.dirs import SpoolDirs
from spooltop.errors import Unreadable
from spooltop.model.capabilities import Capabilities
from spooltop.model.cursors import CursorSource
from spooltop.model.locks import Holders
from spooltop.model.observation import BoxState, Disk, Observation, Watch
from spooltop.model.progress import Progress
from spooltop.model.protocols import Listing, ListProgress, ListQuery
from spooltop.model.row import Payload, Row
from spooltop.model.tracked import TrackedMessage
from spooltop.model.vocabulary import ASIDE, LIVE, Action, Box, Key, Verdict

from .cursors.files import cursor_rights
from .cursors.writers import WriterWatch
from .detect import with_layout
from .events.listener import Ear
from .events.tracker import Follower
from .events.traffic import Traffic
from .events.watcher import Source, kernel_source
from .listing.listing import NameListing, RowListing, new_row
from .listing.message import read_message, split_key
from .listing.order import Order
from .liveness.claim_liveness import Owners
from .liveness.pid_liveness import BootClock, Certainty, check_pids
from .liveness.tmp_liveness import TmpFiles
from .liveness.users_of import who_has, who_has_path
from .operator.chain import combined_capabilities
from .operator.permission import can_change
from .options import OpenOptions
from .scan.age_histogram import AgeCounter
from .scan.box_states import count_verdicts, state_of_cur, state_of_new, state_of_tmp
from .scan.boxes import Boxes, DuplicateIds
from .scan.scan import BoxScan, generation_of, quick_enqueued_us
from .scan.set_aside import Asides
from .side_files import Beside
from .storage.disk import disk_of, who_am_i
from .storage.filesystem import Mount, changes_unseen, is_local
from .storage.open_spool import OpenSpool
from .storage.rows import claim_row, tried_of
from .world import World

__all__ = ["DirectoryReader"]


class DirectoryReader:
    """A ``model.kind.Reader`` for a directory with ``tmp``, ``new`` and ``cur``.

    ``writers`` reports who writes the cursors and is closed with the reader. Opening raises ``UsageError`` for an invalid value
    of ``pids``, else nothing: the first ``Observation`` says what is wrong with the spool.
    """

    def __init__(
        self,
        path: str,
        options: OpenOptions | None = None,
        world: World | None = None,
        *,
        source: Source = kernel_source,
        writers: WriterWatch | None = None,
    ) -> None:
        self.path = self._path = os.path.abspath(path)
        world = world or World()
        options = with_layout(path, options or OpenOptions())
        self._layout, self._read_only = options.layout or "spool", options.read_only
        self._processes = world.processes
        self._clock = world.clock
        self._monotonic = world.monotonic
        self._least = options.least
        self._changed = threading.Event()
        self._place = OpenSpool(self._path, world)
        self._ear = Ear(self._path, self._changed, world, wanted=options.watch, source=source)
        self._began = 0.0
        self._due: float | None = None
        self._boot_clock = BootClock(self._processes)
        self._boxes = Boxes(world, options.least)
        self._ages = AgeCounter()
        self._owners = Owners(self._processes, self._boot_clock, at_most=options.judged_at_most, hosts=options.hosts)
        self._pids_here = check_pids(options.pids)
        self._tmp_files = TmpFiles(self._processes, at_most=options.judged_at_most)
        self._asides = Asides(options.retention)
        self._traffic = Traffic(self._asides, self._in_new)
        self._follower = Follower(lambda box, raw: self._stat(box)(raw) is not None, self._asides)
        self._beside = Beside(
            self._place, world, writers=writers, named=options.cursor_files, changed=self._changed if options.watch else None
        )
        self._writers = writers
        self._scans: dict[Box, BoxScan] = {}
        self._orders: dict[Box, tuple[int, str, Order]] = {}
        self._claims: list[Row] = []
        self._tmp: list[Row] = []
        self._strange: tuple[Row, ...] = ()
        self._all_claims = self._all_tmp = True
        self._consumers: tuple[float, int | None] | None = None
        self._generation = 0
        self._state: object = None
        self._doing = ""

    def see(self, *, rescan: bool = False, progress: Progress | None = None) -> Observation:
        """Implements ``model.protocols.Reader``. If ``progress`` is given, it raises ``Stopped`` between two steps, and the next
        look finds everything as if this one had not been made."""
        progress = progress or Progress()
        now = self._clock()
        self._began = self._began or now
        self._boot_clock.look()
        self._doing = "opening the directory"
        try:
            dirs, reopened = self._place.open()
        except OSError as problem:
            return self._blind(now, problem)
        if reopened:
            self._ear.close()  # it hears nothing of the directories that have these names now
        mount = self._place.mount(dirs)
        heard = self._ear.heard(dirs, mount)
        heard_at = self._clock()  # what came until then is counted, however long it took to get here
        self._follower.hear(heard.batches)
        unseen = changes_unseen(mount)
        scans = self._boxes.scan(dirs, force=rescan or reopened or heard.restarted, unseen=unseen)
        self._scans = scans
        sure = self._certainty(mount)
        self._doing = "telling who holds what"
        self._judge(dirs, scans, sure, mount, progress)
        doubles = self._boxes.doubles(dirs, scans[Box.NEW])
        self._doing = "listing what is set aside"
        asides = self._asides.look(dirs, now)
        self._doing = "looking at cursors and locks"
        beginning = self._ear.beginning(heard)
        self._traffic.follow_operators(dirs)
        flow = self._traffic.look(
            heard_at, heard, scans[Box.NEW], scans[Box.CUR], self._claims, beginning=beginning, exact=not reopened
        )  # fmt: skip
        disk = disk_of(dirs.root, mount, dirs)
        cursors = self._beside.cursors(dirs)
        capabilities = self._can(dirs, cursors)
        claims = None if self._layout == "mail" else self._claims
        boxes = {
            Box.TMP: state_of_tmp(scans[Box.TMP], self._tmp, whole=self._all_tmp),
            Box.NEW: state_of_new(scans[Box.NEW]),
            Box.CUR: state_of_cur(scans[Box.CUR], claims, whole=self._all_claims),
            **asides,
        }
        irregular = self._irregular_rows(dirs, scans, doubles)
        self._settle(scans, asides, doubles)
        consumers = self._living(dirs, sure)
        locks_had, locks_given_up = self._beside.locks_used(dirs)
        return Observation(
            target=self._path,
            layout=self._layout,
            taken_at=now,
            complete=all(state.complete and not state.error for state in boxes.values())
            and not any(one.left_out for one in cursors),
            boxes=boxes,
            claims=tuple(self._claims),
            tmp=tuple(self._tmp),
            counts=count_verdicts(self._claims, self._tmp),
            judged_all=self._all_claims and self._all_tmp,
            tried=() if self._layout == "mail" else tried_of(scans[Box.NEW].tried, self._claims),
            tried_all=scans[Box.NEW].tried_all and self._all_claims,
            irregular=irregular,
            conflicts=doubles.conflicts,
            flow=flow,
            disk=disk,
            cursors=cursors,
            locks=self._beside.locks(dirs, mount, scans),
            locks_had=locks_had,
            locks_given_up=locks_given_up,
            suppressed=self._beside.suppressed(dirs),
            consumers=consumers,
            last_claim_at=self._traffic.last_claim_at,
            ages=None if self._layout == "mail" else self._ages.look(scans[Box.NEW], self._boxes.times(Box.NEW), now),
            who=who_am_i(capabilities, read_only=self._read_only, dirs=dirs),
            capabilities=capabilities,
            watch=self._ear.how(heard, mount, period=self._boxes.period, since=self._began),
            clock_jumped=self._boot_clock.jumped,
            generation=self._generation,
            writers_watched=self._writers is not None,
        )

    def listing(
        self, query: ListQuery, cancelled: Callable[[], bool] = lambda: False, progress: ListProgress | None = None
    ) -> Listing:
        now = self._clock()
        scan = self._scans.get(query.box)
        if scan is None and query.box in LIVE:
            return RowListing(query, [], now=now, complete=False, generation=self._generation)
        if query.box is Box.NEW or (query.box is Box.CUR and self._layout == "mail"):
            assert scan is not None
            column = query.sort.column
            before = self._orders.get(query.box)
            listing = NameListing(
                query, scan.names, self._stat(query.box), now=now, complete=scan.complete and not scan.error,
                generation=self._generation, enqueued_us=quick_enqueued_us, times=dict(self._boxes.times(query.box)),
                cancelled=cancelled,
                known=before[2] if before is not None and before[:2] == (scan.number, column) else None, box=query.box,
                row=new_row if query.box is Box.NEW else _mail_row, progress=progress,
            )  # fmt: skip
            if listing.order is not None:
                self._orders[query.box] = (scan.number, column, listing.order)
            return listing
        if query.box in LIVE:
            assert scan is not None
            judged = self._claims if query.box is Box.CUR else self._tmp
            known = {row.key for row in judged} if self._strange else set()
            rows = judged + [row for row in self._strange if row.box is query.box and row.key not in known]
            complete = scan.complete and (self._all_claims if query.box is Box.CUR else self._all_tmp)
            return RowListing(query, rows, now=now, complete=complete, generation=self._generation)
        if self._place.dirs is None:
            return RowListing(query, [], now=now, complete=False, generation=self._generation)
        rows, complete = self._asides.rows(self._place.dirs, query.box, cancelled)
        return RowListing(query, rows, now=now, complete=complete, generation=self._generation)

    def again(self, box: Box, names: Sequence[str]) -> Mapping[str, tuple[Verdict | None, str]]:
        """Judges ``names`` of ``tmp`` or ``cur`` now, with what the looks before have seen, and looks at nothing else: name →
        (verdict, evidence). What has gone is left out. Raises ``Unreadable``."""
        self._boot_clock.look()
        try:
            dirs, _ = self._place.open()
            mount = self._place.mount(dirs)
            sure = self._certainty(mount)
            if box is Box.CUR:
                return self._owners.again(dirs, names, sure)
            device = mount.device if mount is not None else None
            return self._tmp_files.again(dirs.tmp, names, sure, self._beside.table, device)
        except OSError as problem:
            raise Unreadable(f"{box} cannot be looked at: {problem.strerror}", path=self._path) from problem

    def read(self, key: Key, limit: int) -> Payload:
        if self._place.dirs is None:
            raise Unreadable("the spool cannot be opened", path=self._path)
        box, operation, name = split_key(key)
        row: Row | None = None
        if box in (Box.CUR, Box.TMP):
            row = next((row for row in (self._claims if box is Box.CUR else self._tmp) if row.key == key), None)
        elif box in ASIDE:
            row = self._asides.row(self._place.dirs, box, operation, name)
        return read_message(self._place.dirs, key, limit, row, lambda token: self._owners.sentences.get(token, ""))

    def follow(self, ids: Sequence[str], since: float) -> Mapping[str, TrackedMessage]:
        new, dirs = self._scans.get(Box.NEW), self._place.dirs
        if new is None or dirs is None or dirs.new is None:
            return {}
        try:
            current = generation_of(dirs.new) == new.generation
        except OSError:
            current = False
        times = self._boxes.times(Box.NEW)
        return self._follower.where(ids, since, self._clock(), new, self._claims, times, current=current)

    def holders(self, key: Key) -> Holders:
        dirs = self._place.dirs
        if dirs is None:
            raise Unreadable("the spool cannot be opened", path=self._path)
        if isinstance(key, str):
            with self._beside.folders(dirs) as folders:
                known = [*folders, *self._place.folders(dirs), *self._place.boxes(dirs).values()]
                return who_has_path(key, known, self._processes)
        return who_has(dirs, key, self._processes)

    @property
    def last_claim_at(self) -> float | None:
        """Time of the last claim that was observed, epoch seconds. May be called from any thread."""
        return self._traffic.last_claim_at

    def current_step(self) -> str:
        return self._boxes.doing or self._doing

    def changes(self, timeout: float) -> bool:
        due = self._due
        wait = timeout if due is None else max(0.0, min(timeout, due - self._monotonic()))
        heard = self._changed.wait(wait)
        self._changed.clear()
        return heard or (due is not None and self._monotonic() >= due)

    def wake(self) -> None:
        self._changed.set()

    def close(self) -> None:
        self._ear.close()
        self._beside.close()
        if self._writers is not None:
            self._writers.close()
        self._place.close()

    def _can(self, dirs: SpoolDirs, cursors: tuple[CursorSource, ...]) -> Capabilities:
        """Exactly what an operator of this spool would allow."""
        if self._read_only is not None:
            return Capabilities.nothing(self._read_only)
        try:
            with self._beside.folders(dirs) as folders:
                why = cursor_rights(cursors, folders)
            cursors_can = Capabilities() if why is None else Capabilities({Action.SET_CURSOR: why})
            return combined_capabilities(can_change(dirs), cursors_can)
        except OSError as problem:  # it was taken away while we asked: the next look says so
            return Capabilities.nothing(str(problem.strerror))

    def _certainty(self, mount: Mount | None) -> Certainty:
        return Certainty(is_local(mount), self._processes.in_first_namespace(), self._pids_here)

    def _judge(
        self, dirs: SpoolDirs, scans: dict[Box, BoxScan], sure: Certainty, mount: Mount | None, progress: Progress
    ) -> None:
        cur, tmp = scans[Box.CUR], scans[Box.TMP]
        if self._layout == "mail":
            self._claims, self._all_claims = [], True
        else:
            self._claims, self._all_claims = self._owners.look(dirs, cur.names, len(cur.names), cur.number, sure, progress)
        device = mount.device if mount is not None else None
        self._tmp, self._all_tmp = self._tmp_files.look(
            dirs.tmp, tmp.names, len(tmp.names), sure, self._beside.table, device, progress
        )

    def _living(self, dirs: SpoolDirs, sure: Certainty) -> int | None:
        if self._layout == "mail" or self._scans[Box.CUR].error:
            return None  # where claims cannot be seen nobody can tell who works
        at = self._monotonic()
        if self._consumers is None or at - self._consumers[0] >= 1.0:
            alive = self._owners.alive(dirs, sure)
            if alive is None and self._never_claimed(dirs):
                alive = 0
            self._consumers = (at, alive)
        return self._consumers[1]

    def _never_claimed(self, dirs: SpoolDirs) -> bool:
        """True where messages of our own wait and no consumer of our own was ever there."""
        oldest = self._scans[Box.NEW].oldest_name
        try:
            return oldest is not None and names.parse(oldest, claimed=False).own and dirs.private_dir(presence.CONSUMERS) is None
        except OSError:
            return False

    def _irregular_rows(self, dirs: SpoolDirs, scans: dict[Box, BoxScan], doubles: DuplicateIds) -> tuple[Row, ...]:
        rows: list[Row] = []
        if dirs.new is not None:
            look = self._stat(Box.NEW)
            rows += [new_row(raw, found) for raw in scans[Box.NEW].irregular if (found := look(raw)) is not None]
        if self._layout != "mail":
            rows += [*self._owners.irregular, *(row for row in self._claims if row.note)]
        rows += [*self._tmp_files.irregular, *(row for row in self._tmp if row.note)]
        by_key = {row.key: row for row in rows}
        by_key.update((row.key, row) for row in doubles.linked)
        self._strange = tuple(by_key.values())
        return self._strange

    def _settle(self, scans: dict[Box, BoxScan], asides: dict[Box, BoxState], doubles: DuplicateIds) -> None:
        """Notes whether a list may differ from the look before, and when the next look is due."""
        state = (
            tuple(scan.number for scan in scans.values()), self._claims, self._tmp, self._asides.generation, doubles,
            tuple(box.error for box in asides.values()),
        )  # fmt: skip
        if state != self._state:
            self._generation += 1
            self._state = state
        due = self._boxes.due
        if self._traffic.unsettled:
            soon = self._monotonic() + self._least * 5
            due = soon if due is None else min(due, soon)
        self._due = due

    def _stat(self, box: Box) -> Callable[[str], os.stat_result | None]:
        def look(raw: str) -> os.stat_result | None:
            dirs = self._place.dirs
            fd = None if dirs is None else dirs.new if box is Box.NEW else dirs.cur
            if fd is None:
                return None
            try:
                return os.stat(raw, dir_fd=fd, follow_symlinks=False)
            except OSError:
                return None

        return look

    def _in_new(self, raw: str) -> bool:
        return self._stat(Box.NEW)(raw) is not None

    def _blind(self, now: float, problem: OSError) -> Observation:
        """Returns an observation of nothing: the directory itself is gone or closed to this user."""
        why = f"{self._path} is missing" if isinstance(problem, FileNotFoundError) else str(problem.strerror)
        boxes = {box: BoxState(box, None, False, None, False, None, why, now) for box in LIVE}
        self._scans, self._claims, self._tmp, self._strange = {}, [], [], ()
        self._state = None
        self._generation += 1
        capabilities = Capabilities.nothing(why)
        return Observation(
            self._path, self._layout, now, False, boxes, judged_all=False, who=who_am_i(capabilities, read_only=why),
            capabilities=capabilities, disk=Disk(),
            watch=Watch("scan", why, self._least, self._began), generation=self._generation, clock_jumped=self._boot_clock.jumped,
        )  # fmt: skip


def _mail_row(raw: str, found: os.stat_result | None) -> Row:
    return replace(claim_row(names.parse(raw, claimed=True), found), since_is_bound=True)

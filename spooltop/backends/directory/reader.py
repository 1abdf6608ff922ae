"""Looks at one spool directory: what is where, whose it is, what came and went. Writes nothing.

A change event is a reason to look, the scan is the truth, and what cannot be seen is said in the ``Sight``.
"""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from spooltop.engine import names
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.files import Files
from spooltop.errors import SpooltopError, Unreadable
from spooltop.model.can import Can
from spooltop.model.kind import Listing, ListQuery
from spooltop.model.row import Payload, Row
from spooltop.model.sight import BoxState, CursorSource, Disk, Flow, Lock, LockParty, Sight, VerdictCounts, Watch
from spooltop.model.words import ASIDE, LIVE, Box, Key, Verdict

from .asides import Asides
from .boxes import Boxes, Doubles
from .cursorfiles import CursorFiles
from .detail import read_message, split_key
from .detect import identify
from .disk import disk_of, may, who_am_i
from .flow import FlowCounter, difference
from .listing import NameListing, RowListing, new_row
from .locks import LockFiles, LockTable, device_of, read_table
from .mounts import Mount, is_local, mount_of, sends_no_events
from .owners import Clockwork, Owners, Sureness, claim_row
from .processes import Processes
from .scan import BoxScan, quick_put_us
from .tmpfiles import TmpFiles
from .watch import Heard, Source, Watcher, watchfiles_source

__all__ = ["JUDGED_AT_MOST", "DirectoryReader"]

JUDGED_AT_MOST = 20_000
_COMPARED_AT_MOST = 100_000
_MOUNT_FOR = 5.0
_ASIDE_ROWS_AT_MOST = 20_000
_RESULT_SLICE = 256


class DirectoryReader:
    """A ``model.kind.Reader`` for a directory with ``tmp``, ``new`` and ``cur``.

    ``read_only`` is the reason why nothing may be changed, ``as_spool`` takes a mail folder for a job spool, ``watch`` listens
    for changes. Opening raises nothing: what is wrong with the spool stands in the first ``Sight``.
    """

    def __init__(
        self,
        path: str,
        *,
        watch: bool = True,
        read_only: str | None = None,
        as_spool: bool = False,
        layout: str | None = None,
        files: Files | None = None,
        processes: Processes | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        least: float = 1.0,
        judged_at_most: int = JUDGED_AT_MOST,
        source: Source = watchfiles_source,
    ) -> None:
        self._path = os.path.abspath(path)
        self._shown = path
        self._read_only = read_only
        self._files = files or Files()
        self._processes = processes or Processes()
        self._clock = clock
        self._monotonic = monotonic
        self._least = least
        self._source = source
        self._layout, self._read_only = self._identified(path, as_spool, layout, read_only)
        self._wants_events = watch
        self._changed = threading.Event()
        self._dirs: SpoolDirs | None = None
        self._parent = -1
        self._watcher: Watcher | None = None
        self._began = 0.0
        self._due: float | None = None
        self._clockwork = Clockwork(self._processes)
        self._boxes = Boxes(clock, monotonic, least)
        self._owners = Owners(self._processes, self._clockwork, at_most=judged_at_most)
        self._tmp_files = TmpFiles(self._processes, at_most=judged_at_most)
        self._asides = Asides()
        self._aside_ids: set[str] = set()
        self._aside_ids_of = 0
        self._aside_rows: tuple[int, dict[Key, Row]] = (-1, {})
        self._flow = FlowCounter(self._in_new)
        self._compared: tuple[set[str], set[str]] | None = None
        self._compared_numbers = (-1, -1)
        self._lock_files = LockFiles(self._processes, clock=clock, monotonic=monotonic)
        self._cursor_files = CursorFiles()
        self._table: tuple[float, LockTable] | None = None
        self._mount: tuple[float, Mount | None] | None = None
        self._scans: dict[Box, BoxScan] = {}
        self._claims: list[Row] = []
        self._tmp: list[Row] = []
        self._strange: tuple[Row, ...] = ()
        self._all_claims = self._all_tmp = True
        self._consumers: tuple[float, int | None] | None = None
        self._generation = 0
        self._state: object = None

    @staticmethod
    def _identified(path: str, as_spool: bool, layout: str | None, read_only: str | None) -> tuple[str, str | None]:
        if layout is not None:
            return layout, read_only
        try:
            target = identify(path, as_spool)
        except SpooltopError:
            return "spool", read_only  # the first look says what is wrong with it
        return target.kind, read_only or target.read_only

    def see(self, *, rescan: bool = False) -> Sight:
        now = self._clock()
        self._began = self._began or now
        self._clockwork.look()
        try:
            dirs, reopened = self._opened()
        except OSError as problem:
            return self._blind(now, problem)
        mount = self._mounted(dirs)
        heard = self._heard(dirs, mount)
        scans = self._boxes.scan(dirs, force=rescan or reopened or heard.restarted)
        self._scans = scans
        sure = Sureness(is_local(mount), self._processes.in_first_namespace())
        self._judge(dirs, scans, sure, mount)
        doubles = self._boxes.doubles(dirs, scans[Box.NEW])
        asides = self._asides.look(dirs, now)
        flow = self._flowed(now, heard, scans, exact=not (rescan or reopened))
        disk = disk_of(dirs.root, mount)
        can = may(dirs, disk, read_only=self._read_only, command=f"spooltop {shlex.quote(self._shown)}")
        boxes = {**self._states(scans), **asides}
        strange = self._strange_rows(dirs, scans, doubles)
        self._settle(scans, asides, doubles)
        consumers = self._living(dirs)
        return Sight(
            target=self._path,
            layout=self._layout,
            taken_at=now,
            complete=all(state.complete and not state.error for state in boxes.values()),
            boxes=boxes,
            claims=() if self._layout == "mail" else tuple(self._claims),
            tmp=tuple(self._tmp),
            counts=self._counts(),
            judged_all=self._all_claims and self._all_tmp,
            strange=strange,
            conflicts=doubles.conflicts,
            flow=flow,
            disk=disk,
            cursors=self._cursors(dirs),
            locks=self._locks(dirs, mount),
            consumers=consumers,
            last_claim_at=self._flow.last_claim_at,
            who=who_am_i(can, read_only=self._read_only, dirs=dirs),
            can=can,
            watch=self._watching(heard, mount),
            clock_jumped=self._clockwork.jumped,
            generation=self._generation,
        )

    def listing(self, query: ListQuery, cancelled: Callable[[], bool] = lambda: False) -> Listing:
        now = self._clock()
        scan = self._scans.get(query.box)
        if scan is None and query.box in LIVE:
            return RowListing(query, [], now=now, complete=False, generation=self._generation)
        if query.box is Box.NEW or (query.box is Box.CUR and self._layout == "mail"):
            assert scan is not None
            return NameListing(
                query, scan.names, self._stat(query.box), now=now, complete=scan.complete and not scan.error,
                generation=self._generation, put_us=quick_put_us, times=dict(self._boxes.times(query.box)), cancelled=cancelled,
                box=query.box, row=new_row if query.box is Box.NEW else _mail_row,
            )  # fmt: skip
        if query.box in LIVE:
            assert scan is not None
            judged = self._claims if query.box is Box.CUR else self._tmp
            rows = judged + [row for row in self._strange if row.box is query.box and row.key not in {r.key for r in judged}]
            complete = scan.complete and (self._all_claims if query.box is Box.CUR else self._all_tmp)
            return RowListing(query, rows, now=now, complete=complete, generation=self._generation)
        rows, complete = self._aside(query.box, cancelled)
        return RowListing(query, rows, now=now, complete=complete, generation=self._generation)

    def read(self, key: Key, limit: int) -> Payload:
        if self._dirs is None:
            raise Unreadable("the spool cannot be opened", path=self._path)
        box, operation, name = split_key(key)
        row: Row | None = None
        if box in (Box.CUR, Box.TMP):
            row = next((row for row in (self._claims if box is Box.CUR else self._tmp) if row.key == key), None)
        elif box in ASIDE:
            row = self._asides.row(self._dirs, box, operation, name)
        return read_message(self._dirs, key, limit, row, lambda token: self._owners.sentences.get(token, ""))

    def changes(self, timeout: float) -> bool:
        due = self._due
        wait = timeout if due is None else max(0.0, min(timeout, due - self._monotonic()))
        heard = self._changed.wait(wait)
        self._changed.clear()
        return heard or (due is not None and self._monotonic() >= due)

    def wake(self) -> None:
        self._changed.set()

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None
        self._close_dirs()

    def _close_dirs(self) -> None:
        if self._dirs is not None:
            self._dirs.close()
            self._dirs = None
        if self._parent >= 0:
            os.close(self._parent)
            self._parent = -1

    def _opened(self) -> tuple[SpoolDirs, bool]:
        """The open directories, opened anew where a name leads elsewhere now; and whether they were."""
        dirs = self._dirs
        if dirs is not None:
            if not dirs.moved() and not dirs.swapped():
                folder = dirs.own() if self._own_is_there(dirs) else None
                if folder is None or os.fstat(folder).st_nlink > 0:
                    return dirs, False
            elif not dirs.moved() and all(self._still_missing(dirs, box) for box in dirs.swapped()):
                return dirs, False
            self._close_dirs()
            if self._watcher is not None:
                self._watcher.close()  # it hears nothing of the directories that have these names now
                self._watcher = None
        self._dirs = SpoolDirs(self._path, self._files)
        self._mount = None
        try:
            parent = os.path.dirname(self._path)
            if parent != self._path:
                self._parent = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            self._parent = -1  # the parent may be closed to us; then no locks or cursors beside the spool are shown
        return self._dirs, True

    @staticmethod
    def _own_is_there(dirs: SpoolDirs) -> bool:
        try:
            return dirs.own() is not None
        except OSError:
            return False

    @staticmethod
    def _still_missing(dirs: SpoolDirs, box: Box) -> bool:
        """True where a box could not be opened before and would not be now for the same reason."""
        trouble = dirs.troubles.get(box)
        if trouble is None:
            return False
        try:
            fd = dirs.files.open_dir(box.value, dirs.root)
        except OSError as problem:
            return problem.errno == trouble.errno
        dirs.files.close(fd)
        return False

    def _mounted(self, dirs: SpoolDirs) -> Mount | None:
        at = self._monotonic()
        if self._mount is None or at - self._mount[0] >= _MOUNT_FOR:
            self._mount = (at, mount_of(dirs.root))
        return self._mount[1]

    def _heard(self, dirs: SpoolDirs, mount: Mount | None) -> Heard:
        if not self._wants_events or sends_no_events(mount):
            return Heard()
        if self._watcher is None:
            there = [box for box, fd in ((Box.NEW, dirs.new), (Box.CUR, dirs.cur)) if fd is not None]
            if not there:
                return Heard(reason="there is no box to watch")
            paths = {box: os.path.join(self._path, box.value) for box in there}
            self._watcher = Watcher(
                paths, self._changed, clock=self._clock, monotonic=self._monotonic, source=self._source
            )  # fmt: skip
            self._watcher.start()
        return self._watcher.take()

    def _watching(self, heard: Heard, mount: Mount | None) -> Watch:
        if not self._wants_events:
            return Watch("once", "", None, self._began)
        if sends_no_events(mount):
            kind = mount.fs_type if mount is not None else "?"
            return Watch("scan", f"{kind} sends no events", self._boxes.period, self._began)
        if heard.listening or not heard.reason:
            return Watch("live", "", None, self._began)
        return Watch("scan", heard.reason, self._boxes.period, self._began)

    def _judge(self, dirs: SpoolDirs, scans: dict[Box, BoxScan], sure: Sureness, mount: Mount | None) -> None:
        cur, tmp = scans[Box.CUR], scans[Box.TMP]
        if self._layout == "mail":
            self._claims, self._all_claims = [], True
        else:
            self._claims, self._all_claims = self._owners.look(dirs, cur.names, len(cur.names), cur.number, sure)
        device = mount.device if mount is not None else None
        self._tmp, self._all_tmp = self._tmp_files.look(dirs.tmp, tmp.names, len(tmp.names), sure, self._lock_table, device)

    def _lock_table(self) -> LockTable:
        at = self._monotonic()
        if self._table is None or at - self._table[0] >= 1.0:
            self._table = (at, read_table(self._processes))
        return self._table[1]

    def _living(self, dirs: SpoolDirs) -> int | None:
        if self._layout == "mail":
            return None
        at = self._monotonic()
        if self._consumers is None or at - self._consumers[0] >= 1.0:
            self._consumers = (at, self._owners.alive(dirs))
        return self._consumers[1]

    def _flowed(self, now: float, heard: Heard, scans: dict[Box, BoxScan], *, exact: bool) -> Flow:
        before = self._aside_ids
        if self._asides.generation != self._aside_ids_of:
            self._aside_ids, self._aside_ids_of = self._asides.ids(), self._asides.generation
        for batch in heard.batches:
            self._flow.add(batch, before)
        if self._watcher is not None and not heard.listening and not heard.reason:
            return self._flow.begin(now)  # it has only begun to listen: the first batch tells what came since
        numbers = (scans[Box.NEW].number, scans[Box.CUR].number)
        measured = heard.listening
        if not heard.listening and numbers != self._compared_numbers:
            measured = self._compare(now, scans, before)
        elif heard.listening:
            self._compared, self._compared_numbers = None, (-1, -1)
        if self._flow.last_claim_at is None and self._claims:
            self._flow.adopt((row.id, row.in_box_since) for row in self._claims)
        return self._flow.take(
            now, exact=exact and heard.exact, measured=measured or self._compared is not None, aside=self._aside_ids
        )

    def _compare(self, now: float, scans: dict[Box, BoxScan], aside: set[str]) -> bool:
        """Without events: what two scans tell. Bounded, sets of a million names would stall everything."""
        new, cur = scans[Box.NEW], scans[Box.CUR]
        self._compared_numbers = (new.number, cur.number)
        if len(new.names) + len(cur.names) > _COMPARED_AT_MOST:
            self._compared = None
            return False
        current = (set(new.names), set(cur.names))
        if self._compared is not None:
            self._flow.add(difference(now, self._compared, current), aside)
        self._compared = current
        return True

    def _states(self, scans: dict[Box, BoxScan]) -> dict[Box, BoxState]:
        new, cur, tmp = scans[Box.NEW], scans[Box.CUR], scans[Box.TMP]

        def state(box: Box, scan: BoxScan, size: int | None, estimated: bool, oldest: float | None, whole: bool) -> BoxState:
            if scan.error:
                return BoxState(box, None, False, None, False, None, scan.error, scan.as_of)
            return BoxState(box, len(scan.names), scan.complete and whole, size, estimated, oldest, "", scan.as_of)

        held = [row.in_box_since for row in self._claims if row.in_box_since is not None]
        written = [row.written_at for row in self._tmp if row.written_at is not None]
        mail = self._layout == "mail"
        cur_bytes = None if mail or not self._all_claims else sum(row.size or 0 for row in self._claims)
        cur_oldest = (None if cur.oldest_us is None else cur.oldest_us / 1e6) if mail else min(held, default=None)
        new_oldest = None if new.oldest_us is None else new.oldest_us / 1e6
        tmp_bytes = self._tmp_files.bytes if self._all_tmp else None
        return {
            Box.TMP: state(Box.TMP, tmp, tmp_bytes, False, min(written, default=None), True),
            Box.NEW: state(Box.NEW, new, new.bytes, new.bytes_estimated, new_oldest, True),
            Box.CUR: state(Box.CUR, cur, cur_bytes, False, cur_oldest, True),
        }

    def _counts(self) -> VerdictCounts:
        claims = [row.verdict for row in self._claims]
        tmp = [row.verdict for row in self._tmp]
        return VerdictCounts(
            claims.count(Verdict.ALIVE), claims.count(Verdict.DEAD), claims.count(Verdict.UNKNOWN),
            tmp.count(Verdict.WRITING), tmp.count(Verdict.ABANDONED), tmp.count(Verdict.UNKNOWN),
        )  # fmt: skip

    def _strange_rows(self, dirs: SpoolDirs, scans: dict[Box, BoxScan], doubles: Doubles) -> tuple[Row, ...]:
        rows: list[Row] = []
        if dirs.new is not None:
            look = self._stat(Box.NEW)
            rows += [new_row(raw, found) for raw in scans[Box.NEW].strange if (found := look(raw)) is not None]
        if self._layout != "mail":
            rows += [*self._owners.strange, *(row for row in self._claims if row.note)]
        rows += [*self._tmp_files.strange, *(row for row in self._tmp if row.note)]
        by_key = {row.key: row for row in rows}
        by_key.update((row.key, row) for row in doubles.linked)
        self._strange = tuple(by_key.values())
        return self._strange

    def _settle(self, scans: dict[Box, BoxScan], asides: dict[Box, BoxState], doubles: Doubles) -> None:
        """Notes whether a list may differ from the look before, and when the next look is due."""
        state = (
            tuple(scan.number for scan in scans.values()), self._claims, self._tmp, self._asides.generation, doubles,
            tuple(box.error for box in asides.values()),
        )  # fmt: skip
        if state != self._state:
            self._generation += 1
            self._state = state
        due = self._boxes.due
        if self._flow.unsettled:
            soon = self._monotonic() + self._least / 2
            due = soon if due is None else min(due, soon)
        self._due = due

    def _aside(self, box: Box, cancelled: Callable[[], bool]) -> tuple[list[Row], bool]:
        if self._dirs is None:
            return [], False
        if self._aside_rows[0] != self._asides.generation:
            self._aside_rows = (self._asides.generation, {})
        known = self._aside_rows[1]
        rows: list[Row] = []
        for turn, (operation, name) in enumerate(self._asides.items(box)):
            if turn >= _ASIDE_ROWS_AT_MOST or (turn % _RESULT_SLICE == 0 and cancelled()):
                return rows, False
            key = (box.value, f"{operation}/{name}")
            if key not in known:
                known[key] = self._asides.row(self._dirs, box, operation, name)
            rows.append(known[key])
        return rows, True

    def _stat(self, box: Box) -> Callable[[str], os.stat_result | None]:
        def look(raw: str) -> os.stat_result | None:
            dirs = self._dirs
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

    def _folders(self, dirs: SpoolDirs) -> list[tuple[str, int]]:
        folders = [(self._path, dirs.root)]
        if self._parent >= 0:
            folders.append((os.path.dirname(self._path), self._parent))
        return folders

    def _locks(self, dirs: SpoolDirs, mount: Mount | None) -> tuple[Lock, ...]:
        device = mount.device if mount is not None else None
        return self._lock_files.look([(path, fd, device) for path, fd in self._folders(dirs)], self._lock_table)

    def _cursors(self, dirs: SpoolDirs) -> tuple[CursorSource, ...]:
        return self._cursor_files.look(self._folders(dirs), self._cursor_lockers(dirs))

    def _cursor_lockers(self, dirs: SpoolDirs) -> Callable[[os.stat_result], tuple[LockParty, ...]]:
        def holders(found: os.stat_result) -> tuple[LockParty, ...]:
            files = [found]
            for _, fd in self._folders(dirs):
                try:
                    files.append(os.stat(".cursors.lock", dir_fd=fd, follow_symlinks=False))
                except OSError:
                    continue  # nobody locks there
            table = self._lock_table()
            lines = {line for file in files for line in table.of([device_of(file)], file.st_ino) if not line.waits}
            return tuple(LockParty(line.pid if line.pid > 0 else None, since=self._clock()) for line in lines)

        return holders

    def _blind(self, now: float, problem: OSError) -> Sight:
        """Nothing can be seen: the directory itself is gone or closed to this user."""
        why = f"{self._path} is missing" if isinstance(problem, FileNotFoundError) else str(problem.strerror)
        boxes = {box: BoxState(box, None, False, None, False, None, why, now) for box in LIVE}
        self._scans, self._claims, self._tmp, self._strange = {}, [], [], ()
        self._state = None
        self._generation += 1
        can = Can.nothing(why)
        return Sight(
            self._path, self._layout, now, False, boxes, judged_all=False, who=who_am_i(can, read_only=why), can=can, disk=Disk(),
            watch=Watch("scan", why, self._least, self._began), generation=self._generation, clock_jumped=self._clockwork.jumped,
        )  # fmt: skip


def _mail_row(raw: str, found: os.stat_result | None) -> Row:
    return replace(claim_row(names.parse(raw, claimed=True), found), since_is_bound=True)

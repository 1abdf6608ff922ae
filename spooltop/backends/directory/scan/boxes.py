"""The three boxes of a spool, looked at together: their scans, the ids that are in two of them, and irregular files."""

from __future__ import annotations

import itertools
import math
import os
import stat
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from spooltop.engine import names
from spooltop.engine import names as grammar
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.look.observation import AGE_BOUNDS, AHEAD, Ages, BoxState, SourceAges, VerdictCounts
from spooltop.model.row import Row
from spooltop.model.vocabulary import LIVE, Box, Key, Verdict

from ...row_listing import age_counts, largest
from ..storage.rows import NameForms, claim_row, new_row
from ..world import System
from .scan import BoxScan, Generation, generation_of, quick_enqueued_us, scan_box
from .set_aside import StagingScanner

# Counts the messages in ``new`` by age and source. It uses the names of the last scan and never reads the directory again.

_LOOKED_AT = 5_000
"""Names that are read: all of a smaller box, an even sample of a larger one."""


class AgeCounter:
    """Reads the names once for each scan. A look in between only updates the ages."""

    def __init__(self) -> None:
        self._scan = -1
        self._of = 0
        self._undated = 0
        self._all: array[float] = array("d")
        self._by_source: list[tuple[str | None, int, array[float]]] = []
        self._sources = 0

    def look(self, scan: BoxScan, times: Mapping[str, int], now: float) -> Ages | None:
        """Counts by age. ``times`` are the mtimes in µs of names that hold no time. Returns None if the box cannot be seen."""
        if scan.error:
            return None
        if scan.number != self._scan:
            self._read(scan, times)
        counted = tuple(SourceAges(source, total, age_counts(put, now)) for source, total, put in self._by_source)
        looked_at = len(self._all) + self._undated
        ahead = len(self._all) - bisect_right(self._all, now + AHEAD)
        return Ages(
            AGE_BOUNDS, age_counts(self._all, now), counted, self._sources, looked_at, self._of, self._undated, ahead,
            self._all[-1] if ahead else None,
        )  # fmt: skip

    def _read(self, scan: BoxScan, times: Mapping[str, int]) -> None:
        self._scan, self._of = scan.number, len(scan.names)
        looked_at: Iterable[str] = scan.names if self._of <= _LOOKED_AT else scan.names.sample(_even_sample(self._of))
        put_at: dict[str | None, list[int | None]] = {}
        alike: dict[str, list[int | None]] = {}  # names of one source mostly differ only in their ids
        for raw in looked_at:
            enqueued_us = quick_enqueued_us(raw)
            form = raw[16:17] + raw.partition(",")[2]
            if form not in alike:
                alike[form] = put_at.setdefault(grammar.parse(raw, claimed=False).source if ",s=" in raw else None, [])
            alike[form].append(times.get(raw) if enqueued_us is None else enqueued_us)
        dated = {source: array("d", sorted(at / 1e6 for at in found if at is not None)) for source, found in put_at.items()}
        self._sources = len(put_at)
        self._all = array("d", sorted(chain.from_iterable(dated.values())))
        self._undated = sum(map(len, put_at.values())) - len(self._all)
        self._by_source = [(source, len(put_at[source]), dated[source]) for source in largest(put_at)]


def _even_sample(count: int) -> Iterator[int]:
    """Yields a random place in each step of ``count`` places, because a fixed one would favour a source that puts in turn."""
    from random import Random  # only for large boxes

    within = Random(0)
    step = count / _LOOKED_AT
    return (int((turn + within.random()) * step) for turn in range(_LOOKED_AT))


# Derives the state of each box from its scan and the judged rows.

def _state(box: Box, scan: BoxScan, size: int | None, oldest: float | None, *, estimated: bool = False) -> BoxState:
    if scan.error:
        return BoxState(box, None, False, None, False, None, scan.error, scan.as_of)
    return BoxState(box, len(scan.names) + len(scan.staged), scan.complete, size, estimated, oldest, "", scan.as_of)


def _oldest(scan: BoxScan) -> float | None:
    return None if scan.oldest_us is None else scan.oldest_us / 1e6


def state_of_new(scan: BoxScan) -> BoxState:
    return _state(Box.NEW, scan, scan.bytes, _oldest(scan), estimated=scan.bytes_estimated)


def state_of_cur(scan: BoxScan, claims: Sequence[Row] | None, *, whole: bool) -> BoxState:
    """``claims`` None: a mail folder, where nothing is judged and the oldest is the oldest put."""
    if claims is None:
        return _state(Box.CUR, scan, None, _oldest(scan))
    since = [row.in_box_since for row in claims if row.in_box_since is not None]
    return _state(Box.CUR, scan, sum(row.size or 0 for row in claims) if whole else None, min(since, default=None))


def state_of_tmp(scan: BoxScan, files: Sequence[Row], *, whole: bool) -> BoxState:
    since = [row.in_box_since for row in files if row.in_box_since is not None]
    return _state(Box.TMP, scan, sum(row.size or 0 for row in files) if whole else None, min(since, default=None))


def count_verdicts(claims: Sequence[Row], files: Sequence[Row]) -> VerdictCounts:
    held = [row.verdict for row in claims]
    tmp = [row.verdict for row in files]
    return VerdictCounts(
        held.count(Verdict.ALIVE), held.count(Verdict.DEAD), held.count(Verdict.UNKNOWN),
        tmp.count(Verdict.WRITING), tmp.count(Verdict.ABANDONED), tmp.count(Verdict.UNKNOWN),
    )  # fmt: skip


# Schedules the listings of a box.

_COARSE_NS = 20_000_000
_DUTY = 20
"""Minimum pause after a listing, as a multiple of its duration."""
_EACH = 1e-4
"""Seconds without another listing for each name."""


class BoxScanner:
    """Decides when a box is listed again: at once when asked or when the directory is another one, else when it changed and the
    last listing lies ``max(least, 20 × what it took)`` back, so that looking takes at most a twentieth of the time; of a box with
    thousands of names ten times ``least``."""

    def __init__(
        self,
        world: System,
        *,
        least: float = 0.1,
        sizes: bool = True,
        scan: Callable[..., BoxScan] = scan_box,
    ) -> None:
        self._world = world
        self._least = least
        self._sizes = sizes
        self._scan = scan
        self._untimed: dict[str, int] = {}
        self._last_at = 0.0
        self._number = 0
        self._coarse = False
        self.last: BoxScan | None = None
        self.due: float | None = None
        """Earliest time at which a change already seen is listed (monotonic seconds); None: no change is pending."""

    @property
    def times(self) -> dict[str, int]:
        """mtime in µs of the names that hold no time."""
        return self._untimed

    @property
    def period(self) -> float:
        """Whole seconds from one listing to the next where only time tells when to list."""
        return float(math.ceil(max(10 * self._least, _DUTY * self.last.duration if self.last is not None else 0.0)))

    def look(
        self,
        fd: int | None,
        *,
        force: bool = False,
        ids: Set[str] = frozenset(),
        missing: str = "is missing",
        unseen: bool = False,
    ) -> BoxScan:
        """Returns the last scan, or a new one if that is due. ``fd`` None: the box is not there, and ``missing`` says why.
        ``unseen``: the box may change and keep its mtime, so it is listed every ``period`` seconds; the same names make no new
        scan."""
        now = self._world.monotonic()
        self.due = None
        if fd is None:
            if self.last is None or self.last.error != missing:
                self._number += 1
                self.last = BoxScan(complete=False, error=missing, as_of=self._world.clock(), number=self._number)
            return self.last
        last = self.last
        try:
            current: Generation | None = generation_of(fd)
        except OSError:
            current = None
        same = last is not None and last.generation is not None and current is not None and last.generation[:2] == current[:2]
        if last is not None and same and not force:
            unchanged = current == last.generation and last.clean and not self._coarse and last.complete
            if unchanged and not unseen:
                return last
            wait = self.period if unchanged else self._rest(last, unseen)
            if now < self._last_at + wait:
                self.due = self._last_at + wait
                return last
        elif last is not None and last.error and not force and now - self._last_at < self._least:
            self.due = self._last_at + self._least
            return last
        as_of = self._world.clock()
        scan = self._scan(fd, ids=ids, untimed=self._untimed, sizes=self._sizes)
        # Kernels before 6.13 stamp directories by the tick: a change right after the scan could leave the same mtime.
        self._coarse = scan.generation is not None and scan.generation[2] > time.time_ns() - _COARSE_NS
        self._last_at = now
        if unseen and not force and last is not None and same and _same_names(last, scan):
            self.last = replace(last, duration=scan.duration, effort=scan.effort, as_of=as_of)
            return self.last
        self._number += 1
        self.last = replace(scan, as_of=as_of, number=self._number)
        if not scan.clean or self._coarse:
            self.due = now + self._rest(scan, unseen)
        return self.last

    def _rest(self, scan: BoxScan, unseen: bool) -> float:
        """Returns the least seconds from the beginning of this listing to that of the next. Using many names costs time as well.

        If a server does the work, its time counts. Else only processor time counts: on a busy machine a short listing may take
        long, and changes would be seen seconds late."""
        took = scan.duration if unseen else scan.effort
        return max(self._least, _DUTY * took, min(self._least * 10, len(scan.names) * _EACH))


def _same_names(last: BoxScan, scan: BoxScan) -> bool:
    """Returns whether two scans of one directory, with the same mtime, found the same names. An unchanged directory is always
    listed in the same order."""
    return (
        last.generation == scan.generation and last.clean and scan.clean and last.complete and scan.complete
        and last.duplicates == scan.duplicates and last.irregular == scan.irregular and last.names.same(scan.names)
    )  # fmt: skip


# A first glimpse of a directory: what kind of entry a name is, and the first few names. Cheap however large it is.

_LOOK_UP: int = getattr(os, "O_PATH", getattr(os, "O_SEARCH", os.O_RDONLY))
"""Opens a directory without the right to read it: ``O_PATH`` (open(2)), or ``O_SEARCH`` where the system has that instead."""

FEW = 128
"""Maximum number of names read: a single read of a directory returns that many, and a box may hold millions."""


def open_path(path: str, dir_fd: int | None = None, *, follow: bool = True) -> int:
    """A descriptor of the directory ``path`` that needs no right to read it. With ``follow``, symbolic links are followed: the
    user named them. Raises ``OSError``, and ``ValueError`` for a NUL in the path."""
    return os.open(path, _LOOK_UP | os.O_DIRECTORY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW), dir_fd=dir_fd)


def first_names(name: str, dir_fd: int, most: int = FEW) -> list[str]:
    """The first names in the directory ``name``, as the file system has them, at most ``most``. Raises ``OSError``."""
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=dir_fd)
    try:
        with os.scandir(fd) as entries:
            return [entry.name for entry in itertools.islice(entries, most)]
    finally:
        os.close(fd)


def boxes_in(dir_fd: int) -> dict[Box, int]:
    """The modes (inode(7)) of what is called ``tmp``, ``new``, ``cur`` there, links not followed. What is missing is left out."""
    modes = {}
    for box in LIVE:
        try:
            modes[box] = os.stat(box, dir_fd=dir_fd, follow_symlinks=False).st_mode
        except FileNotFoundError:
            continue
    return modes


def is_spool_like(modes: dict[Box, int]) -> bool:
    """Returns whether at least two of the three boxes are directories, ``new`` among them."""
    there = [box for box, mode in modes.items() if stat.S_ISDIR(mode)]
    return Box.NEW in there and len(there) >= 2


def is_spool_at(path: str, *, follow: bool = True) -> bool:
    """Returns whether ``path`` is like a spool; False where it is not there or may not be looked into."""
    try:
        fd = open_path(path, follow=follow)
    except (OSError, ValueError):
        return False
    try:
        return is_spool_like(boxes_in(fd))
    except OSError:
        return False
    finally:
        os.close(fd)


_IDS_AT_MOST = 50_000


class DuplicateIds(Struct, frozen=True):
    """Ids that are in both ``new`` and ``cur``: as one file with two names (a move cut off), or as two files (a conflict)."""

    conflicts: tuple[Key, ...] = ()
    linked: tuple[Row, ...] = ()


class Boxes:
    """Scanners of ``tmp`` with its staging directories, ``new`` and ``cur``."""

    def __init__(self, world: System, least: float) -> None:
        self._scanners = {box: BoxScanner(world, least=least, sizes=box is Box.NEW) for box in LIVE}
        self._staging = StagingScanner(world)
        self._ids: frozenset[str] = frozenset()
        self._ids_of = -1
        self._claims: dict[str, list[str]] = {}
        self.doing = ""
        """Current step of the scan, in words; read from other threads when it hangs."""

    @property
    def due(self) -> float | None:
        """Earliest time at which a change already seen is listed, monotonic seconds."""
        return min((s.due for s in self._scanners.values() if s.due is not None), default=None)

    @property
    def period(self) -> float:
        """Seconds from one listing to the next where only time tells when to list."""
        return max(1.0, *(scanner.period for scanner in self._scanners.values()))

    def times(self, box: Box) -> dict[str, int]:
        """Returns the mtime in µs of the names that hold no time."""
        return self._scanners[box].times

    def is_current(self, box: Box, fd: int) -> bool:
        """True if the box has not changed since its last scan."""
        last = self._scanners[box].last
        try:
            return last is not None and generation_of(fd) == last.generation
        except OSError:
            return False

    def stamps(self, dirs: SpoolDirs) -> tuple[int, ...]:
        """The times of the last change of all directories of the spool that are looked at; empty where one is gone."""
        try:
            return (*dirs.stamps(), *self._staging.stamps(dirs))
        except OSError:
            return ()

    def scan(self, dirs: SpoolDirs, *, force: bool, unseen: bool = False) -> dict[Box, BoxScan]:
        """Returns the scans of all three, new ones where they are due. ``cur`` is listed before ``new``, to look for its ids
        there. ``unseen``: the file system does not report all changes."""
        scans = {}
        for box, fd in ((Box.CUR, dirs.cur), (Box.NEW, dirs.new), (Box.TMP, dirs.tmp)):
            missing = why_closed(dirs, box)
            ids = self._ids if box is Box.NEW else frozenset[str]()
            self.doing = f"readdir of {box}"
            scans[box] = self._scanners[box].look(fd, force=force, ids=ids, missing=missing, unseen=unseen)
            if box is Box.CUR and scans[box].number != self._ids_of:
                self._index_claims(scans[box])
        self.doing = "readdir of the staging directories"
        scans[Box.TMP] = self._staging.add_to(scans[Box.TMP], dirs, unseen=unseen)
        self.doing = ""
        return scans

    def _index_claims(self, scan: BoxScan) -> None:
        self._ids_of = scan.number
        self._claims = {}
        if len(scan.names) <= _IDS_AT_MOST:
            for _, chunk in scan.names.chunks():
                claims = os.fsdecode(chunk).split("/")
                for raw, base in zip(claims, NameForms.of(claims, claimed=True).bases(claims), strict=True):
                    self._claims.setdefault(base, []).append(raw)
        self._ids = frozenset(base.partition(",")[0] for base in self._claims) | frozenset(self._claims)

    def duplicates(self, dirs: SpoolDirs, scan: BoxScan) -> DuplicateIds:
        """Returns the ids that are in both boxes now. ``scan`` is the scan of ``new``; a message that moves in the meantime is
        not a duplicate."""
        if not scan.duplicates or dirs.new is None or dirs.cur is None:
            return DuplicateIds()
        by_id: dict[str, list[str]] = {}
        for claims in self._claims.values():
            for raw in claims:
                by_id.setdefault(names.parse(raw, claimed=True).id, []).append(raw)
        conflicts: list[Key] = []
        linked: list[Row] = []
        for waiting in scan.duplicates:
            for claimed in by_id.get(names.parse(waiting, claimed=False).id, ()):
                try:
                    here = os.stat(waiting, dir_fd=dirs.new, follow_symlinks=False)
                    there = os.stat(claimed, dir_fd=dirs.cur, follow_symlinks=False)
                    again = os.stat(waiting, dir_fd=dirs.new, follow_symlinks=False)
                except OSError:
                    continue  # it was on its way
                if here.st_ino != again.st_ino:
                    continue
                if here.st_ino == there.st_ino:
                    linked.append(replace(claim_row(names.parse(claimed, claimed=True), there), note="is in new as well"))
                    linked.append(replace(new_row(waiting, here), note="is in cur as well"))
                else:
                    conflicts += [(Box.NEW.value, waiting), (Box.CUR.value, claimed)]
        return DuplicateIds(tuple(dict.fromkeys(conflicts)), tuple(linked))


def irregular_rows(dirs: SpoolDirs, new: BoxScan, judged: Iterable[Row], duplicates: DuplicateIds) -> tuple[Row, ...]:
    """Collects the rows of everything that is no message or has a second name: in ``new``, among the ``judged`` rows of ``cur``
    and ``tmp``, and the messages that are in two boxes."""
    rows: list[Row] = []
    for raw in new.irregular if dirs.new is not None else ():
        try:
            rows.append(new_row(raw, os.stat(raw, dir_fd=dirs.new, follow_symlinks=False)))
        except OSError:
            continue  # gone since it was listed
    return tuple({row.key: row for row in (*rows, *judged, *duplicates.linked)}.values())


def why_closed(dirs: SpoolDirs, box: Box) -> str:
    """Says why a box is not open."""
    error = dirs.errors.get(box)
    if error is None or isinstance(error, FileNotFoundError):
        return f"{box} is missing"
    if isinstance(error, PermissionError):
        return "permission denied"
    if isinstance(error, NotADirectoryError):
        return f"{box} is not a directory of its own"
    return f"{box} cannot be opened ({error.strerror})"

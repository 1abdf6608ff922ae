"""Scans the boxes of a spool: names only, streamed, by descriptor, on a schedule; and everything that follows from names alone.

The scan is the truth; everything else is only a hint that a scan is due. One subject: the listing of one directory, that of
folders that change seldom (staging directories, set-aside messages), and that of the three boxes together.
"""

from __future__ import annotations

import math
import os
import re
import stat
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, suppress
from itertools import islice
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from spooltop.engine import names
from spooltop.engine import set_aside as shelf
from spooltop.engine.dirs import STAGE, SpoolDirs
from spooltop.engine.files import REAL_FILES
from spooltop.model import ASIDE, LIVE, Box, BoxState, Clock, Frozen, Key, Row, Stop

from ..log_store import OPERATION
from ..row_listing import AgeCounter
from .storage import System, aside_row, claim_row, epoch, in_folder, kind_of_file, new_row, time_of

# Counts the names in the boxes of a spool: a first picture, long before a look.


def count_boxes(path: str) -> Mapping[Box, int | None]:
    """Returns the number of names in each box of ``path``, without those that begin with a dot; None where a box cannot be
    counted."""
    return {box: _count(os.path.join(path, box)) for box in LIVE}


def _count(folder: str) -> int | None:
    with suppress(OSError), opened(folder) as fd:
        return sum(map(_is_shown, os.listdir(fd)))
    return None


def opened(name: str, dir_fd: int | None = None, *, follow: bool = False) -> AbstractContextManager[int]:
    """Opens a directory for a while; ``follow``: also through a link. The descriptor is not shared: the offset of a shared one is
    moved by whoever lists. Raises ``OSError``."""
    return REAL_FILES.closing(REAL_FILES.open_dir(name, dir_fd, follow=follow))


Generation = tuple[int, int, int]
"""(st_dev, st_ino, st_mtime_ns) of a directory: changes with every name that comes or goes."""


def generation_of(fd: int) -> Generation:
    """Returns the generation of an open directory. Raises ``OSError`` if the descriptor is stale (a network file system forgot
    it)."""
    return _generation(os.fstat(fd))


def _generation(found: os.stat_result) -> Generation:
    return found.st_dev, found.st_ino, found.st_mtime_ns


PIECE = 256
"""Names that are looked at together."""


def pieces(names: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yields ``PIECE`` names at a time, each time with the place of the first of them."""
    for start in range(0, len(names), PIECE):
        yield start, names[start : start + PIECE]


_IRREGULAR_AT_MOST = 1_000
_UNTIMED_AT_MOST = 50_000
_TRIED_AT_MOST = 10_000
_SAMPLE = 100
_AT_ONCE = 1_000
_COARSE = 0.02
"""Seconds after a change in which another may leave the same mtime: kernels before 6.13 stamp directories by the tick."""
_PLAIN = re.compile(r"(?:[0-9]{16}\.[^/]{0,133}/)+")
"""Matches joined names of ASCII in the form of the engine and most others: a time in front, and room for the suffix of a
claim."""
_TRIED = r"([^/]*,n=[1-9][0-9]{0,8}(?:,t=[0-9]{1,17})?(?:,e=[^,/]{1,24})?)/|[^/]*+/"
"""Captures, among names joined by ``/``, those of messages with earlier attempts, never a canary. Of other names it captures
nothing, but passes over them whole: a search would begin again at each letter."""
_IDS = r"([^,/]+)[^/]*/"

T = TypeVar("T")


class BoxScan(Struct):
    """Result of one scan, not changed once that is through. ``oldest`` is in microseconds since the epoch, other times are
    seconds of the monotonic clock.

    ``oldest`` is the earliest time found in a name (for names without a time: mtime), with the name. ``irregular`` are names
    that are not regular files or are too long for the suffix of a claim; ``duplicates`` are names whose id was also in the other
    box; ``tried`` are names that record earlier attempts, the first ten thousand (``tried_all``: they are all of them). ``times``
    are the mtimes (µs) of the names that hold no time. ``staged`` are the files of ``tmp`` in staging directories,
    ``FOLDER/NAME``, which ``names`` does not hold. ``clean`` is False where the directory changed during the scan, or so shortly
    before that it may change again and keep its mtime; ``complete`` is False where the listing broke off.
    """

    names: list[str] = []
    oldest: tuple[int, str] | None = None
    irregular: list[str] = []
    duplicates: list[str] = []
    tried: list[str] = []
    tried_all: bool = True
    times: dict[str, int] = {}
    bytes: int | None = None
    bytes_estimated: bool = False
    generation: Generation | None = None
    clean: bool = True
    complete: bool = True
    error: str = ""
    duration: float = 0.0
    effort: float = 0.0
    """Processor seconds of ``duration``: without the time in which others had the machine, or it waited."""
    as_of: float = 0.0
    number: int = 0
    staged: tuple[str, ...] = ()
    kept: dict[object, Any] = {}
    """Values derived from ``names``, for as long as there is no newer scan."""

    def once(self, what: str, make: Callable[[], T]) -> T:
        """Returns what ``make`` derives from the names, by its name ``what``."""
        if what not in self.kept:
            self.kept[what] = make()
        found: T = self.kept[what]
        return found

    @property
    def oldest_at(self) -> float | None:
        """The time of the ``oldest`` in seconds."""
        return None if self.oldest is None else self.oldest[0] / 1e6


    def put_us(self, name: str) -> int | None:
        """Returns the time of a put (µs since the epoch): that in the name, else the mtime."""
        at = names.enqueued_us(name)
        return self.times.get(name) if at is None else at

    def add(self, own: int, entries: Sequence[os.DirEntry[str]], ids: Set[str], known: Mapping[str, int]) -> None:
        """Adds entries of the directory ``own``, all at once if all are plain files with a time in front; ``ids`` and ``known``
        as for ``scan_box``."""
        regular = [entry.is_file(follow_symlinks=False) for entry in entries]
        found = [entry.name for entry in entries]
        joined = "/".join([*found, ""])
        if not all(regular) or not joined.isascii() or not _PLAIN.fullmatch(joined):
            for name, is_file in zip(found, regular, strict=True):
                self._take(own, name, is_file, ids, known)
            return
        self.names += found
        if ",n=" in joined and len(self.tried) <= _TRIED_AT_MOST:
            self.tried += filter(None, re.findall(_TRIED, joined))
        first = min(found)  # names of the usual form sort as text like the number
        self._note_time(int(first[:16]), first)
        if ids and not ids.isdisjoint(re.findall(_IDS, joined)):
            self.duplicates += [name for name in found if name.partition(",")[0] in ids]

    def _take(self, own: int, name: str, is_file: bool, ids: Set[str], known: Mapping[str, int]) -> None:
        if name[0] == ".":
            return
        self.names.append(name)
        if ",n=" in name and len(self.tried) <= _TRIED_AT_MOST and any(re.findall(_TRIED, name + "/")):
            self.tried.append(name)
        if name.partition(",")[0] in ids:
            self.duplicates.append(name)
        too_long = is_file and not names.claimable(name)
        if (too_long or not is_file) and len(self.irregular) < _IRREGULAR_AT_MOST:
            self.irregular.append(name)
        if not is_file:
            return
        when = names.enqueued_us(name)
        if when is None:
            when = known.get(name)
            if when is None and len(self.times) < _UNTIMED_AT_MOST:
                with suppress(OSError):  # gone since, so it has no age
                    when = os.lstat(name, dir_fd=own).st_mtime_ns // 1_000
            if when is not None and len(self.times) < _UNTIMED_AT_MOST:
                self.times[name] = when
        if when is not None:
            self._note_time(when, name)

    def _note_time(self, when: int, name: str) -> None:
        self.oldest = min(self.oldest or (when, name), (when, name))


Scans = Mapping[Box, BoxScan]
"""The scans of ``tmp``, ``new`` and ``cur``."""


def scan_box(
    fd: int, *, ids: Set[str] = frozenset(), known: Mapping[str, int] = {}, sizes: bool = True, at_most: int | None = None
) -> BoxScan:
    """Lists the directory behind ``fd`` to its end. Never raises for what the directory does: ``error`` says it.

    ``ids`` are ids to look out for (those of the other box). ``known`` are the ``times`` of the scan before. ``sizes``: exact
    bytes up to 200 files, else an estimate. At most ``at_most`` entries are read.
    """
    scan = BoxScan()
    began, worked = time.monotonic(), time.thread_time()
    try:
        with opened(".", fd) as own:
            scan.generation = before = generation_of(own)
            with os.scandir(own) as entries:
                some_or_all = islice(entries, at_most)
                while some := list(islice(some_or_all, _AT_ONCE)):
                    scan.add(own, some, ids, known)
            scan.clean = before == generation_of(own) and before[2] / 1e9 < time.time() - _COARSE
            if sizes:
                scan.bytes, scan.bytes_estimated = _bytes(own, scan.names)
    except OSError as problem:
        scan.error, scan.clean, scan.complete = _why(problem), False, False
    scan.tried_all = len(scan.tried) <= _TRIED_AT_MOST
    del scan.tried[_TRIED_AT_MOST:]
    scan.duration, scan.effort = time.monotonic() - began, time.thread_time() - worked
    return scan


def _why(problem: OSError) -> str:
    return "permission denied" if isinstance(problem, PermissionError) else str(problem.strerror)


def _bytes(fd: int, names: Sequence[str]) -> tuple[int | None, bool]:
    """Returns the bytes of all files, and whether that is an estimate: the mean of a sample times the count, for many files."""
    count = len(names)
    exact = count <= 2 * _SAMPLE
    total = seen = 0
    for name in names if exact else (names[turn * count // _SAMPLE] for turn in range(_SAMPLE)):
        try:
            found = os.lstat(name, dir_fd=fd)
        except OSError:
            continue  # gone since: the mean of the others stands for it
        total += found.st_size if stat.S_ISREG(found.st_mode) else 0
        seen += 1
    if exact:
        return total, False
    return (int(total / seen * count), True) if seen else (None, True)


# Folders that are listed again only after they have changed: a look costs one ``lstat`` for each that has not.

_FOLDERS_AT_MOST = 5_000


class _Listed(Frozen):
    """The names in a directory when it had this generation."""

    generation: Generation
    names: tuple[str, ...]


_ListedT = TypeVar("_ListedT", bound=_Listed)


def _is_shown(name: str) -> bool:
    return name[0] != "."


def _list(name: str, above: int, wanted: Callable[[str], bool] = _is_shown, of: int | None = None) -> _Listed:
    with opened(name, above) as fd:
        generation = generation_of(fd)
        with os.scandir(fd) as entries:
            names = (entry.name for entry in islice(entries, of))
            return _Listed(generation, tuple(sorted(filter(wanted, names))))


def _current(known: _ListedT | None, status: os.stat_result, since: float) -> _ListedT | None:
    """Returns what is ``known`` of a directory, if it has not changed, and not ``since`` either."""
    same = known is not None and known.generation == _generation(status) and status.st_mtime < since
    return known if same else None


def _look(
    dirs: SpoolDirs, name: str, wanted: Callable[[str], object], known: Mapping[str, _ListedT], since: float,
    read: Callable[[str, int], _ListedT],
) -> tuple[dict[str, _ListedT], bool] | None:  # fmt: skip
    """Lists those of the ``wanted`` folders below ``.spooltop/name`` that have changed, or may have changed ``since``. Also
    returns whether that was all; None if that directory is missing. Raises ``OSError``."""
    above = dirs.private_dir(name)
    if above is None:
        return None
    folders = sorted(filter(wanted, dirs.files.list(above)))
    complete = len(folders) <= _FOLDERS_AT_MOST
    found: dict[str, _ListedT] = {}
    for folder in folders[:_FOLDERS_AT_MOST]:
        try:
            status = os.lstat(folder, dir_fd=above)
            if stat.S_ISDIR(status.st_mode):  # anything else is nothing of ours
                found[folder] = _current(known.get(folder), status, since) or read(folder, above)
        except FileNotFoundError:
            continue  # removed meanwhile
        except OSError:
            complete = False
    return found, complete


_NAMES_AT_MOST = 20_000
"""Entries of a folder that are looked at for names that are wanted."""


class FolderNames(Struct):
    """The names that are ``wanted`` in folders, ``at_most`` of each. A folder is listed again only when it changed."""

    _wanted: Callable[[str], bool]
    _at_most: int
    _kept: dict[str, _Listed] = {}

    def of(self, path: str, fd: int) -> tuple[str, ...]:
        """The names in the folder ``path``, open as ``fd``, sorted; none where it cannot be listed."""
        try:
            known = _current(self._kept.get(path), os.fstat(fd), time.time() - _COARSE)
            self._kept[path] = known = known or _list(".", fd, self._wanted, _NAMES_AT_MOST)
        except OSError:
            return ()
        return known.names[: self._at_most]


class StagingScanner(Struct):
    """Lists the staging directories of a spool: their files count as ``tmp``. Nearly all of them are empty at nearly all
    times."""

    _clock: Clock
    _folders: dict[str, _Listed] = {}

    def add_to(self, scan: BoxScan, dirs: SpoolDirs, *, unseen: bool) -> BoxScan:
        """Returns the scan of ``tmp`` with the files in staging directories, not ``complete`` where one could not be listed.
        ``unseen``: the file system does not report all changes."""
        if scan.error:
            return scan
        since = float("-inf") if unseen else self._clock() - _COARSE
        try:
            self._folders, complete = _look(dirs, STAGE, OPERATION.match, self._folders, since, _list) or ({}, True)
        except OSError:
            self._folders, complete = {}, False
        staged = tuple(in_folder(name, folder) for folder, listed in self._folders.items() for name in listed.names)
        return replace(scan, staged=staged, complete=scan.complete and complete)

    def stamps(self, dirs: SpoolDirs) -> tuple[int, ...]:
        """The times of the last change of the directories that were there at the last look. Raises ``OSError``."""
        above = dirs.private_dir(STAGE) if self._folders else None
        return tuple(os.lstat(folder, dir_fd=above).st_ctime_ns for folder in self._folders)


_SIZES_AT_MOST = 10_000
_ROWS_AT_MOST = 20_000
_METAS_AT_MOST = 256
"""Metadata files of one operation that a look reads. A batch has one, but anybody who may write could make one for each
message."""
_SLICE = 256


class _Folder(_Listed):
    """Folder of one operation. ``bytes`` None: not summed. ``times``: when the examined messages were set aside, in ascending
    order."""

    bytes: int | None
    times: array[float]

    def expired(self, by: float) -> tuple[int, bool]:
        """Returns how many messages were set aside at ``by`` or before, and whether that number is only a lower bound."""
        sampled = len(self.names) > _SIZES_AT_MOST
        if sampled and self.generation[2] / 1e9 <= by:  # none was added or removed since
            return len(self.names), False
        return bisect_right(self.times, by), sampled


class SetAsideBoxes(Struct):
    """The boxes ``held``, ``rejected`` and ``trash`` of one spool. Messages in the trash expire after ``retention`` seconds (0:
    never)."""

    _retention: float
    _folders: dict[Box, dict[str, _Folder]] = {}
    _rows: dict[tuple[Box, str, str], Row] = {}
    _ids: dict[str, Box] | None = {}
    _whole: dict[Box, bool] = {}
    """Maps each box to True if the last look saw all of it."""
    generation: int = 0
    """Changes whenever something came or went."""

    def look(self, dirs: SpoolDirs, as_of: float) -> dict[Box, BoxState]:
        before, self._folders = self._folders, {}
        states = {box: self._look(dirs, box, as_of, before.get(box, {})) for box in ASIDE}
        if before != self._folders:
            self.generation += 1
            self._rows, self._ids = {}, None
        self._whole = {box: state.complete for box, state in states.items()}
        return states

    def _look(self, dirs: SpoolDirs, box: Box, as_of: float, known: Mapping[str, _Folder]) -> BoxState:
        def read(operation: str, above: int) -> _Folder:
            listed, since = _list(operation, above), _times_in(dirs, box, operation) if box is Box.TRASH else None
            total: int | None = 0 if len(listed.names) <= _SIZES_AT_MOST else None
            times = array("d")
            with opened(operation, above) as fd:
                for name in listed.names[:_SIZES_AT_MOST]:
                    try:
                        found = os.lstat(name, dir_fd=fd)
                    except OSError:
                        continue  # put back meanwhile
                    times.append(found.st_ctime if since is None else since(name, fd, found.st_ctime))
                    if total is not None and stat.S_ISREG(found.st_mode):
                        total += found.st_size
            return _Folder(listed.generation, listed.names, total, array("d", sorted(times)))

        try:
            listed = _look(dirs, box.value, _is_shown, known, as_of - _COARSE, read)
        except OSError as problem:
            return BoxState(box, None, False, error=_why(problem), as_of=as_of)
        if listed is None:
            return BoxState(box, bytes=0, as_of=as_of)
        self._folders[box], complete = listed
        found = self._folders[box].values()
        sizes = [folder.bytes for folder in found if folder.bytes is not None]
        oldest = min((folder.times[0] for folder in found if folder.times), default=None)
        total = sum(sizes) if len(sizes) == len(found) else None
        state = BoxState(box, sum(len(folder.names) for folder in found), complete, total, False, oldest, "", as_of)
        if box is not Box.TRASH or not self._retention:
            return state
        over = [folder.expired(as_of - self._retention) for folder in found]
        return state.replace(
            retention=self._retention, expired=sum(n for n, _ in over),
            expired_is_bound=not complete or any(bound for _, bound in over),
        )  # fmt: skip

    def items(self, box: Box) -> Iterator[tuple[str, str]]:
        """Yields (operation, name) of everything in ``box`` at the last look."""
        return ((operation, name) for operation, folder in self._folders.get(box, {}).items() for name in folder.names)

    def ids(self) -> dict[str, Box]:
        """Returns the ids of everything that is set aside, each with its box."""
        ids = self._ids
        if ids is None:
            ids = self._ids = {names.parse(name, claimed=True).id: box for box in ASIDE for _, name in self.items(box)}
        return ids

    def rows(self, dirs: SpoolDirs, box: Box, cancelled: Stop) -> tuple[list[Row], bool]:
        """Returns the rows of ``box``, and whether they are all. Rows are looked up once until something changes."""
        rows: list[Row] = []
        for turn, item in enumerate(self.items(box)):
            if turn >= _ROWS_AT_MOST or (turn % _SLICE == 0 and cancelled()):
                return rows, False
            if (box, *item) not in self._rows:
                self._rows[box, *item] = self.row(dirs, box, *item)
            rows.append(self._rows[box, *item])
        return rows, self._whole.get(box, False)

    def row(self, dirs: SpoolDirs, box: Box, operation: str, raw: str) -> Row:
        """Returns the row of one message with its metadata. A message that has gone keeps its row, with a note."""
        row = aside_row(box, operation, raw)
        try:
            folder = dirs.private_dir(box.value, operation)
            if folder is None:
                return row.replace(note="gone since")
            found = os.lstat(raw, dir_fd=folder)
            metadata = shelf.read_meta(dirs, shelf.Entry(box, operation, raw))
        except OSError as problem:
            return row.replace(note="gone since" if isinstance(problem, FileNotFoundError) else str(problem.strerror))
        finally:
            dirs.forget(box.value, operation)
        reason, since, ended = metadata.get("reason"), time_of(metadata), metadata.get("ended")
        since = found.st_ctime if since is None else since
        return row.replace(
            size=found.st_size,
            written_at=found.st_mtime,
            enqueued_at=row.enqueued_at if row.enqueued_at is not None else found.st_mtime,
            in_box_since=since,
            expires_at=since + self._retention if box is Box.TRASH and self._retention else None,
            reason=reason if isinstance(reason, str) else "",
            note="" if stat.S_ISREG(found.st_mode) else kind_of_file(found),
            ended=ended if isinstance(ended, str) else row.ended,
        )


def _times_in(dirs: SpoolDirs, box: Box, operation: str) -> Callable[[str, int, float], float]:
    """Makes what tells when a message of one operation was set aside, by its name, the open folder, and its ctime. The metadata
    of a batch are one file with many names, read once, or lie beside the folder. A move changes ctime and nothing else, so ctime
    is the time where the metadata hold none."""
    read: dict[int | None, float | None] = {}

    def since(name: str, folder: int, otherwise: float) -> float:
        try:
            inode = os.lstat(shelf.meta_name(name), dir_fd=folder).st_ino
        except FileNotFoundError:
            inode = None  # what all in the folder have in common
        except OSError:
            return otherwise
        if inode not in read:
            if len(read) >= _METAS_AT_MOST:
                return otherwise
            read[inode] = time_of(shelf.read_meta(dirs, shelf.Entry(box, operation, name)))
        at = read[inode]
        return otherwise if at is None else at

    return since


# Counts the messages in ``new`` by age and source. It uses the names of the last scan and never reads the directory again.

_LOOKED_AT = 5_000
"""Names that are read: all of a smaller box, an even sample of a larger one."""


def age_counter(scan: BoxScan) -> AgeCounter:
    """Reads the ages of the messages in a scan."""
    count = len(scan.names)
    put_at: list[tuple[str | None, float | None]] = []
    sources: dict[str, str | None] = {}  # names of one source mostly differ only in their ids
    for raw in scan.names if count <= _LOOKED_AT else map(scan.names.__getitem__, _even_sample(count)):
        form = raw[16:17] + raw.partition(",")[2]
        if form not in sources:
            sources[form] = names.parse(raw, claimed=False).source if ",s=" in raw else None
        put_at.append((sources[form], epoch(scan.put_us(raw))))
    return AgeCounter(put_at, count)


def _even_sample(count: int) -> Iterator[int]:
    """Yields a random place in each step of ``count`` places, because a fixed one would favour a source that puts in turn."""
    from random import Random  # only for large boxes

    within = Random(0)
    step = count / _LOOKED_AT
    return (int((turn + within.random()) * step) for turn in range(_LOOKED_AT))


# Schedules the listings of a box.

_DUTY = 20
"""Minimum pause after a listing, as a multiple of its duration."""
_EACH = 1e-4
"""Seconds without another listing for each name."""


class BoxScanner(Struct):
    """Decides when a box is listed again: at once when asked or when the directory is another one, else when it changed and the
    last listing lies ``max(least, 20 × what it took)`` back, so that looking takes at most a twentieth of the time; of a box with
    thousands of names ten times ``least``."""

    _world: System
    least: float = 0.1
    sizes: bool = True
    scan: Callable[..., BoxScan] = scan_box
    _last_at: float = 0.0
    last: BoxScan = field(default_factory=BoxScan)
    due: float | None = None
    """Earliest time at which a change already seen is listed (monotonic seconds); None: no change is pending."""

    @property
    def period(self) -> float:
        """Whole seconds from one listing to the next where only time tells when to list."""
        return float(math.ceil(max(10 * self.least, _DUTY * self.last.duration)))

    def look(
        self, fd: int | None, *, force: bool = False, ids: Set[str] = frozenset(), missing: str = "is missing",
        unseen: bool = False,
    ) -> BoxScan:  # fmt: skip
        """Returns the last scan, or a new one if that is due. ``fd`` None: the box is not there, and ``missing`` says why.
        ``unseen``: the box may change and keep its mtime, so it is listed every ``period`` seconds; the same names make no new
        scan."""
        now, last, wait = self._world.monotonic(), self.last, 0.0
        self.due = None
        if fd is None:
            if last.error != missing:
                self.last = BoxScan(complete=False, error=missing, as_of=self._world.clock(), number=last.number + 1)
            return self.last
        try:
            current: Generation | None = generation_of(fd)
        except OSError:
            current = None
        same = last.generation is not None and current is not None and last.generation[:2] == current[:2]
        if same:
            unchanged = current == last.generation and last.clean
            if unchanged and not unseen and not force:
                return last
            wait = self.period if unchanged else self._rest(last, unseen)
        elif last.error:
            wait = self.least
        if not force and now < self._last_at + wait:
            self.due = self._last_at + wait
            return last
        as_of = self._world.clock()
        scan = self.scan(fd, ids=ids, known=last.times, sizes=self.sizes)
        self._last_at = now
        if unseen and not force and same and _same_names(last, scan):
            self.last = replace(last, clean=scan.clean, duration=scan.duration, effort=scan.effort, as_of=as_of)
            return self.last
        scan.as_of, scan.number = as_of, last.number + 1
        self.last = scan
        if not scan.clean:
            self.due = now + self._rest(scan, unseen)
        return self.last

    def _rest(self, scan: BoxScan, unseen: bool) -> float:
        """Returns the least seconds from the beginning of this listing to that of the next. Using many names costs time as well.

        If a server does the work, its time counts. Else only processor time counts: on a busy machine a short listing may take
        long, and changes would be seen seconds late."""
        took = scan.duration if unseen else scan.effort
        return max(self.least, _DUTY * took, min(self.least * 10, len(scan.names) * _EACH))


def _same_names(last: BoxScan, scan: BoxScan) -> bool:
    """Returns whether two scans of one directory, with the same mtime, found the same names. An unchanged directory is always
    listed in the same order."""
    return (
        last.generation == scan.generation and last.complete and scan.complete
        and last.duplicates == scan.duplicates and last.irregular == scan.irregular and last.names == scan.names
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


def first_names(name: str, dir_fd: int | None, most: int = FEW) -> list[str]:
    """The first names in the directory ``name``, as the file system has them, at most ``most``. Raises ``OSError``."""
    with opened(name, dir_fd) as fd, os.scandir(fd) as entries:
        return [entry.name for entry in islice(entries, most)]


def boxes_in(dir_fd: int) -> dict[Box, int]:
    """The modes (inode(7)) of what is called ``tmp``, ``new``, ``cur`` there, links not followed. What is missing is left out."""
    modes = {}
    for box in LIVE:
        with suppress(FileNotFoundError):
            modes[box] = os.lstat(box, dir_fd=dir_fd).st_mode
    return modes


def is_spool_like(modes: dict[Box, int]) -> bool:
    """Returns whether at least two of the three boxes are directories, ``new`` among them."""
    there = [box for box, mode in modes.items() if stat.S_ISDIR(mode)]
    return Box.NEW in there and len(there) >= 2


def is_spool_at(path: str, dir_fd: int | None = None, *, follow: bool = True) -> bool:
    """Returns whether ``path`` is like a spool; False where it is not there or may not be looked into."""
    with suppress(OSError, ValueError), REAL_FILES.closing(open_path(path, dir_fd, follow=follow)) as fd:
        return is_spool_like(boxes_in(fd))
    return False


_IDS_AT_MOST = 50_000


class DuplicateIds(Frozen):
    """Ids that are in both ``new`` and ``cur``: as one file with two names (a move cut off), or as two files (a conflict)."""

    conflicts: tuple[Key, ...] = ()
    linked: tuple[Row, ...] = ()


class Boxes:
    """Scanners of ``tmp`` with its staging directories, ``new`` and ``cur``."""

    def __init__(self, world: System, least: float) -> None:
        self._scanners = {box: BoxScanner(world, least=least, sizes=box is Box.NEW) for box in LIVE}
        self._staging = StagingScanner(world.clock)
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

    def is_current(self, new: int) -> bool:
        """True if ``new``, an open directory, has not changed since its last scan."""
        try:
            return generation_of(new) == self._scanners[Box.NEW].last.generation
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
        scans: dict[Box, BoxScan] = {}
        for box, fd in ((Box.CUR, dirs.cur), (Box.NEW, dirs.new), (Box.TMP, dirs.tmp)):
            missing = why_closed(dirs, box)
            ids = _claimed_ids(scans[Box.CUR]) if box is Box.NEW else frozenset[str]()
            self.doing = f"readdir of {box}"
            scans[box] = self._scanners[box].look(fd, force=force, ids=ids, missing=missing, unseen=unseen)
        self.doing = "readdir of the staging directories"
        scans[Box.TMP] = self._staging.add_to(scans[Box.TMP], dirs, unseen=unseen)
        self.doing = ""
        return scans

    @staticmethod
    def duplicates(dirs: SpoolDirs, scan: BoxScan, cur: BoxScan) -> DuplicateIds:
        """Returns the ids that are in both boxes now. ``scan`` is the scan of ``new``; a message that moves in the meantime is
        not a duplicate."""
        if not scan.duplicates or dirs.new is None or dirs.cur is None:
            return DuplicateIds()
        by_id: dict[str, list[str]] = {}
        for raw in _claims(cur):
            by_id.setdefault(names.parse(raw, claimed=True).id, []).append(raw)
        conflicts: list[Key] = []
        linked: list[Row] = []
        for waiting in scan.duplicates:
            for claimed in by_id.get(names.parse(waiting, claimed=False).id, ()):
                try:
                    here = os.lstat(waiting, dir_fd=dirs.new)
                    there = os.lstat(claimed, dir_fd=dirs.cur)
                    again = os.lstat(waiting, dir_fd=dirs.new)
                except OSError:
                    continue  # it was on its way
                if here.st_ino != again.st_ino:
                    continue
                if here.st_ino == there.st_ino:
                    linked.append(claim_row(names.parse(claimed, claimed=True), there).replace(note="is in new as well"))
                    linked.append(new_row(waiting, here).replace(note="is in cur as well"))
                else:
                    conflicts += [(Box.NEW.value, waiting), (Box.CUR.value, claimed)]
        return DuplicateIds(tuple(dict.fromkeys(conflicts)), tuple(linked))


def _claims(cur: BoxScan) -> list[str]:
    return cur.names if len(cur.names) <= _IDS_AT_MOST else []


def _claimed_ids(cur: BoxScan) -> frozenset[str]:
    def ids() -> frozenset[str]:
        """All that stands before the first comma, with and without the tail of another program: more than the ids, at times."""
        starts = [name.partition(",")[0] for name in _claims(cur)]
        return frozenset([*starts, *(start.rpartition(":")[0] for start in starts)])

    return cur.once("ids", ids)


def irregular_rows(dirs: SpoolDirs, new: BoxScan, judged: Iterable[Row], duplicates: DuplicateIds) -> tuple[Row, ...]:
    """Collects the rows of everything that is no message or has a second name: in ``new``, among the ``judged`` rows of ``cur``
    and ``tmp``, and the messages that are in two boxes."""
    rows: list[Row] = []
    for raw in new.irregular if dirs.new is not None else ():
        with suppress(OSError):  # gone since it was listed
            rows.append(new_row(raw, os.lstat(raw, dir_fd=dirs.new)))
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

"""Change events as hints: straight from the kernel, and collected by a thread until a look takes them.

Events get lost (the kernel's queue overflows) and have no order within a batch; where watchfiles has to do, they are lost without
a sign, and one name that is not UTF-8 ends a watcher for good. So nothing rests on them but when to look, and rates, which say
where they are lower bounds.
"""

from __future__ import annotations

import errno
import glob
import os
import select
import struct
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from fnmatch import fnmatchcase
from functools import partial

from msgspec import Struct, field

from spooltop.engine.syscalls import HAS_INOTIFY, inotify_add_watch, inotify_init
from spooltop.model import Box, Clock, Frozen, is_lock_name
from spooltop.stop_event import StopEvent

from .storage import System

# Change events straight from the kernel, inotify(7): read in bulk, without a thread of another library or an object an event.
#
# ``new``, ``cur`` and the folders of cursor files are read this way, where watchfiles is not enough. The kernel tells each change
# in its order; watchfiles gathers them in a set: of 89 cursor updates that a stale copy overwrote it gave 16, this reader 88. The
# kernel also says when it lost some (IN_Q_OVERFLOW) and when a directory went away (IN_IGNORED), and its names are any bytes;
# watchfiles says neither, and ends at a name that is not UTF-8. Everything else is watched by watchfiles.

_CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x8, 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _UNMOUNT, _OVERFLOW, _IGNORED = 0x400, 0x800, 0x2000, 0x4000, 0x8000
_ONLYDIR, _DONT_FOLLOW = 0x0100_0000, 0x0200_0000
_ADDED, _GONE = _CREATE | _MOVED_TO, _DELETE | _MOVED_FROM
_NAMED = _ADDED | _GONE
_WANTED = _ADDED | _GONE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR | _DONT_FOLLOW
_ENDED = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _IGNORED

_HEAD = struct.Struct("iIII")
"""wd, mask, cookie, length of the name with its NULs."""
_READ = 1 << 18
_GATHER = 0.1
"""Seconds from one read to the next where much happens: what comes first is reported at once."""
_HURRY = 0.02
"""The same where the kernel's queue (16,384 events by default) would else fill up between two reads."""
_MANY = 5_000
_BACKLOG = 100_000
"""Events of one read after nobody had read for a while: all of them, or what is left would count as having just happened."""
_QUIET = 1.0
"""Seconds of silence after which it is known that this process was scheduled."""


class Events(Struct):
    """Change events that were read together: by box how often each name was added and deleted, unordered. A foreign consumer
    gives a message back under the same name every time. ``lost``: the kernel's queue overflowed. ``ended``: a directory was
    removed, moved or unmounted."""

    added: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    deleted: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    back: dict[str, set[str]] | None = None
    """Names that were both added and deleted and whose last event was the addition. None: the order is unknown."""
    count: int = 0
    lost: bool = False
    ended: bool = False
    late: float = 0.0
    """Seconds for which nobody had read before: what is reported may have happened that long ago."""
    at: float = 0.0
    """The time of about all of it, epoch seconds."""

    def back_in(self, box: str) -> Set[str]:
        """Returns the names in ``back`` of a box; none where that is not known."""
        return frozenset() if self.back is None else self.back.get(box, set())

    def of(self, box: str) -> tuple[Counter[str], Counter[str]]:
        """Returns what was added to a box and deleted from it."""
        return self.added.get(box, Counter()), self.deleted.get(box, Counter())


class Event(Frozen):
    """Single event. ``moved``: a file was moved to this name; ``closed``: it was closed after it was open for writing; ``made``:
    the name is new, which includes moved files."""

    watch: int
    name: str
    moved: bool
    closed: bool
    made: bool
    lost: bool
    ended: bool


def inotify_source(
    boxes: Mapping[str, str], stop: StopEvent, monotonic: Clock = time.monotonic
) -> Iterator[Events]:
    """Yields the events in the directories ``boxes``, path → name of the box, until ``stop`` is set; at the start and after each
    second without any it yields ``Events`` that are empty. Raises ``OSError`` where a directory cannot be watched, with the limit
    that was reached."""
    fd = listening()
    try:
        watched = {_watch(fd, path): box for path, box in boxes.items()}
        readable = select.poll()
        readable.register(fd, select.POLLIN)
        readable.register(stop, select.POLLIN)
        read_at = monotonic()
        yield Events()
        while not stop.is_set():
            if not readable.poll(_QUIET * 1_000):
                read_at = monotonic()
                yield Events()
                continue
            now = monotonic()
            events, read_at = Events(late=now - read_at), now
            most = _BACKLOG if events.late > _QUIET else 2 * _MANY
            while data := _read(fd):
                parsed(data, watched, events)
                if len(data) < _READ // 2 or events.count > most:
                    break  # what is left or comes meanwhile is of the next read
            yield events
            stop.wait(_HURRY if events.count > _MANY else _GATHER)
    finally:
        os.close(fd)


def parsed(data: bytes, watched: Mapping[int, str], into: Events) -> None:
    """Adds the events in ``data``, as inotify(7) lays them out, to ``into``. ``watched`` are the boxes by the numbers of their
    watches. Dot files are no messages: they are only counted."""
    if into.back is None:
        into.back = defaultdict(set)
    for watch, mask, raw in _split(data):
        into.count += 1
        where = watched.get(watch)
        if where is None or not mask & _NAMED:
            into.lost |= bool(mask & _OVERFLOW)
            into.ended |= bool(mask & _ENDED)
        elif raw and raw[:1] != b".":
            name = os.fsdecode(raw)
            if not mask & _ADDED:
                into.deleted[where][name] += 1
                into.back[where].discard(name)
                continue
            into.added[where][name] += 1
            if name in into.deleted[where]:
                into.back[where].add(name)


def in_order(data: bytes) -> Iterator[Event]:
    """Each event in ``data`` by itself, in the order in which it happened."""
    for watch, mask, name in _split(data):
        yield Event(
            watch, os.fsdecode(name), bool(mask & _MOVED_TO), bool(mask & _CLOSE_WRITE), bool(mask & _ADDED),
            bool(mask & _OVERFLOW), bool(mask & _ENDED),
        )  # fmt: skip


def _split(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yields the watch, the mask and the name of each event."""
    at = 0
    while at < len(data):
        watch, mask, _, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size + length
        yield watch, mask, data[at - length : at].rstrip(b"\0")


def listening() -> int:
    """A descriptor to read events from, which does not block. Raises ``OSError``."""
    try:
        return inotify_init()
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        raise OSError(errno.EMFILE, "inotify instances are used up (fs.inotify.max_user_instances)") from None


def watch_fd(fd: int, folder: int) -> int:
    """Listens in an open folder, also to files that are closed after writing; the number that its events have. Raises
    ``OSError``."""
    path = f"/proc/self/fd/{folder}/."  # by the descriptor: the path may lead elsewhere by now
    return _watch(fd, path, _WANTED | _CLOSE_WRITE)


def _watch(fd: int, path: str, mask: int = _WANTED) -> int:
    try:
        return inotify_add_watch(fd, path, mask)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OSError(errno.ENOSPC, "the limit of inotify watches is reached (fs.inotify.max_user_watches)", path) from None


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _READ)
    except BlockingIOError:
        return b""


# Watches folders where a hint to look again is enough: poll logs, settings, lock files, and cursor files without inotify(7).
#
# watchfiles does it, in one thread. Measured at rest with three folders: at a step of 200 ms it takes 0.2 ms of CPU and 5 wakes a
# second, at 20 ms 2.5 ms and 50 wakes. It adds two threads, three descriptors, and 1.3 MB beside Textual. Looks that a dashboard
# takes anyway cost 2.5 ms a second; with this watch it is 3.0 ms, because the library also wakes when files are only opened.
# ``new``, ``cur`` and cursor files stay with the kernel reader where there is one.

Changes = set[tuple[int, str]]
"""(1 added, 2 modified, 3 deleted; path)"""

_REMOVED = 3
_STEP, _DEBOUNCE, _BEAT = 400, 800, 5_000
"""Milliseconds: from one look at the gathered changes to the next, until many are reported at the latest, and without any."""
_AGAIN = 30.0
"""Seconds after which folders are watched again that could not be watched."""
_LATER = 1.0
"""Seconds after which the library is loaded: the first picture does not wait for it, and the second look sees what it missed."""


def watchfiles_source(
    paths: Iterable[str], stop: threading.Event, *, step: int = 20, debounce: int = 100, beat: int = 1_000
) -> Iterator[Changes]:
    """Watches through watchfiles: not recursive, without a filter, never polling. Yields an empty set each ``beat`` ms."""
    import logging  # with watchfiles it takes 50 ms: only for those who watch

    from watchfiles import watch

    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    yield from watch(
        *paths, recursive=False, watch_filter=None, step=step, debounce=debounce, force_polling=False, rust_timeout=beat,
        yield_on_timeout=True, stop_event=stop, raise_interrupt=False,
    )  # type: ignore[misc]  # fmt: skip


class FolderWatch:
    """Calls ``changed`` in a thread of its own soon after a name that matters changed: ``wanted`` maps the real path of each
    folder to tests, of which a name that matters passes one. Folders may come and go. Whoever is called looks regularly, too:
    where no events come (network file systems, limits that are reached) nothing is missed, only seen later."""

    def __init__(self, wanted: Mapping[str, Sequence[Callable[[str], bool]]], changed: Callable[[], object]) -> None:
        self._wanted = wanted
        self._changed = changed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spooltop-folders", daemon=True)

    def start(self) -> None:
        """Starts the thread; does nothing where it runs or there is nothing to watch."""
        if self._wanted and self._thread.ident is None and not self._stop.is_set():
            self._thread.start()

    def stop(self) -> None:
        """Asks the thread to end, which takes it up to the ``_STEP``."""
        self._stop.set()

    def close(self) -> None:
        """Ends the thread and waits for it. May be called twice."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        self._stop.wait(_LATER)
        while not self._stop.is_set():
            folders = self._existing()
            try:
                self._listen(folders)
            except Exception:  # noqa: BLE001  whatever the watcher dies of (a limit, a name), regular looks go on
                self._stop.wait(_AGAIN)

    def _listen(self, folders: list[str]) -> None:
        """Watches ``folders`` until others exist. Without any it waits for one."""
        if not folders:
            self._stop.wait(_AGAIN)
            return
        for changes in watchfiles_source(folders, self._stop, step=_STEP, debounce=_DEBOUNCE, beat=_BEAT):
            if any(self._matters(path) for _, path in changes):
                self._changed()
            removed = any(kind == _REMOVED and path in self._wanted for kind, path in changes)
            if self._stop.is_set() or removed or self._existing() != folders:
                return

    def _matters(self, path: str) -> bool:
        folder, name = os.path.split(path)
        return path in self._wanted or any(test(name) for test in self._wanted.get(folder, ()))

    def _existing(self) -> list[str]:
        return [folder for folder in self._wanted if os.path.isdir(folder) and os.access(folder, os.R_OK)]


# Names that matter beside the boxes of a directory: lock files, cursor files, settings, the logs of pollers.

def side_watch(
    target: str, side_files: Sequence[str], cursor_files: Sequence[str], wake: Callable[[], object]
) -> FolderWatch:
    """Watches what a look reads besides the boxes, and calls ``wake`` where it changed: lock files in the directory ``target``
    and above it, ``side_files`` (globs), and cursor files where there is no inotify(7).

    Never ``/etc``: every process that starts opens files there, which on a busy machine wakes the library 30 times a second. Each
    look checks the settings file there anyway.
    """
    wanted: dict[str, list[Callable[[str], bool]]] = {}

    def add(folder: str, matters: Callable[[str], bool]) -> None:
        wanted.setdefault(os.path.realpath(folder), []).append(matters)

    own = (target, os.path.join(target, ".."))
    for folder in own:
        add(folder, is_lock_name)
    for folders, pattern in map(os.path.split, side_files):
        for folder in glob.glob(folders or "."):  # noqa: PTH207  Path.glob takes no absolute ones
            if folder != "/etc":
                add(folder, partial(fnmatchcase, pat=pattern))
    if not HAS_INOTIFY:
        for folder in (*own, os.path.join(target, "cursors"), *cursor_files, *map(os.path.dirname, cursor_files)):
            add(folder, lambda name: name.endswith(".json"))
    return FolderWatch(wanted, wake)


# Change events of the boxes, as a look takes them.

class EventReport(Struct):
    """Events since the last ``take``. ``exact`` is False if some may be missing. ``listening`` is False if nothing listens now:
    ``reason`` says why, and is empty while listening begins. ``restarted``: something was lost, so everything has to be listed
    again. ``until``: the events up to then are included (epoch seconds); None before listening began."""

    batches: list[Events] = []
    exact: bool = False
    listening: bool = False
    reason: str = ""
    restarted: bool = False
    until: float | None = None


# Waits until the next look is due.

class ChangeWaiter(Struct):
    """Waits for a change, or for the time at which a look is due. Thread-safe. Listeners set ``changed``, and so does whoever
    wants a look."""

    _monotonic: Clock
    changed: threading.Event = field(default_factory=threading.Event)
    _due: float | None = None

    def set_due(self, due: float | None, within: float | None) -> None:
        """Makes a look due at ``due`` (monotonic seconds; None: not by time), and in ``within`` seconds at the latest."""
        soon = None if within is None else self._monotonic() + within
        self._due = min((at for at in (due, soon) if at is not None), default=None)

    def wait(self, timeout: float) -> bool:
        """Returns True if a look is due, False after ``timeout`` seconds."""
        due = self._due
        changed = self.changed.wait(timeout if due is None else max(0.0, min(timeout, due - self._monotonic())))
        self.changed.clear()
        return changed or (due is not None and self._monotonic() >= due)


# Listens for changes in the boxes of a spool.

_SUSPICIOUS = 8_192
"""Changes of watchfiles, which does not say if some were lost, from which on the kernel's queue may have overflowed."""
_FORGET = 200_000
_SILENCE = 4.0
LATE = 1.5
"""Seconds without a read after which the time of a read does not tell when the events happened."""
_GIVE_UP_AFTER = 5
_GIVE_UP_WITHIN = 60.0
_BACK_OFF = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)


def kernel_source(boxes: Mapping[str, Box], stop: StopEvent) -> Iterator[Changes | Events]:
    """Yields the events of inotify(7) if there is inotify, else those of watchfiles, and something empty at least once a second,
    until the event is set."""
    return inotify_source(boxes, stop) if HAS_INOTIFY else watchfiles_source(boxes, stop)


class Watcher:
    """Listens in ``boxes``, path → box, in a thread of its own. ``changed`` is set when something was heard; ``take`` is
    thread-safe."""

    def __init__(self, boxes: Mapping[str, Box], changed: threading.Event, world: System) -> None:
        self._boxes = boxes
        self._world = world
        self._lock = threading.Lock()
        self._report = EventReport()
        self._changes = 0
        self._changed = changed
        self._stop = StopEvent()
        self._thread = threading.Thread(target=self._run, name="spooltop-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and waits for it."""
        self._stop.set()
        self._thread.join(timeout=5)

    def take(self) -> EventReport:
        with self._lock:
            report, self._changes = self._report, 0
            self._report = EventReport([], report.listening, report.listening, report.reason, until=report.until)
        return report

    def _run(self) -> None:
        failures: deque[float] = deque(maxlen=_GIVE_UP_AFTER)
        while not self._stop.is_set():
            reason = "change events ended"
            try:
                self._listen()
            except Exception as problem:  # noqa: BLE001 - whatever the watcher dies of, the scans go on
                reason = f"change events failed: {str(problem) or type(problem).__name__}"
                failures.append(self._world.monotonic())
            with self._lock:
                report = self._report
                report.listening, report.reason = False, reason
                report.exact, report.restarted = False, True
            self._changed.set()
            many = len(failures) == _GIVE_UP_AFTER and failures[-1] - failures[0] < _GIVE_UP_WITHIN
            self._stop.wait(_BACK_OFF[-1 if many else min(len(failures), len(_BACK_OFF)) - 1])
        self._stop.release()

    def _listen(self) -> None:
        beat: float | None = None
        for changes in kernel_source(self._boxes, self._stop):
            now = self._world.monotonic()
            events = changes if isinstance(changes, Events) else _as_events(changes, self._boxes)
            # A thread that was stopped (Ctrl-Z, a suspended machine) cannot know what the kernel's queue lost meanwhile.
            lost = events.lost or (beat is not None and now - beat > _SILENCE)
            beat = now
            events.at = self._world.clock()
            named = any(events.added.values()) or any(events.deleted.values())
            with self._lock:
                report = self._report
                report.until = events.at
                report.listening, report.reason = True, ""
                self._changes += events.count
                if self._changes >= _FORGET:
                    report.batches.clear()  # nobody takes them: the next look is a scan anyway
                elif named:
                    report.batches.append(events)
                if lost or self._changes >= (_FORGET if events is changes else _SUSPICIOUS):
                    report.exact, report.restarted = False, True
            if named or lost:
                self._changed.set()
            if self._stop.is_set():
                return
            if events.ended:
                raise OSError("a watched directory was removed")


def _as_events(changes: Changes, boxes: Mapping[str, Box]) -> Events:
    events = Events(count=len(changes), ended=any(kind == 3 and path in boxes for kind, path in changes))
    for kind, path in changes:
        folder, _, name = path.rpartition("/")
        if folder in boxes and kind in (1, 3) and name and name[0] != ".":
            (events.added if kind == 1 else events.deleted)[boxes[folder]][name] += 1
    return events

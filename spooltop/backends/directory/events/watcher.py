"""Change events as hints: one thread watches ``new`` and ``cur`` and collects the events until a look takes them.

Events get lost (the kernel's queue overflows) and have no order within a batch; where watchfiles has to do, they are lost without
a sign, and one name that is not UTF-8 ends a watcher for good. So nothing rests on them but when to look, and rates, which say
where they are lower bounds.
"""

from __future__ import annotations

import glob
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial

from msgspec import Struct, field

from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.system.syscalls import HAS_INOTIFY
from spooltop.model.proc import Mount
from spooltop.model.snapshot import Watch
from spooltop.model.vocabulary import Box, is_lock_name
from spooltop.stop_event import StopEvent

from ..storage.disk import changes_unseen, sends_no_events
from ..world import System
from .inotify import Events, inotify_source

# Watches folders where a hint to look again is enough: poll logs, settings, lock files, and cursor files without inotify(7).
#
# watchfiles does it, in one thread. Measured at rest with three folders: at a step of 200 ms it takes 0.2 ms of CPU and 5 wakes a
# second, at 20 ms 2.5 ms and 50 wakes. It adds two threads, three descriptors, and 1.3 MB beside Textual. Looks that a dashboard
# takes anyway cost 2.5 ms a second; with this watch it is 3.0 ms, because the library also wakes when files are only opened.
# ``new``, ``cur`` and cursor files stay with the kernel reader where there is one; ``inotify`` has the measured reason.

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

    batches: list[Events] = field(default_factory=list)
    exact: bool = False
    listening: bool = False
    reason: str = ""
    restarted: bool = False
    until: float | None = None


# Waits until the next look is due.

class ChangeWaiter:
    """Waits for a change, or for the time at which a look is due. Thread-safe. Listeners set ``changed``, and so does whoever
    wants a look."""

    def __init__(self, world: System) -> None:
        self.changed = threading.Event()
        self._monotonic = world.monotonic
        self._due: float | None = None

    def set_due(self, due: float | None, *, within: float | None = None) -> None:
        """Makes a look due at ``due`` (monotonic seconds; None: not by time), and in ``within`` seconds at the latest."""
        soon = None if within is None else self._monotonic() + within
        self._due = min((at for at in (due, soon) if at is not None), default=None)

    def wait(self, timeout: float) -> bool:
        """Returns True if a look is due, False after ``timeout`` seconds."""
        due = self._due
        changed = self.changed.wait(timeout if due is None else max(0.0, min(timeout, due - self._monotonic())))
        self.changed.clear()
        return changed or (due is not None and self._monotonic() >= due)


# Listens for changes in the boxes of a spool, where that works, and says how changes are noticed.

class EventListener:
    """Listens to ``new`` and ``cur``. ``changed`` is set whenever an event was received. Without ``wanted`` it does nothing, and
    each look stands alone."""

    def __init__(self, path: str, changed: threading.Event, world: System, *, wanted: bool) -> None:
        self._path = path
        self._changed = changed
        self._wanted = wanted
        self._world = world
        self._watcher: Watcher | None = None

    def take(self, dirs: SpoolDirs, mount: Mount | None) -> EventReport:
        """Returns the events since the last call; the first call begins to listen."""
        if not self._wanted or sends_no_events(mount):
            return EventReport()
        if self._watcher is None:
            there = [box for box, fd in ((Box.NEW, dirs.new), (Box.CUR, dirs.cur)) if fd is not None]
            if not there:
                return EventReport(reason="there is no box to watch")
            self._watcher = Watcher({os.path.join(self._path, box): box for box in there}, self._changed, self._world)
        return self._watcher.take()

    def starting(self, report: EventReport) -> bool:
        """True if it has begun to listen and has received nothing yet."""
        return self._watcher is not None and not report.listening and not report.reason

    def describe(self, report: EventReport, mount: Mount | None, *, period: float, since: float) -> Watch:
        """Describes how changes are noticed: by events, or by a listing every ``period`` seconds."""
        if not self._wanted:
            return Watch("once", "", None, since)
        if sends_no_events(mount):
            kind = mount.fs_type if mount is not None else "?"
            return Watch("scan", f"{kind} sends no events", period, since)
        if report.listening or not report.reason:
            return Watch("live", "overlay", period, since) if changes_unseen(mount) else Watch("live", "", None, since)
        return Watch("scan", report.reason, period, since)

    def close(self) -> None:
        """Stops listening. The next ``take`` begins anew, in the directories that have these names then."""
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None


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
            (events.added if kind == 1 else events.deleted).setdefault(boxes[folder], Counter())[name] += 1
    return events

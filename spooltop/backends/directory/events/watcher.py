"""Change events as hints: one thread watches ``new`` and ``cur`` and collects the events until a look takes them.

Events get lost (the kernel's queue overflows) and have no order within a batch; where watchfiles has to do, they are lost without
a sign, and one name that is not UTF-8 ends a watcher for good. So nothing rests on them but when to look, and rates, which say
where they are lower bounds.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set

from msgspec import Struct, field

from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.system.syscalls import HAS_INOTIFY
from spooltop.model.look.observation import Watch
from spooltop.model.vocabulary import Box
from spooltop.stop_event import StopEvent

from ..storage.disk import Mount, changes_unseen, sends_no_events
from ..world import System
from .folder_watch import Changes, watchfiles_source
from .inotify import Events, inotify_source

# Change events of the boxes, as a look takes them. A command that looks once takes an empty report and loads no watcher.


class EventBatch(Struct, frozen=True):
    """Names added and deleted at about one moment (``at``: epoch seconds), by box and unordered. ``back`` holds the names that
    were both added to ``new`` and deleted from it and are there at the end; None where that is not known. ``late``: all of it may
    have happened seconds earlier, because this process was stopped or not scheduled."""

    at: float
    added: Mapping[Box, set[str]]
    deleted: Mapping[Box, set[str]]
    back: Set[str] | None = None
    late: bool = False
    back_in_cur: Set[str] = frozenset()
    """The same for ``cur``; empty where that is not known."""
    repeats: Mapping[Box, Mapping[str, int]] = field(default_factory=dict)
    """Number of times each name was added after the first time, by box."""
    gone_again: Mapping[Box, Mapping[str, int]] = field(default_factory=dict)
    """Number of times each name was deleted after the first time, by box."""

    def times_added(self, box: Box, name: str) -> int:
        """Returns how often ``name``, one of ``added``, was added."""
        return 1 + self.repeats.get(box, {}).get(name, 0)

    def times_deleted(self, box: Box, name: str) -> int:
        """Returns how often ``name``, one of ``deleted``, was deleted."""
        return 1 + self.gone_again.get(box, {}).get(name, 0)


class EventReport(Struct, frozen=True):
    """Events since the last ``take``. ``exact`` is False if some may be missing. ``listening`` is False if nothing listens now:
    ``reason`` says why, and is empty while listening begins. ``restarted``: something was lost, so everything has to be listed
    again. ``until``: the events up to then are included (epoch seconds); None before listening began."""

    batches: tuple[EventBatch, ...] = ()
    exact: bool = False
    listening: bool = False
    reason: str = ""
    restarted: bool = False
    until: float | None = None


# Waits until the next look is due.

class ChangeWaiter:
    """Waits for a change, for ``wake``, or for the time at which a look is due. Thread-safe. Listeners set ``changed``."""

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

    def wake(self) -> None:
        """Ends a ``wait`` in another thread."""
        self.changed.set()


# Listens for changes in the boxes of a spool, where that works, and says how changes are noticed.

class EventListener:
    """Listens to ``new`` and ``cur``. ``changed`` is set whenever an event was received. Without ``wanted`` it does nothing and
    loads no watcher, and each look stands alone. ``source`` yields the events; None: the kernel."""

    def __init__(
        self,
        path: str,
        changed: threading.Event,
        world: System,
        *,
        wanted: bool,
        source: Source | None,
    ) -> None:
        self._path = path
        self._changed = changed
        self._wanted = wanted
        self._world = world
        self._source = source
        self._watcher: Watcher | None = None

    def take(self, dirs: SpoolDirs, mount: Mount | None) -> EventReport:
        """Returns the events since the last call; the first call begins to listen."""
        if not self._wanted or sends_no_events(mount):
            return EventReport()
        if self._watcher is None:

            there = [box for box, fd in ((Box.NEW, dirs.new), (Box.CUR, dirs.cur)) if fd is not None]
            if not there:
                return EventReport(reason="there is no box to watch")
            paths = {box: os.path.join(self._path, box.value) for box in there}
            clock, monotonic = self._world.clock, self._world.monotonic
            source = self._source or kernel_source
            self._watcher = Watcher(paths, self._changed, clock=clock, monotonic=monotonic, source=source)
            self._watcher.start()
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
_FORGET = 200_000
_SILENCE = 4.0
_LATE = 1.5
"""Seconds without a read after which the time of a read does not tell when the events happened."""
_GIVE_UP_AFTER = 5
_GIVE_UP_WITHIN = 60.0
_BACK_OFF = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)

Source = Callable[[Iterable[str], StopEvent], Iterator[Changes | Events]]
"""Yields what happened, and something empty at least once a second, until the event is set. ``Events`` say if some were lost. Of
``Changes`` this is assumed if they are so many that the kernel's queue may have overflowed."""


def kernel_source(paths: Iterable[str], stop: StopEvent) -> Iterator[Changes | Events]:
    """Yields the events of inotify(7) if there is inotify, else those of watchfiles."""
    return inotify_source(paths, stop) if HAS_INOTIFY else watchfiles_source(paths, stop)


class _Shared(Struct):
    batches: list[EventBatch] = field(default_factory=list)
    exact: bool = False
    listening: bool = False
    reason: str = ""
    restarted: bool = False
    changes: int = 0
    until: float | None = None


class Watcher:
    """``paths`` are the boxes to watch; ``changed`` is set when something was heard. Start it once; ``take`` is thread-safe."""

    def __init__(
        self,
        paths: Mapping[Box, str],
        changed: threading.Event,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        source: Source = kernel_source,
        back_off: tuple[float, ...] = _BACK_OFF,
    ) -> None:
        self._paths = dict(paths)
        self._clock = clock
        self._monotonic = monotonic
        self._source = source
        self._back_off = back_off
        self._lock = threading.Lock()
        self._shared = _Shared()
        self._changed = changed
        self._stop = StopEvent()
        self._thread = threading.Thread(target=self._run, name="spooltop-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and waits for it."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def take(self) -> EventReport:
        with self._lock:
            shared = self._shared
            report = EventReport(
                tuple(shared.batches), shared.exact, shared.listening, shared.reason, shared.restarted, shared.until
            )
            shared.batches, shared.changes, shared.restarted = [], 0, False
            shared.exact = shared.listening
        return report

    def _run(self) -> None:
        failures: deque[float] = deque(maxlen=_GIVE_UP_AFTER)
        while not self._stop.is_set():
            reason = "change events ended"
            try:
                self._listen()
            except Exception as problem:  # noqa: BLE001 - whatever the watcher dies of, the scans go on
                reason = f"change events failed: {str(problem) or type(problem).__name__}"
                failures.append(self._monotonic())
            with self._lock:
                self._shared.listening = self._shared.exact = False
                self._shared.restarted = True
                self._shared.reason = reason
            self._changed.set()
            many = len(failures) == _GIVE_UP_AFTER and failures[-1] - failures[0] < _GIVE_UP_WITHIN
            pause = self._back_off[-1] if many else self._back_off[min(len(failures), len(self._back_off)) - 1]
            self._stop.wait(pause)
        self._stop.release()

    def _listen(self) -> None:
        boxes = {path: box for box, path in self._paths.items()}
        beat = self._monotonic()
        first = True
        for changes in self._source(list(self._paths.values()), self._stop):
            now = self._monotonic()
            # A thread that was stopped (Ctrl-Z, a suspended machine) cannot know what the kernel's queue lost meanwhile.
            lost = not first and now - beat > _SILENCE
            beat = now
            events = changes if isinstance(changes, Events) else _as_events(changes, boxes)
            at = self._clock()
            batch = self._batch(events, boxes, at) if events.count else None
            with self._lock:
                shared = self._shared
                shared.until = at
                shared.changes += events.count
                if lost or events.lost or (events is not changes and shared.changes >= _SUSPICIOUS):
                    shared.exact = False
                    shared.restarted = True
                shared.listening, shared.reason = True, ""
                if shared.changes >= _FORGET:
                    shared.batches.clear()  # nobody takes them: the next look is a scan anyway
                    shared.exact = False
                    shared.restarted = True
                elif batch is not None:
                    shared.batches.append(batch)
            first = False
            if batch is not None or lost or events.lost:
                self._changed.set()
            if self._stop.is_set():
                return
            if events.ended:
                raise OSError("a watched directory was removed")

    def _batch(self, events: Events, boxes: Mapping[str, Box], at: float) -> EventBatch | None:
        added = {boxes[path]: names for path, names in events.added.items() if names}
        deleted = {boxes[path]: names for path, names in events.deleted.items() if names}
        if not added and not deleted:
            return None
        back = None if events.back is None else events.back.get(self._paths.get(Box.NEW, ""), set())
        in_cur: Set[str] = (events.back or {}).get(self._paths.get(Box.CUR, ""), frozenset())
        repeats = {boxes[path]: often for path, often in events.repeats.items() if often}
        gone_again = {boxes[path]: often for path, often in events.gone_again.items() if often}
        return EventBatch(at, added, deleted, back, events.late > _LATE, in_cur, repeats, gone_again)


def _as_events(changes: Changes, boxes: Mapping[str, Box]) -> Events:
    events = Events(count=len(changes), ended=any(kind == 3 and path in boxes for kind, path in changes))
    for kind, path in changes:
        folder, _, name = path.rpartition("/")
        if folder in boxes and kind in (1, 3) and name and name[0] != ".":
            (events.added if kind == 1 else events.deleted).setdefault(folder, set()).add(name)
    return events

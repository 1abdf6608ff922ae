"""Change events as hints: one thread watches ``new`` and ``cur`` and collects the events until a look takes them.

Events get lost (the kernel's queue overflows) and have no order within a batch; where watchfiles has to do, they are lost without
a sign, and one name that is not UTF-8 ends a watcher for good. So nothing rests on them but when to look, and rates, which say
where they are lower bounds.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set

from spooltop.engine.system.syscalls import HAS_INOTIFY
from spooltop.model.vocabulary import Box
from spooltop.records import dataclass, field
from spooltop.stop_event import StopEvent

from .folder_watch import Changes, watchfiles_source
from .inotify import Events, inotify_source
from .report import EventBatch, EventReport

__all__ = ["Source", "Watcher", "kernel_source"]

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


@dataclass(slots=True)
class _Shared:
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

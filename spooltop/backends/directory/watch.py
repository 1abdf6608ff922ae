"""Change events as hints: one thread that watches ``new`` and ``cur`` and puts what it hears where the looker picks it up.

Events get lost without a sign (the kernel's queue overflows), have no order within a batch, and one name that is not UTF-8 ends a
watcher for good. So nothing rests on them but when to look, and rates, which say where they are lower bounds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from spooltop.model.words import Box

__all__ = ["Batch", "Heard", "Watcher"]

_SUSPICIOUS = 8_192
_FORGET = 200_000
_SILENCE = 4.0
_GIVE_UP_AFTER = 5
_GIVE_UP_WITHIN = 60.0
_BACK_OFF = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)

Source = Callable[[Iterable[str], threading.Event], Iterator[set[tuple[int, str]]]]
"""Yields sets of (1 added, 2 modified, 3 deleted; path), an empty one at least each second, until the event is set."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What came and went at about one moment (``at``: epoch seconds): names by box, without order."""

    at: float
    added: Mapping[Box, set[str]]
    deleted: Mapping[Box, set[str]]


@dataclass(frozen=True, slots=True)
class Heard:
    """All batches since the last ``take``. ``exact`` is False where some may be missing, ``listening`` where nobody listens now
    (``reason`` says why; empty: it has only begun). ``restarted``: something was lost, everything is to be listed again."""

    batches: tuple[Batch, ...] = ()
    exact: bool = False
    listening: bool = False
    reason: str = ""
    restarted: bool = False


def watchfiles_source(paths: Iterable[str], stop: threading.Event) -> Iterator[set[tuple[int, str]]]:
    """The real source: inotify through watchfiles, not recursive, without a filter, never polling."""
    from watchfiles import watch

    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    yield from watch(
        *paths, recursive=False, watch_filter=None, step=20, debounce=100, force_polling=False, rust_timeout=1_000,
        yield_on_timeout=True, stop_event=stop, raise_interrupt=False,
    )  # type: ignore[misc]  # fmt: skip


@dataclass(slots=True)
class _Shared:
    batches: list[Batch] = field(default_factory=list)
    exact: bool = False
    listening: bool = False
    reason: str = ""
    restarted: bool = False
    changes: int = 0


class Watcher:
    """``paths`` are the boxes to watch; ``changed`` is set when something was heard. Start it once; ``take`` is thread-safe."""

    def __init__(
        self,
        paths: Mapping[Box, str],
        changed: threading.Event,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        source: Source = watchfiles_source,
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
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spooltop-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and waits for it."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def take(self) -> Heard:
        with self._lock:
            shared = self._shared
            heard = Heard(tuple(shared.batches), shared.exact, shared.listening, shared.reason, shared.restarted)
            shared.batches, shared.changes, shared.restarted = [], 0, False
            shared.exact = shared.listening
        return heard

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

    def _listen(self) -> None:
        boxes = {path: box for box, path in self._paths.items()}
        beat = self._monotonic()
        first = True
        for changes in self._source(list(self._paths.values()), self._stop):
            now = self._monotonic()
            # A thread that was stopped (Ctrl-Z, a suspended machine) cannot know what the kernel's queue lost meanwhile.
            lost = not first and now - beat > _SILENCE
            beat = now
            batch = self._batch(changes, boxes) if changes else None
            with self._lock:
                shared = self._shared
                shared.changes += len(changes)
                if lost or shared.changes >= _SUSPICIOUS:
                    shared.exact = False
                    shared.restarted = True
                shared.listening, shared.reason = True, ""
                if shared.changes >= _FORGET:
                    shared.batches.clear()  # nobody takes them: the next look is a scan anyway
                elif batch is not None:
                    shared.batches.append(batch)
            first = False
            if batch is not None or lost:
                self._changed.set()
            if self._stop.is_set():
                return
            if any(kind == 3 and path in boxes for kind, path in changes):
                raise OSError("a watched directory was removed")

    def _batch(self, changes: set[tuple[int, str]], boxes: Mapping[str, Box]) -> Batch | None:
        added: dict[Box, set[str]] = {}
        deleted: dict[Box, set[str]] = {}
        for kind, path in changes:
            folder, _, name = path.rpartition("/")
            box = boxes.get(folder)
            if box is None or name.startswith("."):
                continue
            if kind == 1:
                added.setdefault(box, set()).add(name)
            elif kind == 3:
                deleted.setdefault(box, set()).add(name)
        return Batch(self._clock(), added, deleted) if added or deleted else None

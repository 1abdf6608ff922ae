"""Watches several targets, each in a thread of its own, until it is stopped. A target that cannot be opened is tried again."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from spooltop.errors import SpooltopError

if TYPE_CHECKING:
    from spooltop.control import Control
    from spooltop.model.look.snapshot import Snapshot
    from spooltop.model.operations.plan import OperationRecord

__all__ = ["OperationFeed", "Sink", "Watching", "require_one", "stopped_by_signals"]

_AGAIN = 15.0
"""Seconds after which a target that cannot be opened is tried again, and after which one without changes is looked at again."""
_BUSY = 1.0
"""Seconds between two looks at least."""
_RESTS = 20
_STOPPED_WITHIN = 2.0
"""Seconds that a stop waits for the threads; one that hangs in a system call does not keep the process."""


class Sink(Protocol):
    """Receives the looks at one target, in the thread that makes them."""

    def look(self, control: Control, snapshot: Snapshot, seconds: float) -> None:
        """Takes a snapshot that took ``seconds`` to make."""
        ...

    def failed(self, why: str, at: float) -> None:
        """Learns that the target could not be looked at, at ``at`` (epoch seconds)."""
        ...


class OperationFeed:
    """Reads the newest operations of a target after a look, and rests ``_RESTS`` times as long as that took: where the journal is
    large, reading it takes a hundred times as long as the look."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._due = -math.inf

    def newest(self, control: Control, most: int | None) -> list[OperationRecord]:
        """Returns the newest operations, newest first; none while it rests, of a target without operations, or with a log that
        may not be read."""
        began = self._monotonic()
        if began < self._due:
            return []
        try:
            return control.operations(most=most)
        except SpooltopError:
            return []
        finally:
            ended = self._monotonic()
            self._due = ended + _RESTS * (ended - began)


def require_one(targets: Iterable[str], opened: Callable[[str], Control]) -> None:
    """Raises the error of the first of ``targets`` if none of them can be opened: a wrong path would be waited for for ever."""
    errors: list[SpooltopError] = []
    for target in targets:
        try:
            opened(target).close()
            return
        except SpooltopError as error:
            errors.append(error)
    if errors:
        raise errors[0]


class Watching:
    """Watches ``targets``, which ``opened`` opens, for their sinks. ``clock`` measures the time of a look."""

    def __init__(
        self, targets: dict[str, Sink], opened: Callable[[str], Control], *, again: float = _AGAIN, busy: float = _BUSY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._opened = opened
        self._again = again
        self._busy = busy
        self._clock = clock
        self._stop = threading.Event()
        self._controls: dict[str, Control] = {}
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=pair, name=f"watch {pair[0]}", daemon=True) for pair in targets.items()
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until it is stopped, at most ``seconds``; True if it is."""
        return self._stop.wait(seconds)

    def stop(self) -> None:
        """Ends all threads. May be called by a signal handler, and again."""
        self._stop.set()

    def close(self) -> None:
        """Stops, and waits for the threads."""
        self._stop.set()
        with self._lock:
            controls = list(self._controls.values())
        for control in controls:
            control.wake()
        end = time.monotonic() + _STOPPED_WITHIN
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _run(self, target: str, sink: Sink) -> None:
        while not self._stop.is_set():
            try:
                with self._opened(target) as control:
                    self._look_on(target, control, sink)
            except (SpooltopError, OSError) as error:
                sink.failed(str(error), time.time())
                self._stop.wait(self._again)

    def _look_on(self, target: str, control: Control, sink: Sink) -> None:
        with self._lock:
            self._controls[target] = control
        try:
            while not self._stop.is_set():
                began = self._clock()
                snapshot = control.look()
                sink.look(control, snapshot, self._clock() - began)
                if not self._stop.wait(self._busy):
                    control.changes(self._again)
        finally:
            with self._lock:
                del self._controls[target]


@contextmanager
def stopped_by_signals(watching: Watching) -> Iterator[Watching]:
    """Starts ``watching``; SIGTERM and SIGINT stop it, and all its threads have ended then."""

    def stop(number: int, frame: FrameType | None) -> None:
        watching.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    watching.start()
    try:
        yield watching
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        watching.close()

"""Watches several targets, each in a thread of its own, until it is stopped. A target that cannot be opened is tried again."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from queue import Empty, SimpleQueue
from typing import Any, Protocol, Self

from msgspec import Struct, field

from spooltop.control import Control
from spooltop.errors import SpooltopError
from spooltop.model.plan import OperationRecord
from spooltop.model.snapshot import Snapshot

_AGAIN = 15.0
"""Seconds after which a target that cannot be opened is tried again, and after which one without changes is looked at again."""
_BUSY = 1.0
"""Seconds between two looks at least."""
_REST_SHARE = 0.01
"""Share of a core that the looks at targets without changes may take, all together, as long as they are not rarer than ``again``
says."""
_RESTS = 20
_HEARD = 0.5
"""Seconds that one system call waits: a signal that comes as the call begins does not end it, and is heard when it returns."""
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


class OperationFeed(Struct):
    """Reads the newest operations of a target after a look, and rests ``_RESTS`` times as long as that took: where the journal is
    large, reading it takes a hundred times as long as the look."""

    monotonic: Callable[[], float] = time.monotonic
    _due: float = -math.inf

    def newest(self, control: Control, most: int | None) -> list[OperationRecord] | None:
        """Returns the newest operations, newest first; none while it rests, or of a target without operations. None where the log
        may not be read."""
        began = self.monotonic()
        if began < self._due:
            return []
        try:
            return control.operations(most=most)
        except SpooltopError:
            return None
        finally:
            ended = self.monotonic()
            self._due = ended + _RESTS * (ended - began)


class Watching(Struct, eq=False):
    """Watches ``targets``, which ``opened`` opens, for their sinks. A target without changes is looked at again after ``again``
    seconds, or after ``soon`` where that costs little: no change of a directory tells that a process has ended.
    ``spent`` measures what this thread has used of a processor."""

    targets: Mapping[str, Sink]
    opened: Callable[[str], Control]
    again: float = _AGAIN
    soon: float = _AGAIN
    busy: float = _BUSY
    spent: Callable[[], float] = time.thread_time
    heard: SimpleQueue[Any] = field(default_factory=SimpleQueue)
    """Takes what sinks tell the main thread, and None for a stop. Its put, unlike ``Event.set``, is safe in a signal handler amid
    a wait for it."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _controls: dict[str, Control] = {}
    _threads: list[threading.Thread] = []

    def require_one(self) -> None:
        """Raises the error of the first target if none can be opened: a wrong path would be waited for for ever."""
        errors: list[SpooltopError] = []
        for target in self.targets:
            try:
                self.opened(target).close()
                return
            except SpooltopError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def __enter__(self) -> Self:
        for pair in self.targets.items():
            self._threads.append(threading.Thread(target=self._run, args=pair, name=f"watch {pair[0]}", daemon=True))
            self._threads[-1].start()
        return self

    def wait(self, seconds: float = math.inf) -> bool:
        """Waits until ``stop`` is called, at most ``seconds``; True if it was."""
        for _ in self.told(seconds):
            return False
        self.stop()  # for the next wait
        return True

    def told(self, seconds: float = math.inf) -> Iterator[Any]:
        """Yields what sinks put into ``heard`` until ``stop`` is called, and None after ``seconds``."""
        end = time.monotonic() + seconds
        while True:
            try:
                told = self.heard.get(timeout=max(0.0, min(_HEARD, end - time.monotonic())))
            except Empty:
                if time.monotonic() < end:
                    continue
                yield None
            else:
                if told is None:
                    return
                yield told

    def stop(self) -> None:
        """Ends the wait. May be called by a signal handler, by any thread, and again."""
        self.heard.put(None)

    def __exit__(self, *_raised: object) -> None:
        """Ends all threads, and waits for them."""
        self._stop.set()
        for control in list(self._controls.values()):
            control.wake()
        end = time.monotonic() + _STOPPED_WITHIN
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _run(self, target: str, sink: Sink) -> None:
        while not self._stop.is_set():
            try:
                with self.opened(target) as control:
                    self._controls[target] = control
                    while not self._stop.is_set():
                        began, spent = time.monotonic(), self.spent()
                        snapshot = control.look()
                        sink.look(control, snapshot, time.monotonic() - began)
                        cost = len(self.targets) * (self.spent() - spent)
                        if not self._stop.wait(self.busy):
                            control.changes(min(self.again, max(self.soon, cost / _REST_SHARE)))
            except (SpooltopError, OSError) as error:
                sink.failed(str(error), time.time())
                self._stop.wait(self.again)

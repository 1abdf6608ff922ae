"""Calls what may hang for ever, as on a server that is gone, in threads that can be left behind."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from .errors import DoesNotAnswer

T = TypeVar("T")
R = TypeVar("R")

_BEAT = 0.1
"""Seconds between two looks at a thread."""
_STALLED = 0.1
"""Share of the patience after which another thread goes on with the rest."""
_MOST = 256
"""Number of calls that have not ended from which on no second thread goes on with the rest."""
_left: dict[str, threading.Thread] = {}
"""Threads that were left behind, by the paths that they had called."""
_running: set[threading.Thread] = set()
"""Threads of all calls that have not ended, also of those that nobody has given up yet."""


class _Call(threading.Thread, Generic[R]):
    """Call in a thread of its own, which counts the time of a processor that it uses."""

    def __init__(self, call: Callable[[], R]) -> None:
        super().__init__(name="watched call", daemon=True)
        self._call = call
        self._clock: int | None = None
        self._results: list[R] = []
        self._error: BaseException | None = None
        _running.add(self)
        try:
            self.start()
        except RuntimeError:  # the system has no thread left
            _running.discard(self)
            raise

    def run(self) -> None:
        # Here, not where it is watched: of a thread that has ended pthread_getcpuclockid(3) may not be asked.
        if hasattr(time, "pthread_getcpuclockid"):
            self._clock = time.pthread_getcpuclockid(threading.get_ident())
        try:
            self._results.append(self._call())
        except BaseException as error:  # noqa: BLE001  whoever waits raises it
            self._error = error
        _running.discard(self)

    def hangs(self, patience: float, longest: float = math.inf, step: Callable[[], int] = int) -> bool:
        """Waits until the call has ended (False), its thread has used no processor for ``patience`` seconds, or ``step`` has
        returned the same for ``longest``."""
        used, since = -1.0, time.monotonic()
        place, began = step(), since
        while self.is_alive():
            self.join(min(_BEAT, patience))
            now = time.monotonic()
            if (at := step()) != place:
                place, began = at, now
            if (spent := self._used()) != used:
                used, since = spent, now
            elif now - since >= patience:
                return self.is_alive()
            if now - began >= longest:
                return self.is_alive()
        return False

    def _used(self) -> float:
        """Seconds of a processor that it has used so far; 0 where the system does not tell."""
        try:
            return 0.0 if self._clock is None else time.clock_gettime(self._clock)
        except OSError:
            return 0.0  # it has just ended

    def result(self) -> R:
        """The result of the call, which has ended. Raises its error."""
        if self._error is not None:
            raise self._error
        return self._results[0]


def call_watched(call: Callable[[], R], patience: float, about: str, step: Callable[[], str] = str) -> R:
    """Returns the result of ``call``, or raises its error. Raises ``DoesNotAnswer`` about the path ``about`` once its thread has
    used no processor for ``patience`` seconds: what takes long and goes on is waited for. ``step`` names what it is at. A path
    whose last call still hangs is not called again. Infinite patience needs no thread."""
    if patience == math.inf:
        return call()
    before = _left.get(about)
    if before is not None:
        before.join(patience)
        if before.is_alive():
            raise DoesNotAnswer(step(), patience, path=about)
        _left.pop(about, None)
    running = _Call(call)
    try:
        if running.hangs(patience):
            raise DoesNotAnswer(step(), patience, path=about)
    finally:
        if running.is_alive():  # given up here, or by Ctrl-C
            _left[about] = running
    return running.result()


def is_thread_left() -> bool:
    """Returns whether a call runs still, as one that hangs: the process cannot end without its thread."""
    return bool(_running)


def run_each(
    things: Sequence[T], call: Callable[[T], R], patience: float, *, at_once: bool = False, longest: float = math.inf
) -> list[R | None]:  # fmt: skip
    """Returns the result of ``call`` for each, None where it hung for ``patience`` seconds. ``call`` must not raise.

    One thread makes all calls, one after the other. A call that hangs keeps that thread, and another one goes on with the rest
    meanwhile; what takes long and goes on is waited for, unless it takes ``longest`` seconds. With ``at_once``, for calls that
    wait, each has a thread of its own, and all of them have ``patience`` seconds. Where no further thread may be had, those that
    run take the rest, if they come back in time.
    """
    results: list[R | None] = [None] * len(things)
    left = iter([*enumerate(things)])
    taken = -1

    def run() -> None:
        nonlocal taken
        for place, thing in left:
            taken = place
            results[place] = call(thing)

    running: list[_Call[None]] = []
    more = bool(things)
    while more:
        try:
            if running and len(_running) >= _MOST and not at_once:  # the first goes: what answers is seen, whatever hangs
                raise RuntimeError
            running.append(_Call(run))
        except RuntimeError:
            if not running:
                time.sleep(patience)  # whoever tries again at once would do nothing else
            break
        more = len(running) < len(things) if at_once else running[-1].hangs(patience * _STALLED, longest, lambda: taken)
    end = time.monotonic() + patience
    for one in running:
        one.join(max(0.0, end - time.monotonic()))
        if not one.is_alive():
            one.result()  # nothing, or the error of a call that raised against its promise
    return list(results)

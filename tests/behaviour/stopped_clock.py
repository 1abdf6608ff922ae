"""A clock that can be stopped, in place of the process's own. It is imported before anything that keeps a reference to
``time.time``."""

from __future__ import annotations

import time

__all__ = ["stop_clock"]

_time, _clock_gettime = time.time, time.clock_gettime
_stopped: list[float] = []
"""The time since the epoch and that since boot; empty while the clock goes on."""


def stop_clock(at: float) -> None:
    """Has this process and those that it forks see the time ``at`` for ever. The time since boot keeps its distance from it."""
    _stopped[:] = at, _clock_gettime(time.CLOCK_BOOTTIME) + at - _time()


def _now() -> float:
    return _stopped[0] if _stopped else _time()


def _now_of(clock: int) -> float:
    return _stopped[1] if _stopped and clock == time.CLOCK_BOOTTIME else _clock_gettime(clock)


time.time, time.clock_gettime = _now, _now_of

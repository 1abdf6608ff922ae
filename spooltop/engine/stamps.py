"""Times that are never given twice in a process, so that what was named first sorts first."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["next_us"]

_lock = threading.Lock()
_last = 0


def next_us(clock: Callable[[], float]) -> int:
    """µs since the epoch by ``clock``, or one more than the last one given where the clock stands or went back."""
    global _last
    now = int(clock() * 1e6)
    with _lock:
        _last = now if now > _last else _last + 1
        return _last

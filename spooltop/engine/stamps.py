"""Times that are never given twice in a process, so that what was named first sorts first, and the ids made of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from .names import encode_host

__all__ = ["Ids", "next_us"]

_FETCHED = 256

_lock = threading.Lock()
_last = 0


def next_us(clock: Callable[[], float]) -> int:
    """µs since the epoch by ``clock``, or one more than the last one given where the clock stands or went back."""
    global _last
    now = int(clock() * 1e6)
    with _lock:
        _last = now if now > _last else _last + 1
        return _last


class Ids:
    """Ids of our own, from random bits that are fetched some hundreds at a time. Thread-safe; ``forget`` in a forked child."""

    def __init__(self, host: str) -> None:
        self._at = "." + encode_host(host)
        self._random: list[str] = []

    def next(self, us: int) -> str:
        """The id of a message put at ``us``, µs since the epoch."""
        try:
            random = self._random.pop()
        except IndexError:
            bits = os.urandom(8 * _FETCHED).hex()
            random, *more = (bits[at : at + 16] for at in range(0, len(bits), 16))
            self._random = more
        return f"{us:016d}.P{os.getpid()}R{random}{self._at}"

    def forget(self) -> None:
        self._random = []

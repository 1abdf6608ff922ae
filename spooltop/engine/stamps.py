"""Times that are never given twice in a process, so that what was named first sorts first, and the ids made of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from .names import encode_host

__all__ = ["Ids"]

_FETCHED = 256
_DIGITS_16 = 10**15
_STEP = 2_000_000
"""µs. A clock that goes back by less is being adjusted, and the order is kept; one that goes back further was wrong, and what is
put from now on has the right time rather than one from the future."""

_lock = threading.Lock()
_last = 0


class Ids:
    """Ids of our own, in order; all but the time is made some hundreds at a time. Thread-safe; ``forget`` in a forked child."""

    def __init__(self, host: str) -> None:
        self._host = encode_host(host)
        self._made: list[str] = []

    def next(self, clock: Callable[[], float]) -> str:
        """The id of a message put now. Where ``clock`` stands, or went back by less than two seconds, it is a µs later than
        the last of this process; the random bits, not the time, keep ids apart."""
        global _last
        us = int(clock() * 1e6)
        with _lock:
            _last = us = _last + 1 if _last - _STEP < us <= _last else us
            if not self._made:
                bits, pid = os.urandom(8 * _FETCHED).hex(), os.getpid()
                self._made = [f".P{pid}R{bits[at : at + 16]}.{self._host}" for at in range(0, len(bits), 16)]
            rest = self._made.pop()
        return (str(us) if us >= _DIGITS_16 else f"{us:016d}") + rest

    def forget(self) -> None:
        """In a forked child: gives none of what the parent made, waits for no lock of its threads."""
        global _lock
        _lock = threading.Lock()
        self._made = []

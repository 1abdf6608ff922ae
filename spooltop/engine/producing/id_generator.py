"""Ids, and the times in them, which are never used twice in a process, so that messages sort in the order in which they were
named."""

from __future__ import annotations

import os
from collections.abc import Callable

from spooltop.errors import UsageError

from ..names import encode_host

__all__ = ["IdGenerator"]

_DIGITS_16 = 10**15
_STEP = 2_000_000
"""µs. A clock that goes back by less is being adjusted, and the order is kept. A clock that goes back further was wrong; later
messages then get the correct time rather than one from the future."""

_POOL = 64
"""Ids for which random bits are fetched at once: a call for each would cost as much as the rest of an id."""

_last = 0
_pool: list[str] = []
os.register_at_fork(after_in_child=_pool.clear)  # else a child would give the random bits that its parent gives


def _random() -> str:
    """64 random bits in hex, each given once in a process."""
    while True:
        try:
            return _pool.pop()  # one thread gets each
        except IndexError:
            block = os.urandom(8 * _POOL).hex()
            _pool.extend(block[start : start + 16] for start in range(0, len(block), 16))


class IdGenerator:
    """Ids of our own, in order. Thread-safe; ``forget`` in a forked child."""

    def __init__(self, host: str) -> None:
        self._tail = "." + encode_host(host)
        self._middle = f".P{os.getpid()}R"

    def next(self, clock: Callable[[], float]) -> str:
        """Returns the id of a message put now. If ``clock`` has not advanced, or went back by less than two seconds, the time is
        one µs later than the last of this process; the random bits, not the time, keep ids apart."""
        global _last
        us = int(clock() * 1e6)
        # No lock: nothing is called between the look and the store, and threads are switched only at a call or a jump back. Where
        # there is no GIL two threads that ask at once may get one µs: of theirs there is no order, and the random bits differ.
        if _last - _STEP < us <= _last:
            us = _last + 1
        _last = us
        rest = self._middle + _random() + self._tail
        if us >= _DIGITS_16:
            return f"{us}{rest}"
        if us < 0:
            raise UsageError(f"the clock stands at {us / 1e6:g} s", advice="a name carries times from 1970 on: set the clock")
        return f"{us:016d}{rest}"

    def forget(self) -> None:
        """Takes the pid of a forked child into its ids; called in the child."""
        self._middle = f".P{os.getpid()}R"

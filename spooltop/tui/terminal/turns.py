"""Gives the thread that draws longer turns than the threads that read and change the spool, so that a key is answered soon."""

from __future__ import annotations

import asyncio
import sys
from selectors import DefaultSelector, SelectorKey

LONG = 0.01
"""Seconds for which the thread that draws may go on while others wait: most of what a key takes."""
SHORT = 0.001
"""Seconds for which another thread may (Python's default: 0.005)."""


class _LongTurns(DefaultSelector):
    """Sets the length of a turn: the interpreter has one for all threads. Whoever waits for the interpreter applies it, so it is
    short from when the loop may have to wait."""

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        sys.setswitchinterval(SHORT)
        try:
            return super().select(timeout)
        finally:
            sys.setswitchinterval(LONG)


def event_loop() -> asyncio.AbstractEventLoop:
    """Makes the event loop of the dashboard."""
    return asyncio.SelectorEventLoop(_LongTurns())

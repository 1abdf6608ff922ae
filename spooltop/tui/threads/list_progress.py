"""A list that takes its time is shown while it is made, now and then: each time costs a drawing, and all of it comes soon."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spooltop.model.row import Row

__all__ = ["IntervalProgress"]

FIRST = 0.1
"""Seconds: what is made faster is shown when it is whole."""
LONGER = 4.0
"""How many times as long it is to the next time."""
LONGEST = 1.0
"""Seconds between two times at most. Each drawing takes a twentieth of a second from the work itself."""


class IntervalProgress:
    """A ``model.protocols.ListProgress``: ``show`` gets the share that is done, the rows and the count, when that is due."""

    def __init__(self, monotonic: Callable[[], float], show: Callable[[float, Sequence[Row], int], None]) -> None:
        self._monotonic = monotonic
        self._show = show
        self._pause = FIRST
        self._next = monotonic() + FIRST

    def due(self) -> bool:
        return self._monotonic() >= self._next

    def advanced(self, share: float, rows: Sequence[Row], count: int) -> None:
        self._show(share, rows, count)
        self._pause = min(LONGEST, LONGER * self._pause)
        self._next = self._monotonic() + self._pause

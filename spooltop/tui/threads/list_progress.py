"""Shows a long listing at intervals while it is made. Each drawing takes time from the work itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spooltop.model.row import Row

FIRST = 0.1
"""Seconds before the first drawing: a faster listing is shown when it is complete."""
LONGER = 4.0
"""Factor from one interval to the next."""
LONGEST = 1.0
"""Maximum seconds between two drawings. Each takes about 0.05 s from the work."""


class IntervalProgress:
    """A ``model.protocols.ListProgress``: when a drawing is due, ``show`` gets the share that is done (0 to 1), the rows and the
    count."""

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

"""Flow over time: what came, was done and was retried a second, in the cells of the last five minutes."""

from __future__ import annotations

from collections.abc import Iterator

from spooltop.model.look.flow import Flow
from spooltop.model.look.snapshot import RateHistory

from .depth import CELL, CELLS

__all__ = ["FlowHistory"]

_LEAST = 1.0
"""Seconds of a cell that must have been watched: a rate over less would jump with each message."""
_ARRIVED, _RETRIED, _DONE = range(3)


class FlowHistory:
    """The same cells as ``DepthHistory``, so that rates and depths stand below each other. A flow that reaches over several cells
    counts in each by its share of the time."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, int], float] = {}
        self._watched: dict[tuple[int, int], float] = {}
        self._before: float | None = None
        """Start of the last flow, in which what the next one counts as done has left."""

    def clear(self) -> None:
        self._counts.clear()
        self._watched.clear()
        self._before = None

    def add(self, flow: Flow) -> None:
        """Takes the flow of a look. What was not measured stays unwatched."""
        if not flow.measured or flow.until <= flow.since:
            self._before = None
            return
        self._spread(_ARRIVED, flow.arrived, flow.since, flow.until)
        self._spread(_RETRIED, flow.retried, flow.since, flow.until)
        if self._before is not None:
            self._spread(_DONE, flow.done, self._before, flow.since)
        self._before = flow.since
        oldest = int(flow.until // CELL) - CELLS
        for known in (self._counts, self._watched):
            for old in [key for key in known if key[1] <= oldest]:
                del known[old]

    def _spread(self, what: int, count: int, since: float, until: float) -> None:
        for cell, seconds in _shares(max(since, until - CELL * CELLS), until):
            key = what, cell
            self._counts[key] = self._counts.get(key, 0.0) + count * seconds / (until - since)
            self._watched[key] = self._watched.get(key, 0.0) + seconds

    def cells(self, now: float) -> RateHistory:
        """Returns the rates, oldest first; None if not watched."""
        last = int(now // CELL)
        arrived, retried, done = (
            tuple(self._rate((what, cell)) for cell in range(last - CELLS + 1, last + 1)) for what in (_ARRIVED, _RETRIED, _DONE)
        )
        return RateHistory(arrived, done, retried)

    def _rate(self, key: tuple[int, int]) -> float | None:
        watched = self._watched.get(key, 0.0)
        return self._counts[key] / watched if watched >= _LEAST else None


def _shares(since: float, until: float) -> Iterator[tuple[int, float]]:
    """Returns the cells between two times, each with its seconds.

    >>> list(_shares(10.0, 40.0))
    [(0, 5.0), (1, 15.0), (2, 10.0)]
    """
    for cell in range(int(since // CELL), int(until // CELL) + 1):
        if (seconds := min(until, (cell + 1) * CELL) - max(since, cell * CELL)) > 0:
            yield cell, seconds

"""Depth of a box over time: the bars of the last five minutes, and whether it grows."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from spooltop.records import dataclass

__all__ = ["CELL", "CELLS", "SLOPE_FROM", "DepthHistory", "Trend", "TrendWatch", "least_squares"]

CELL = 15.0
CELLS = 20
_HOLDS = 60.0
_SLOPE_WINDOW = 300.0
SLOPE_FROM = 30.0
"""Least number of seconds over which a slope is measured."""
_FEWEST_SAMPLES = 5


class DepthHistory:
    """The highest depth in each cell of 15 s, aligned to the clock so that bars do not creep."""

    def __init__(self) -> None:
        self._cells: dict[int, float] = {}
        self._last: tuple[float, float] | None = None

    def clear(self) -> None:
        self._cells.clear()
        self._last = None

    def add(self, at: float, depth: int | None) -> None:
        """Adds a sample. ``depth`` None (not visible) leaves the cell unwatched."""
        index = int(at // CELL)
        if depth is None:
            self._last = None
            return
        if self._last is not None and 0 <= at - self._last[0] <= _HOLDS:
            # between two looks of a quiet spool nothing was seen to change
            for between in range(int(self._last[0] // CELL) + 1, index):
                self._cells[between] = self._last[1]
        self._cells[index] = max(self._cells.get(index, 0.0), float(depth))
        self._last = (at, float(depth))
        for old in [cell for cell in self._cells if cell <= index - CELLS]:
            del self._cells[old]

    def cells(self, now: float) -> tuple[float | None, ...]:
        """Returns the depths, oldest first; None if not watched."""
        index = int(now // CELL)
        return tuple(map(self._cells.get, range(index - CELLS + 1, index + 1)))


@dataclass(frozen=True, slots=True)
class Trend:
    """``per_s`` is the slope over ``window`` seconds, None below 30 s. ``growing``: it exceeds the noise and continues."""

    per_s: float | None = None
    window: float = 0.0
    growing: bool = False


class TrendWatch:
    """Slope of a depth over at most five minutes."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque()
        self._shifted = 0
        self._listed_from = 0.0
        self._unsure = False

    def clear(self) -> None:
        self._samples.clear()

    def shift(self, since: float, by: int) -> None:
        """Removes ``by`` messages, which operators moved into the box after ``since``, from the series. Depths of this look and
        since then may or may not include them, so they are not used as samples."""
        if not by:
            return
        self._shifted += by
        self._listed_from = since
        self._unsure = True
        while self._samples and self._samples[-1][0] >= since:
            self._samples.pop()

    def add(self, at: float, depth: int | None, listed_at: float = math.inf) -> None:
        """Takes one sample a second. None (not visible, or only a lower bound) breaks the series: a slope across the gap would be
        wrong. ``listed_at`` is when the box was listed."""
        if depth is None:
            self._samples.clear()
            return
        unsure, self._unsure = self._unsure, False
        if unsure or listed_at < self._listed_from:
            return
        depth -= self._shifted
        if len(self._samples) > 1 and at - self._samples[-2][0] < 1.0:
            self._samples.pop()
        self._samples.append((at, float(depth)))
        while self._samples[0][0] < at - _SLOPE_WINDOW:
            self._samples.popleft()

    def trend(self) -> Trend:
        samples = list(self._samples)
        window = samples[-1][0] - samples[0][0] if samples else 0.0
        if window < SLOPE_FROM or len(samples) < _FEWEST_SAMPLES:
            return Trend(window=window)
        slope, noise = least_squares(samples)
        middle = samples[0][0] + window / 2
        later = [sample for sample in samples if sample[0] >= middle]
        growing = (
            slope * window >= max(10.0, 3 * noise)
            and samples[-1][1] - samples[0][1] >= 10
            and len(later) > 1
            and least_squares(later)[0] > slope / 4  # one big put that is worked off, or stands, is no growth
        )
        return Trend(slope, window, growing)


def least_squares(samples: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Fits a straight line to (x, y): its slope, and the standard deviation of the residuals. The slope is 0 for a single x.

    >>> least_squares([(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)])
    (2.0, 0.0)
    """
    n = len(samples)
    mean_x = sum(x for x, _ in samples) / n
    mean_y = sum(y for _, y in samples) / n
    spread = sum((x - mean_x) ** 2 for x, _ in samples)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in samples) / spread if spread else 0.0
    left = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in samples)
    return slope, math.sqrt(left / n)

"""Reports on a list while it is being made: the progress, the number of matches so far, and the first of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spooltop.model.protocols import ListProgress
from spooltop.model.row import Row

__all__ = ["AT_ONCE", "ListPreview"]

AT_ONCE = 150
"""Rows that are shown before all are known: more than fit on a screen."""


class ListPreview:
    """Reports to ``progress`` when a report is due; never if it is None. It keeps the first names by name, or the last
    (``backwards``), because most names begin with their time. ``row`` makes the row of a name."""

    def __init__(self, progress: ListProgress | None, row: Callable[[str], Row], *, backwards: bool) -> None:
        self._progress = progress
        self._row = row
        self._backwards = backwards
        self._names: list[str] = []
        self._edge: str | None = None
        self._count = 0
        self._from = self._to = 0.0

    @property
    def wanted(self) -> bool:
        return self._progress is not None

    def stage(self, until: float) -> None:
        """Begins the next stage of the work, which ends at the share ``until`` of the whole."""
        self._from, self._to = self._to, until

    def take(self, names: Sequence[str]) -> None:
        """Adds names that match."""
        self._count += len(names)
        edge = self._edge
        if edge is None or (max(names) > edge if self._backwards else min(names) < edge):
            self._names += names
            if len(self._names) > 4 * AT_ONCE:
                self._cut()

    def at(self, share: float) -> None:
        """Reports that ``share`` of this stage is done, if a report is due."""
        progress = self._progress
        if progress is not None and progress.due():
            self._cut()
            rows = [self._row(raw) for raw in self._names]
            progress.advanced(self._from + share * (self._to - self._from), rows, self._count)

    def _cut(self) -> None:
        self._names.sort(reverse=self._backwards)
        del self._names[AT_ONCE:]
        if len(self._names) == AT_ONCE:
            self._edge = self._names[-1]

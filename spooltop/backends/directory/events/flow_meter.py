"""Measures the flow between two looks: from change events if there are any, else from the difference of two scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spooltop.engine.dirs import SpoolDirs
from spooltop.model.look.observation import Flow
from spooltop.model.row import Row

from ..scan.scan import BoxScan
from ..scan.set_aside import SetAsideBoxes
from .flow import FlowCounter, difference
from .operator_moves import OperatorMoves
from .report import EventReport

__all__ = ["FlowMeter", "changed_at"]

_COMPARED_AT_MOST = 100_000


def changed_at(scan: BoxScan) -> float | None:
    """Returns when a name was last added to or removed from the box."""
    return None if scan.generation is None else scan.generation[2] / 1e9


class FlowMeter:
    """Counts the messages that came and went since the last look. ``in_new`` returns whether a name is in ``new`` now."""

    def __init__(self, set_aside: SetAsideBoxes, in_new: Callable[[str], bool]) -> None:
        self._set_aside = set_aside
        self._aside_ids: set[str] = set()
        self._aside_generation = 0
        self._operators = OperatorMoves()
        self._counter = FlowCounter(in_new, self._operators)
        self._compared: tuple[set[str], set[str]] | None = None
        self._listened = False
        self._compared_scans = (-1, -1)

    @property
    def last_claim_at(self) -> float | None:
        return self._counter.last_claim_at

    @property
    def unsettled(self) -> bool:
        """True if a look that comes soon will know more."""
        return self._counter.unsettled

    def read_operator_moves(self, dirs: SpoolDirs) -> None:
        """Reads the moves that operators announced in the journal. Call it after the change events were taken and before ``look``
        counts them."""
        self._operators.look(dirs)

    def look(
        self, now: float, report: EventReport, new: BoxScan, cur: BoxScan, claims: Sequence[Row], *, starting: bool, exact: bool
    ) -> Flow:
        """Returns the flow since the last look. ``starting``: the listener has started and has received nothing yet. ``exact``:
        the directories are those of the last look."""
        before = self._aside_ids
        if self._set_aside.generation != self._aside_generation:
            self._aside_ids, self._aside_generation = self._set_aside.ids(), self._set_aside.generation
        self._counter.add(*report.batches, aside=before)
        if self._counter.last_claim_at is None and claims and not (self._listened and report.listening):
            self._counter.adopt(((row.id, row.in_box_since) for row in claims), changed_at(cur))
        if starting:
            return self._counter.begin(now)  # the first batch tells what came since
        self._listened = report.listening  # from now on the events tell of each claim, some after a look has listed it
        if report.listening and report.until is not None:
            now = report.until  # what came later has not been received: a rate covers the time for which events were received
        if report.listening:
            self._compared, self._compared_scans = None, (-1, -1)
        elif (new.number, cur.number) != self._compared_scans:
            self._compare(now, new, cur, before)
        measured = report.listening or self._compared is not None
        return self._counter.take(now, exact=exact and report.exact, measured=measured, aside=self._aside_ids)

    def _compare(self, now: float, new: BoxScan, cur: BoxScan, aside: set[str]) -> None:
        """Adds the difference of two scans. Bounded, because sets of a million names would stall everything."""
        self._compared_scans = (new.number, cur.number)
        if len(new.names) + len(cur.names) > _COMPARED_AT_MOST:
            self._compared = None
            return
        current = (set(new.names), set(cur.names))
        if self._compared is not None:
            self._counter.add(difference(now, self._compared, current), aside=aside)
        self._compared = current

"""Flow over the looks: change events where somebody listens, else the difference of scans, and what was set aside meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spooltop.engine.dirs import SpoolDirs
from spooltop.model.flow import Flow
from spooltop.model.row import Row

from ..scan.scan import BoxScan
from ..scan.set_aside import Asides
from .flow import FlowCounter, difference
from .operator_moves import OperatorMoves
from .watcher import Heard

__all__ = ["Traffic"]

_COMPARED_AT_MOST = 100_000


def _changed_at(scan: BoxScan) -> float | None:
    """Returns when a name was last added to or removed from the box."""
    return None if scan.generation is None else scan.generation[2] / 1e9


class Traffic:
    """Counts the messages that came and went since the last look. ``in_new`` returns whether a name is in ``new`` now."""

    def __init__(self, asides: Asides, in_new: Callable[[str], bool]) -> None:
        self._asides = asides
        self._aside_ids: set[str] = set()
        self._aside_of = 0
        self._operators = OperatorMoves()
        self._counter = FlowCounter(in_new, self._operators)
        self._compared: tuple[set[str], set[str]] | None = None
        self._compared_of = (-1, -1)

    @property
    def last_claim_at(self) -> float | None:
        return self._counter.last_claim_at

    @property
    def unsettled(self) -> bool:
        """True where a look that comes soon will tell more."""
        return self._counter.unsettled

    def follow_operators(self, dirs: SpoolDirs) -> None:
        """Reads which moves operators announced. After the change events were taken, before they are counted."""
        self._operators.look(dirs)

    def look(
        self, now: float, heard: Heard, new: BoxScan, cur: BoxScan, claims: Sequence[Row], *, beginning: bool, exact: bool
    ) -> Flow:
        """The flow since the last look. ``beginning``: somebody will listen and has not heard anything yet."""
        before = self._aside_ids
        if self._asides.generation != self._aside_of:
            self._aside_ids, self._aside_of = self._asides.ids(), self._asides.generation
        for batch in heard.batches:
            self._counter.add(batch, before)
        if self._counter.last_claim_at is None and claims:
            self._counter.adopt(((row.id, row.in_box_since) for row in claims), _changed_at(cur))
        if beginning:
            return self._counter.begin(now)  # the first batch tells what came since
        if heard.listening and heard.until is not None:
            now = heard.until  # what came later has not been heard: a rate is over the time that was listened to
        if heard.listening:
            self._compared, self._compared_of = None, (-1, -1)
        elif (new.number, cur.number) != self._compared_of:
            self._compare(now, new, cur, before)
        measured = heard.listening or self._compared is not None
        return self._counter.take(now, exact=exact and heard.exact, measured=measured, aside=self._aside_ids)

    def _compare(self, now: float, new: BoxScan, cur: BoxScan, aside: set[str]) -> None:
        """Adds the difference of two scans. Bounded, because sets of a million names would stall everything."""
        self._compared_of = (new.number, cur.number)
        if len(new.names) + len(cur.names) > _COMPARED_AT_MOST:
            self._compared = None
            return
        current = (set(new.names), set(cur.names))
        if self._compared is not None:
            self._counter.add(difference(now, self._compared, current), aside)
        self._compared = current

"""Rates of single consumers over the last minute of flow."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from spooltop.model.look.flow import Flow, HolderFlow
from spooltop.records import dataclass, field, replace

from .rates import WINDOW

if TYPE_CHECKING:
    from spooltop.model.look.consumers import ConsumerList, ConsumerRow

__all__ = ["HolderRates"]

_CELL = 2.0
"""Seconds of flow that are kept together."""
_MOST = 4_000
"""Consumers whose last claim is remembered."""


@dataclass(slots=True)
class _Cell:
    """Counts of what left ``cur`` from ``since`` to ``until``."""

    since: float
    until: float
    exact: bool
    done: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)


class HolderRates:
    """Keeps what each consumer did in the last minute."""

    def __init__(self) -> None:
        self._cells: deque[_Cell] = deque()
        self._before: tuple[float, bool] | None = None
        """Start of the last flow, and whether it was exact: the next one counts what left during it."""
        self._claimed_at: dict[str, float] = {}

    def clear(self) -> None:
        """Forgets everything, after a clock jump or a break in watching."""
        self._cells.clear()
        self._before = None
        self._claimed_at.clear()

    def add(self, flow: Flow) -> None:
        """Takes the flow of one look."""
        if not flow.measured or not flow.holders_counted or flow.until < flow.since:
            self._cells.clear()
            self._before = None
            return
        if self._before is not None:
            self._count(self._before[0], flow.since, flow.by_holder, exact=self._before[1] and flow.exact)
        self._before = (flow.since, flow.exact)
        for holder, one in flow.by_holder.items():
            if one.last_claim_at is not None:
                self._claimed_at.pop(holder, None)  # the newest stand last
                self._claimed_at[holder] = one.last_claim_at
        while len(self._claimed_at) > _MOST:
            del self._claimed_at[next(iter(self._claimed_at))]
        while len(self._cells) > 1 and self._cells[1].since <= flow.since - WINDOW:
            self._cells.popleft()

    def _count(self, since: float, until: float, found: Mapping[str, HolderFlow], *, exact: bool) -> None:
        last = self._cells[-1] if self._cells else None
        if last is None or until - last.since > _CELL:
            last = _Cell(since, until, exact)
            self._cells.append(last)
        last.until, last.exact = until, last.exact and exact
        for holder, one in found.items():
            if one.done:
                last.done[holder] += one.done
            if one.failed:
                last.failed[holder] += one.failed

    def measured(self, found: ConsumerList) -> ConsumerList:
        """Adds to ``found`` the rates and the last claim of each consumer."""
        from spooltop.model.look.consumers import ConsumerRate  # only while somebody looks at them

        window = self._cells[-1].until - self._cells[0].since if self._cells else 0.0
        if window <= 0:
            return replace(found, consumers=tuple(map(self._with_last_claim, found.consumers)))
        done, failed = Counter[str](), Counter[str]()
        for cell in self._cells:
            done.update(cell.done)
            failed.update(cell.failed)

        def rate(one: ConsumerRow) -> ConsumerRate:
            seconds = _watched(one, window, self._cells[-1].until)
            # A consumer of another program does not say how an attempt ended.
            return ConsumerRate(done[one.holder] / seconds, None if one.token is None else failed[one.holder] / seconds)

        consumers = tuple(replace(self._with_last_claim(one), rate=rate(one)) for one in found.consumers)
        return replace(found, consumers=consumers, window=window, lower_bound=not all(cell.exact for cell in self._cells))

    def _with_last_claim(self, one: ConsumerRow) -> ConsumerRow:
        seen = self._claimed_at.get(one.holder)
        if seen is None or (one.last_claim_at is not None and one.last_claim_at >= seen):
            return one
        return replace(one, last_claim_at=seen)


def _watched(one: ConsumerRow, window: float, until: float) -> float:
    """The part of the last ``window`` seconds that a consumer has been running for, a second at least."""
    lived = window if one.owner.start is None else until - one.owner.start
    return max(1.0, lived) if 0 < lived < window else window

"""Rates and percentiles over the last minute of flow."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from spooltop.model.look.flow import Completion, Flow
from spooltop.model.look.snapshot import Percentiles, Rates
from spooltop.records import dataclass

__all__ = ["FEWEST", "WINDOW", "RateWindow", "percentiles"]

WINDOW = 60.0
"""Seconds over which rates are computed."""
FEWEST = 20
"""Least number of samples for percentiles."""
ENOUGH = 10.0
"""Seconds of exact flow that are preferred to a longer window with a gap."""
_MOST_COMPLETIONS = 5000
_SLOW_SPOOL = 3600.0
_PLENTY = 1000
"""Number of samples from which on percentiles are cached for ``_KEPT`` seconds."""
_KEPT = 2.0


@dataclass(frozen=True, slots=True)
class _Measured:
    waited: Percentiles
    worked: Percentiles


class RateWindow:
    """Keeps the flow of the last minute, and the completions for the percentiles."""

    def __init__(self) -> None:
        self._flows: deque[Flow] = deque()
        self._before: float | None = None
        """Start of the flow before the first one, if that was measured."""
        self._completions: deque[Completion] = deque(maxlen=_MOST_COMPLETIONS)
        self._cached_at = 0.0
        self._cached: tuple[tuple[float, float, int] | None, _Measured] | None = None

    def clear(self) -> None:
        """Forgets everything, after a clock jump or a break in watching."""
        self._flows.clear()
        self._before = None
        self._completions.clear()
        self._cached = None

    def add(self, flow: Flow) -> None:
        if not flow.measured or flow.until < flow.since:
            self._flows.clear()  # a gap: what came and went in it is not known, so no window may reach across it
            self._before = None
            return
        self._flows.append(flow)
        self._completions.extend(flow.completions)
        while len(self._flows) > 1 and self._flows[0].since < flow.until - WINDOW:
            self._before = self._flows.popleft().since
        self._prefer_exact(flow.until)

    def _prefer_exact(self, now: float) -> None:
        """Drops inexact flows if the exact ones after them suffice: a shorter exact window says more. Flows are inexact just
        after watching began, and after events were lost."""
        last = max((place for place, flow in enumerate(self._flows) if not flow.exact), default=-1)
        if 0 <= last < len(self._flows) - 1 and now - self._flows[last + 1].since >= ENOUGH:
            for _ in range(last + 1):
                self._before = self._flows.popleft().since

    def rates(self, now: float, *, new_per_s: float | None, slope_window: float) -> Rates:
        """Computes the rates. ``window`` is the time that was really watched: flows are kept whole, so it is at most a minute
        unless one look took longer."""
        measured = self._percentiles(now)
        if not self._flows:
            return Rates(new_per_s=new_per_s, slope_window=slope_window, waited=measured.waited, worked=measured.worked)
        done, done_window = self._done()
        return Rates(
            window=self._flows[-1].until - self._flows[0].since,
            arrived=sum(flow.arrived for flow in self._flows),
            done=done,
            done_window=done_window,
            requeued=sum(flow.requeued for flow in self._flows),
            retried=sum(flow.retried for flow in self._flows),
            lower_bound=not all(flow.exact for flow in self._flows),
            new_per_s=new_per_s,
            slope_window=slope_window,
            waited=measured.waited,
            worked=measured.worked,
        )

    def _done(self) -> tuple[int, float]:
        """Returns how many were done in how many seconds. Each flow counts what left during the previous one: the first counts
        what left before the window, over a time that may have been much longer or not watched at all."""
        flows = list(self._flows)
        seconds = flows[-1].since - flows[0].since
        if seconds <= 0:
            only = flows[-1]
            return only.done, only.until - only.since if self._before is None else only.since - self._before
        return sum(flow.done for flow in flows[1:]), seconds

    def _percentiles(self, now: float) -> _Measured:
        known = self._cached
        if known is not None and known[1].worked.samples >= _PLENTY and 0 <= now - self._cached_at < _KEPT:
            return known[1]  # so many move slowly, and to sort them at each look would be most of what a look costs
        while self._completions and self._completions[0].gone_at < now - _SLOW_SPOOL:
            self._completions.popleft()
        recent = [one for one in self._completions if one.gone_at >= now - WINDOW]
        if len(recent) < FEWEST:  # a slow spool: the last few say more than nothing, and their number is shown
            recent = list(self._completions)[-FEWEST:]
        key = (recent[0].gone_at, recent[-1].gone_at, len(recent)) if recent else None
        if self._cached is None or self._cached[0] != key:
            waited = [p.claimed_at - p.put_at for p in recent if p.claimed_at is not None and p.put_at is not None]
            worked = [p.gone_at - p.claimed_at for p in recent if p.claimed_at is not None]
            self._cached_at = now
            self._cached = (key, _Measured(percentiles(waited), percentiles(worked)))
        return self._cached[1]


def percentiles(durations: Sequence[float]) -> Percentiles:
    """Computes nearest-rank percentiles. Negative durations (two clocks) are ignored.

    >>> percentiles([float(n) for n in range(1, 101)])
    Percentiles(samples=100, p50=50.0, p95=95.0, p99=99.0)
    """
    ordered = sorted(seconds for seconds in durations if seconds >= 0)
    if len(ordered) < FEWEST:
        return Percentiles(len(ordered), None, None, None)

    def rank(share: int) -> float:
        return ordered[math.ceil(len(ordered) * share / 100) - 1]

    return Percentiles(len(ordered), rank(50), rank(95), rank(99))

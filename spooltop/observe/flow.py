"""Rates, depths, holders and failures over time."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from spooltop.model import DIED, Box, Frozen, began
from spooltop.model.snapshot import (
    Completion,
    ConsumerList,
    ConsumerRate,
    ConsumerRow,
    Flow,
    Observation,
    Percentiles,
    RateHistory,
    Rates,
    Return,
    Tried,
)

from .thresholds import Thresholds

# Depth of a box over time: the bars of the last five minutes, and whether it grows.

CELL = 15.0
CELLS = 20
_HOLDS = 60.0
_SLOPE_WINDOW = 300.0
SLOPE_FROM = 30.0
"""Least number of seconds over which a slope is measured."""
_FEWEST_SAMPLES = 5


class DepthHistory(Struct):
    """The highest depth in each period of 15 s. A period begins at a full quarter of a minute, so that a bar keeps its place in
    the graph."""

    _cells: dict[int, float] = {}
    _last: tuple[float, float] | None = None

    def add(self, at: float, depth: int | None) -> tuple[float | None, ...]:
        """Adds a sample, and returns the depths, oldest first; None if not watched. ``depth`` None (not visible) leaves the cell
        unwatched."""
        index = int(at // CELL)
        before, self._last = self._last, None
        if depth is not None:
            if before is not None and 0 <= at - before[0] <= _HOLDS:
                # between two looks of a quiet spool nothing was seen to change
                for between in range(int(before[0] // CELL) + 1, index):
                    self._cells[between] = before[1]
            self._cells[index] = max(self._cells.get(index, 0.0), float(depth))
            self._last = (at, float(depth))
        for old in [cell for cell in self._cells if cell <= index - CELLS]:
            del self._cells[old]
        return tuple(map(self._cells.get, range(index - CELLS + 1, index + 1)))


class Trend(Frozen):
    """``per_s`` is the slope over ``window`` seconds, None below 30 s. ``growing``: it exceeds the noise and continues."""

    per_s: float | None = None
    window: float = 0.0
    growing: bool = False


class TrendWatch(Struct):
    """Slope of a depth over at most five minutes."""

    _samples: deque[tuple[float, float]] = field(default_factory=deque)
    _shifted: int = 0
    _listed_from: float = 0.0
    _unsure: bool = False

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


# Flow over time: what came, was done and was retried a second, in the cells of the last five minutes.

_LEAST = 1.0
"""Seconds of a cell that must have been watched: a rate over less would jump with each message."""


class FlowHistory(Struct):
    """The same cells as ``DepthHistory``, so that rates and depths stand below each other. A flow that reaches over several cells
    counts in each by its share of the time."""

    _cells: dict[tuple[str, int], tuple[float, float]] = {}
    """Number counted in a cell, and seconds for which it was watched."""
    _before: float | None = None
    """Start of the last flow, in which what the next one counts as done has left."""

    def add(self, flow: Flow, now: float) -> RateHistory:
        """Takes the flow of a look, and returns the rates, oldest first; None if not watched. What was not measured stays
        unwatched."""
        before, self._before = self._before, None
        if flow.measured and flow.until > flow.since:
            self._spread("arrived", flow.arrived, flow.since, flow.until)
            self._spread("retried", flow.retried, flow.since, flow.until)
            if before is not None:
                self._spread("done", flow.done, before, flow.since)
            self._before = flow.since
        last = int(now // CELL)
        self._cells = {key: cell for key, cell in self._cells.items() if key[1] > last - CELLS}
        kinds = ("arrived", "done", "retried")
        return RateHistory(*(tuple(self._rate((what, cell)) for cell in range(last - CELLS + 1, last + 1)) for what in kinds))

    def _spread(self, what: str, count: int, since: float, until: float) -> None:
        for cell, seconds in _shares(max(since, until - CELL * CELLS), until):
            counted, watched = self._cells.get((what, cell), (0.0, 0.0))
            self._cells[what, cell] = counted + count * seconds / (until - since), watched + seconds

    def _rate(self, key: tuple[str, int]) -> float | None:
        counted, watched = self._cells.get(key, (0.0, 0.0))
        return counted / watched if watched >= _LEAST else None


def _shares(since: float, until: float) -> Iterator[tuple[int, float]]:
    """Returns the cells between two times, each with its seconds.

    >>> list(_shares(10.0, 40.0))
    [(0, 5.0), (1, 15.0), (2, 10.0)]
    """
    for cell in range(int(since // CELL), int(until // CELL) + 1):
        if (seconds := min(until, (cell + 1) * CELL) - max(since, cell * CELL)) > 0:
            yield cell, seconds


# Rates and percentiles over the last minute of flow, also of single consumers.

WINDOW = 60.0
"""Seconds over which rates are computed."""
FEWEST = 20
"""Least number of samples for percentiles."""
ENOUGH = 10.0
"""Seconds of exact flow that are preferred to a longer window with a gap."""
_MOST_COMPLETIONS = 5000
_SLOW_SPOOL = 3600.0
_PLENTY = 1000
"""Number of samples from which on percentiles are kept for ``_KEPT`` seconds: so many move slowly, and to sort them at each look
would be most of what a look costs."""
_KEPT = 2.0
_MOST = 4_000
"""Consumers whose last claim is remembered."""


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


class RateWindow(Struct):
    """Keeps the flow of the last minute, the completions for the percentiles, and the last claim of each consumer."""

    _flows: deque[Flow] = field(default_factory=deque)
    _before: float | None = None
    """Start of the flow before the first one, if that was measured."""
    _completions: deque[Completion] = field(default_factory=lambda: deque(maxlen=_MOST_COMPLETIONS))
    _kept: tuple[float, Percentiles, Percentiles] = 0.0, percentiles(()), percentiles(())
    _claimed_at: dict[str, float] = {}

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
        for holder, one in flow.by_holder.items():
            if one.last_claim_at is not None:
                self._claimed_at.pop(holder, None)  # the newest stand last
                self._claimed_at[holder] = one.last_claim_at
        while len(self._claimed_at) > _MOST:
            del self._claimed_at[next(iter(self._claimed_at))]

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
        waited, worked = self._percentiles(now)
        rates = Rates(new_per_s=new_per_s, slope_window=slope_window, waited=waited, worked=worked)
        if not self._flows:
            return rates
        done, done_window = self._done()
        return rates.replace(
            window=self._flows[-1].until - self._flows[0].since,
            arrived=sum(flow.arrived for flow in self._flows),
            done=done,
            done_window=done_window,
            requeued=sum(flow.requeued for flow in self._flows),
            retried=sum(flow.retried for flow in self._flows),
            lower_bound=not all(flow.exact for flow in self._flows),
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

    def _percentiles(self, now: float) -> tuple[Percentiles, Percentiles]:
        if self._kept[2].samples >= _PLENTY and 0 <= now - self._kept[0] < _KEPT:
            return self._kept[1:]
        while self._completions and self._completions[0].gone_at < now - _SLOW_SPOOL:
            self._completions.popleft()
        recent = [one for one in self._completions if one.gone_at >= now - WINDOW]
        if len(recent) < FEWEST:  # a slow spool: the last few say more than nothing, and their number is shown
            recent = list(self._completions)[-FEWEST:]
        waited = [p.claimed_at - p.put_at for p in recent if p.claimed_at is not None and p.put_at is not None]
        worked = [p.gone_at - p.claimed_at for p in recent if p.claimed_at is not None]
        self._kept = now, percentiles(waited), percentiles(worked)
        return self._kept[1:]

    def measured(self, found: ConsumerList) -> ConsumerList:
        """Adds to ``found`` the rates and the last claim of each consumer. Each flow counts what left during the previous one."""
        flows = list(self._flows)
        window = flows[-1].since - flows[0].since if flows and all(flow.holders_counted for flow in flows) else 0.0
        done, failed = Counter[str](), Counter[str]()
        for flow in flows[1:]:
            for holder, of in flow.by_holder.items():
                done[holder] += of.done
                failed[holder] += of.failed

        def with_rates(one: ConsumerRow) -> ConsumerRow:
            holder = one.holder
            claims = [at for at in (one.last_claim_at, self._claimed_at.get(holder)) if at is not None]
            one = one.replace(last_claim_at=max(claims, default=None))
            if window <= 0:
                return one
            seconds = _watched(one, window, flows[-1].since)
            # A consumer of another program does not say how an attempt ended.
            rate = ConsumerRate(done[holder] / seconds, None if one.token is None else failed[holder] / seconds)
            return one.replace(rate=rate)

        consumers = tuple(map(with_rates, found.consumers))
        if window <= 0:
            return found.replace(consumers=consumers)
        return found.replace(consumers=consumers, window=window, lower_bound=not all(flow.exact for flow in flows))


def _watched(one: ConsumerRow, window: float, until: float) -> float:
    """The part of the last ``window`` seconds that a consumer has been running for, a second at least."""
    lived = window if one.owner.start is None else until - one.owner.start
    return max(1.0, lived) if 0 < lived < window else window


# Measures how long messages have been waiting in ``new`` without a claim.

class WaitingWatch(Struct):
    """Remembers since when ``new`` has not been empty, and when a message was last seen to leave it.

    Claims are seen by events, by claims in ``cur``, by finished messages, and by a shrinking ``new``. Each of these alone can
    miss one, so "no consumer" requires that all are silent.
    """

    _waiting_since: float | None = None
    _taken_at: float | None = None
    _depth: int | None = None

    def add(self, observation: Observation) -> float | None:
        """Returns the seconds for which messages waited under watch and none was claimed; None if none wait."""
        now = observation.taken_at
        box = observation.boxes.get(Box.NEW)
        depth = None if box is None or box.error else box.count
        flow = observation.flow
        times = began(observation.claims)
        times += [one.claimed_at for one in flow.completions if one.claimed_at is not None]
        if observation.last_claim_at is not None:
            times.append(observation.last_claim_at)
        # If no event can be missing, events show each claim: anything else that leaves the box is moved by an operator.
        shorter = depth is not None and self._depth is not None and depth < self._depth
        if (flow.measured and (flow.claimed or flow.done)) or (shorter and not (flow.measured and flow.exact)):
            times.append(now)
        # a time of another clock may lie in the future: it counts as now, and not as "for ever fresh"
        seen = max((min(time, now) for time in times), default=None)
        if seen is not None and (self._taken_at is None or seen > self._taken_at):
            self._taken_at = seen
        if not depth or observation.paused is not None:  # nobody is meant to claim: the wait begins when it is resumed
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = now
        self._depth = depth
        return None if self._waiting_since is None else now - max(self._waiting_since, self._taken_at or 0.0)


# Detects messages whose attempts fail again and again, by their names and by observed returns.

_FAILING_WINDOW = 300.0
"""Seconds over which returns are counted."""
_MOST_RETURNS = 100_000


class Failing(Frozen):
    """``messages`` fail; they had ``retries`` attempts without success in ``window`` seconds, None: in total, according to their
    names. ``ended`` is how the last attempt ended, None if unknown; ``at_least``: there may be more of them."""

    messages: tuple[Tried, ...]
    retries: int
    window: float | None
    ended: str | None
    at_least: bool


class FailingWatch(Struct):
    """Remembers the returns of the last five minutes."""

    _returns: deque[Return] = field(default_factory=lambda: deque(maxlen=_MOST_RETURNS))
    _recovered: dict[str, float] = {}

    def add(self, observation: Observation, thresholds: Thresholds, watched: float) -> Failing | None:
        now = observation.taken_at
        self._returns.extend(one for one in observation.flow.returns if one.failed)
        self._recovered.update(dict.fromkeys(observation.flow.recovered, now))
        while self._returns and self._returns[0].at < now - _FAILING_WINDOW:
            self._returns.popleft()
        for id in [id for id, at in self._recovered.items() if at < now - _FAILING_WINDOW]:
            del self._recovered[id]
        often = Counter(one.id for one in self._returns)
        together = len(self._returns) >= thresholds.failing_releases and not any(id in self._recovered for id in often)
        found = {
            one.id: one
            for one in observation.tried
            if (one.attempts >= thresholds.failing_attempts and one.failed) or (together and one.id in often)
        }
        if not found:
            return None
        messages = tuple(sorted(found.values(), key=lambda one: (-one.attempts, one.id)))
        released = sum(often[id] for id in found)
        if released >= thresholds.failing_releases:
            window: float | None = min(_FAILING_WINDOW, max(1.0, watched))
            retries = released
        else:
            window, retries = None, sum(one.attempts for one in messages)
        last = next((one.ended for one in reversed(self._returns) if one.id in found and one.ended), None)
        if last is None:
            ends = Counter(one.ended for one in messages if one.ended not in (None, DIED))
            last = ends.most_common(1)[0][0] if ends else None
        return Failing(messages, retries, window, last, not observation.tried_all)

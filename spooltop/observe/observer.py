"""Turns observations into snapshots and keeps all history. It reads no clock; time comes from the observations."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from spooltop.model.look.observation import Observation, Return
from spooltop.model.look.snapshot import Problem, Severity, Snapshot
from spooltop.model.vocabulary import DIED, Box, Json

from .cursors.watch import CursorWatch
from .flow import CELL, DepthHistory, FlowHistory, HolderRates, RateWindow, TrendWatch
from .rules import (
    Failing,
    RuleInput,
    host_problems,
    lock_problem,
    message_problems,
    not_judged,
    not_judged_codes,
    not_visible,
    state_problems,
)
from .thresholds import Thresholds

if TYPE_CHECKING:
    from spooltop.model.look.consumers import ConsumerList


# Measures how long messages have been waiting in ``new`` without a claim.

class WaitingWatch:
    """Remembers since when ``new`` has not been empty, and when a message was last seen to leave it.

    Claims are seen by events, by claims in ``cur``, by finished messages, and by a shrinking ``new``. Each of these alone can
    miss one, so "no consumer" requires that all are silent.
    """

    def __init__(self) -> None:
        self._waiting_since: float | None = None
        self._taken_at: float | None = None
        self._depth: int | None = None

    def add(self, observation: Observation) -> None:
        now = observation.taken_at
        box = observation.boxes.get(Box.NEW)
        depth = None if box is None or box.error else box.count
        flow = observation.flow
        times = [row.in_box_since for row in observation.claims if row.in_box_since is not None]
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

    def untouched(self, now: float) -> float | None:
        """Returns the seconds for which messages waited under watch and none was claimed; None if none wait."""
        if self._waiting_since is None:
            return None
        return now - max(self._waiting_since, self._taken_at or 0.0)


# Detects messages whose attempts fail again and again, by their names and by observed returns.

WINDOW = 300.0
"""Seconds over which returns are counted."""
_MOST = 100_000


class FailingWatch:
    """Remembers the returns of the last five minutes."""

    def __init__(self) -> None:
        self._returns: deque[Return] = deque(maxlen=_MOST)
        self._recovered: dict[str, float] = {}
        self._since: float | None = None

    def add(self, observation: Observation, thresholds: Thresholds) -> Failing | None:
        now = observation.taken_at
        self._since = now if self._since is None else self._since
        self._returns.extend(one for one in observation.flow.returns if one.failed)
        self._recovered.update(dict.fromkeys(observation.flow.recovered, now))
        while self._returns and self._returns[0].at < now - WINDOW:
            self._returns.popleft()
        for id in [id for id, at in self._recovered.items() if at < now - WINDOW]:
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
        watched = sum(often[id] for id in found)
        if watched >= thresholds.failing_releases:
            window: float | None = min(WINDOW, max(1.0, now - self._since))
            retries = watched
        else:
            window, retries = None, sum(one.attempts for one in messages)
        last = next((one.ended for one in reversed(self._returns) if one.id in found and one.ended), None)
        if last is None:
            ends = Counter(one.ended for one in messages if one.ended not in (None, DIED))
            last = ends.most_common(1)[0][0] if ends else None
        return Failing(messages, retries, window, last, not observation.tried_all)


_JUMP = 2.0
_WEIGHT = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.NOTE: 2}


class Observer:
    """Makes a ``Snapshot`` of each ``Observation`` and those before it. Takes them in the order of time. Not thread-safe."""

    def __init__(self, thresholds: Thresholds | None = None, cursor_fields: Mapping[str, str] | None = None) -> None:
        self.thresholds = thresholds or Thresholds()
        self._cursors = CursorWatch(self.thresholds.cursor_window, cursor_fields)
        self._last_at: float | None = None
        self._jumped = 0.0
        self._begin()

    def _begin(self) -> None:
        """Begins to watch, without a history of anything but the cursors."""
        self._flow = RateWindow()
        self._flow_history = FlowHistory()
        self._holders = HolderRates()
        self._trend = TrendWatch()
        self._waiting = WaitingWatch()
        self._failing = FailingWatch()
        self._depths: dict[Box, DepthHistory] = {}
        self._watched_since: float | None = None

    def add(self, observation: Observation) -> Snapshot:
        """Takes one look. Raises nothing for the contents of a spool."""
        now = observation.taken_at
        self._follow_clock(observation)
        if self._watched_since is None:
            self._watched_since = now
        self._last_at = now
        new = observation.boxes.get(Box.NEW)
        counted = new is not None and new.complete and not new.error
        self._flow.add(observation.flow)
        self._flow_history.add(observation.flow)
        self._holders.add(observation.flow)
        self._trend.shift(observation.flow.since, observation.flow.shifted)
        self._trend.add(now, new.count if new is not None and counted else None, now if new is None else new.as_of)
        self._waiting.add(observation)
        history = {}
        for box, state in observation.boxes.items():
            depths = self._depths.setdefault(box, DepthHistory())
            depths.add(now, None if state.error else state.count)
            history[box] = depths.cells(now)
        trend = self._trend.trend()
        rates = self._flow.rates(now, new_per_s=trend.per_s, slope_window=trend.window)
        cursors = self._cursors.add(observation.cursors, now, observation.polls, observation.flow.arrived_by_source)
        seen = RuleInput(
            observation=observation,
            rates=rates,
            trend=trend,
            cursors=cursors,
            cursor_watch=self._cursors,
            thresholds=self.thresholds,
            watched=now - self._watched_since,
            untouched=self._waiting.untouched(now),
            failing=self._failing.add(observation, self.thresholds),
        )
        return Snapshot(
            observation=observation,
            rates=rates,
            cursors=cursors,
            problems=_problems(seen),
            lock_problems={
                lock.path: code for lock in observation.locks if (code := lock_problem(lock, now, self.thresholds)) is not None
            },
            history=history,
            cell=CELL,
            rate_history=self._flow_history.cells(now),
            not_judged=tuple(not_judged(seen)),
            not_judged_codes=not_judged_codes(seen),
            not_visible=tuple(not_visible(seen)),
        )

    def measured(self, consumers: ConsumerList) -> ConsumerList:
        """Adds the rates of each consumer, as of the last look."""
        return self._holders.measured(consumers)

    def use(self, thresholds: Thresholds) -> None:
        """Judges by other thresholds from the next look on."""
        self.thresholds = thresholds
        self._cursors.window = thresholds.cursor_window

    def highest(self, source: Json, file: Json = None) -> Json:
        """Returns the highest value that was seen of ``source`` (in ``file``; None: in any), None if it was never seen. May be
        called from another thread."""
        return self._cursors.highest(source, file)

    def _follow_clock(self, observation: Observation) -> None:
        """Restarts watching after a clock jump: times before it cannot be subtracted from times after it."""
        jumped = observation.clock_jumped or 0.0
        back = self._last_at is not None and observation.taken_at < self._last_at
        if back or abs(jumped - self._jumped) > _JUMP:
            self._begin()
        self._jumped = jumped


def _problems(seen: RuleInput) -> tuple[Problem, ...]:
    """Returns problems in the order of the codes; within a code critical ones first, then in the order of the rules, so that
    lines keep their place."""
    found = [*host_problems(seen), *message_problems(seen), *state_problems(seen)]
    return tuple(sorted(found, key=lambda problem: (problem.rank, _WEIGHT[problem.severity])))

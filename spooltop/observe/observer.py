"""Turns observations into snapshots and keeps all history. It reads no clock; time comes from the observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spooltop.model.look.observation import Observation
from spooltop.model.look.problem import Problem, Severity
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.vocabulary import Box, Json

from .cursors.watch import CursorWatch
from .failing import FailingWatch
from .flow.depth import CELL, DepthHistory, TrendWatch
from .flow.history import FlowHistory
from .flow.holders import HolderRates
from .flow.rates import RateWindow
from .rules.host import host_problems
from .rules.messages import message_problems
from .rules.rule_input import RuleInput
from .rules.states import lock_problem, state_problems
from .rules.visibility import not_judged, not_judged_codes, not_visible
from .thresholds import Thresholds
from .waiting import WaitingWatch

if TYPE_CHECKING:
    from spooltop.model.look.consumers import ConsumerList

__all__ = ["Observer"]

_JUMP = 2.0
_WEIGHT = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.NOTE: 2}


class Observer:
    """Makes a ``Snapshot`` of each ``Observation`` and those before it. Takes them in the order of time. Not thread-safe."""

    def __init__(self, thresholds: Thresholds | None = None, cursor_fields: Mapping[str, str] | None = None) -> None:
        self.thresholds = thresholds or Thresholds()
        self._flow = RateWindow()
        self._flow_history = FlowHistory()
        self._holders = HolderRates()
        self._trend = TrendWatch()
        self._waiting = WaitingWatch()
        self._failing = FailingWatch(self.thresholds.failing_attempts, self.thresholds.failing_releases)
        self._depths: dict[Box, DepthHistory] = {}
        self._cursors = CursorWatch(self.thresholds.cursor_window, cursor_fields)
        self._watched_since: float | None = None
        self._last_at: float | None = None
        self._jumped = 0.0

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
            failing=self._failing.add(observation),
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
        self._failing.attempts, self._failing.releases = thresholds.failing_attempts, thresholds.failing_releases
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
            self._flow.clear()
            self._flow_history.clear()
            self._holders.clear()
            self._trend.clear()
            self._waiting.clear()
            self._failing.clear()
            self._depths.clear()
            self._watched_since = None
        self._jumped = jumped


def _problems(seen: RuleInput) -> tuple[Problem, ...]:
    """Returns problems in the order of the codes; within a code critical ones first, then in the order of the rules, so that
    lines keep their place."""
    found = [*host_problems(seen), *message_problems(seen), *state_problems(seen)]
    return tuple(sorted(found, key=lambda problem: (problem.rank, _WEIGHT[problem.severity])))

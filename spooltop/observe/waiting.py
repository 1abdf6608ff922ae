"""Measures how long messages have been waiting in ``new`` without a claim."""

from __future__ import annotations

from spooltop.model.look.observation import Observation
from spooltop.model.vocabulary import Box

__all__ = ["WaitingWatch"]


class WaitingWatch:
    """Remembers since when ``new`` has not been empty, and when a message was last seen to leave it.

    Claims are seen by events, by claims in ``cur``, by finished messages, and by a shrinking ``new``. Each of these alone can
    miss one, so "no consumer" requires that all are silent.
    """

    def __init__(self) -> None:
        self._waiting_since: float | None = None
        self._taken_at: float | None = None
        self._depth: int | None = None

    def clear(self) -> None:
        self._waiting_since = self._taken_at = self._depth = None

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

    @property
    def taken_at(self) -> float | None:
        """When a message was last seen to be claimed; None if never."""
        return self._taken_at

    def untouched(self, now: float) -> float | None:
        """Returns the seconds for which messages waited under watch and none was claimed; None if none wait."""
        if self._waiting_since is None:
            return None
        return now - max(self._waiting_since, self._taken_at or 0.0)

"""Decides whether a new snapshot is worth painting. A spool where nothing happens must cost the terminal nothing, and the thread
that paints must not wake for it."""

from __future__ import annotations

from collections.abc import Hashable

from spooltop.model.look.snapshot import Snapshot

TICK = 10.0
"""Seconds after which ages are painted again although nothing else changed: their step below a minute."""
SOON = 1.0
"""The same during the first ``TICK`` seconds after a change, when ages are whole seconds."""

CLOCK = TICK / 2
"""Seconds between two updates of the clock in the header where nothing else changes: every second one comes with the ages."""


def signature(snapshot: Snapshot) -> Hashable:
    """Equal for two snapshots that differ only by the passing of time (ages, windows of rates, free disk space). A rate that
    becomes known is a change: after a stop (Ctrl-Z) the first look does not know all of them, the second does."""
    observation = snapshot.observation
    return (
        observation.generation,
        observation.complete,
        tuple((box, state.count, state.complete, state.oldest_at, state.error) for box, state in observation.boxes.items()),
        tuple((row.key, row.verdict) for row in observation.claims),
        tuple((row.key, row.verdict, row.size) for row in observation.tmp),
        observation.counts,
        observation.consumers,
        tuple(sorted(observation.suppressed.items())),
        tuple((problem.code, problem.severity, problem.count, problem.subject) for problem in snapshot.problems),
        tuple(
            (
                cursor.source, cursor.shown, cursor.verdict, cursor.reverts_recent, cursor.moved_at, cursor.history[:1],
                cursor.polls[:1],
            )
            for cursor in snapshot.cursors
        ),
        tuple((lock.path, lock.verdict, lock.holders, lock.waiters) for lock in observation.locks),
        tuple(sorted(observation.capabilities.refusals.items())),
        tuple(one.readonly for one in observation.capacities),
        observation.watch.mode,
        observation.watch.reason,
        observation.hidden,
        snapshot.not_visible,
        (snapshot.rates.in_per_s is None, snapshot.rates.done_per_s is None),
        tuple(sorted(snapshot.muted.items())),
    )


class ChangeFilter:
    """Passes a snapshot that has changes, or in which ages have a new step: every ``soon`` seconds until ``tick`` seconds after
    the last change, then every ``tick`` seconds."""

    def __init__(self, tick: float = TICK, soon: float = SOON) -> None:
        self._tick = tick
        self._soon = soon
        self._last: Hashable = None
        self._at: float | None = None
        self._news_at = 0.0

    def passes(self, snapshot: Snapshot) -> bool:
        found = signature(snapshot)
        now = snapshot.taken_at
        news = found != self._last
        if news:
            self._news_at = now
        step = self._soon if 0 <= now - self._news_at <= self._tick + self._soon else self._tick
        if not news and self._at is not None and 0 <= now - self._at < step:
            return False
        self._last, self._at = found, now
        return True

    def pass_next(self) -> None:
        """Passes the next snapshot in any case."""
        self._at = None

"""What makes a new snapshot worth painting. A spool where nothing happens must cost the terminal nothing."""

from __future__ import annotations

from collections.abc import Hashable

from spooltop.model.snapshot import Snapshot

__all__ = ["TICK", "ChangeFilter", "clock_period", "signature"]

TICK = 10.0
"""Seconds after which ages are painted again though nothing else changed: their step below a minute."""
SOON = 1.0
"""The same in the first ``TICK`` seconds after a change, in which ages are whole seconds."""


def clock_period(width: int) -> float:
    """Seconds between two moves of the clock in the header where nothing else changes: as a whole line of ``width`` cells is
    written each time, under a hundred bytes a second.

    >>> clock_period(80), clock_period(200)
    (2.0, 4.0)
    """
    return max(2.0, width / 50)


def signature(snapshot: Snapshot) -> Hashable:
    """Equal for two snapshots that differ only by the passing of time (ages, windows of rates, room on the disk). That a
    rate can be told now is news: after a stop (Ctrl-Z) the first look cannot tell all of them, the second can."""
    sight = snapshot.sight
    return (
        sight.generation,
        sight.complete,
        tuple((box, state.count, state.complete, state.oldest_at, state.error) for box, state in sight.boxes.items()),
        tuple((row.key, row.verdict) for row in sight.claims),
        tuple((row.key, row.verdict, row.size) for row in sight.tmp),
        sight.counts,
        sight.consumers,
        tuple(sorted(sight.suppressed.items())),
        tuple((problem.code, problem.severity, problem.count, problem.subject) for problem in snapshot.problems),
        tuple(
            (
                cursor.source, cursor.shown, cursor.verdict, cursor.reverts_recent, cursor.moved_at, cursor.history[:1],
                cursor.polls[:1],
            )
            for cursor in snapshot.cursors
        ),
        tuple((lock.path, lock.verdict, lock.holders, lock.waiters) for lock in sight.locks),
        tuple(sorted(sight.capabilities.refusals.items())),
        sight.disk.readonly,
        sight.watch.mode,
        sight.watch.reason,
        snapshot.not_visible,
        (snapshot.rates.in_per_s is None, snapshot.rates.done_per_s is None),
        tuple(sorted(snapshot.muted.items())),
    )


class ChangeFilter:
    """Lets a snapshot through where it says something new, or where ages have a new step: each ``soon`` seconds until ``tick``
    went by since the last news, then each ``tick``."""

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

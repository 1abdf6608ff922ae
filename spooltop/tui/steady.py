"""What makes a new snapshot worth painting. A spool where nothing happens must cost the terminal nothing."""

from __future__ import annotations

from collections.abc import Hashable

from ..model.snapshot import Snapshot

__all__ = ["TICK", "Steady", "signature"]

TICK = 10.0
"""Seconds after which ages are painted again though nothing else changed."""


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
        tuple((problem.code, problem.severity, problem.count, problem.subject) for problem in snapshot.problems),
        tuple(
            (cursor.source, cursor.shown, cursor.verdict, cursor.put_back, cursor.moved_at, cursor.history[:1], cursor.polls[:1])
            for cursor in snapshot.cursors
        ),
        tuple((lock.path, lock.verdict, lock.holders, lock.waiters) for lock in sight.locks),
        tuple(sorted(sight.can.refusals.items())),
        sight.disk.readonly,
        sight.watch.mode,
        sight.watch.reason,
        snapshot.not_visible,
        (snapshot.rates.in_per_s is None, snapshot.rates.done_per_s is None),
        tuple(sorted(snapshot.muted.items())),
    )


class Steady:
    """Lets a snapshot through where it says something new, or where ``tick`` seconds went by since the last one."""

    def __init__(self, tick: float = TICK) -> None:
        self._tick = tick
        self._last: Hashable = None
        self._at: float | None = None

    def takes(self, snapshot: Snapshot) -> bool:
        found = signature(snapshot)
        due = self._at is None or not 0 <= snapshot.taken_at - self._at < self._tick
        if found == self._last and not due:
            return False
        self._last, self._at = found, snapshot.taken_at
        return True

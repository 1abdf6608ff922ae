"""Counts what each consumer finished and failed at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from operator import itemgetter

from spooltop.engine.names import Name
from spooltop.model.look.observation import HolderFlow

__all__ = ["HolderCounts", "holder_of"]

_MOST = 4_000
"""Consumers that are counted between two looks, the busiest."""
_times = itemgetter(1)


def holder_of(name: Name) -> str:
    """The holder of a claim: its token, else ``P`` and its pid; "" where the name has neither."""
    return name.token or ("" if name.pid is None else f"P{name.pid}")


class HolderCounts:
    """Counts from ``take`` to ``take``. A failure counts one look later, as it is known only then what was done."""

    def __init__(self) -> None:
        self._done: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._failed_now: Counter[str] = Counter()
        self._claimed_at: dict[str, float] = {}

    def claimed(self, holder: str, at: float) -> None:
        """Notes a claim."""
        if at > self._claimed_at.get(holder, 0.0) and (holder in self._claimed_at or len(self._claimed_at) < _MOST):
            self._claimed_at[holder] = at

    def failed(self, holder: str, *, now: bool) -> None:
        """Counts an attempt that failed: ``now``, or during the flow before."""
        (self._failed_now if now else self._failed)[holder] += 1

    def done(self, holders: Mapping[str, int]) -> None:
        """Counts finished messages by holder."""
        self._done.update(holders)

    def take(self) -> dict[str, HolderFlow]:
        """Returns the counts since the last ``take``."""
        done, failed, claimed = self._done, self._failed, self._claimed_at
        for counts in (done, failed, self._failed_now):
            counts.pop("", None)
        claimed.pop("", None)
        holders = done.keys() | failed.keys() | claimed.keys()
        if len(holders) > _MOST:
            busy = sorted(((holder, done[holder] + failed[holder]) for holder in holders), key=_times, reverse=True)
            holders = {holder for holder, _ in busy[:_MOST]}
        found = {holder: HolderFlow(done[holder], failed[holder], claimed.get(holder)) for holder in holders}
        self._done, self._failed, self._failed_now, self._claimed_at = Counter(), self._failed_now, Counter(), {}
        return found

"""Detects messages whose attempts fail again and again, by their names and by observed returns."""

from __future__ import annotations

from collections import Counter, deque

from spooltop.model.look.flow import Return, Tried
from spooltop.model.look.observation import Observation
from spooltop.model.vocabulary import DIED
from spooltop.records import dataclass

__all__ = ["Failing", "FailingWatch"]

WINDOW = 300.0
"""Seconds over which returns are counted."""
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Failing:
    """``messages`` fail; they had ``retries`` attempts without success in ``window`` seconds, None: in total, according to their
    names. ``ended`` is how the last attempt ended, None if unknown; ``at_least``: there may be more of them."""

    messages: tuple[Tried, ...]
    retries: int
    window: float | None
    ended: str | None
    at_least: bool


class FailingWatch:
    """Remembers the returns of the last five minutes."""

    def __init__(self, attempts: int, releases: int) -> None:
        self.attempts = attempts
        self.releases = releases
        self._returns: deque[Return] = deque(maxlen=_MOST)
        self._recovered: dict[str, float] = {}
        self._since: float | None = None

    def clear(self) -> None:
        self._returns.clear()
        self._recovered.clear()
        self._since = None

    def add(self, observation: Observation) -> Failing | None:
        now = observation.taken_at
        self._since = now if self._since is None else self._since
        self._returns.extend(one for one in observation.flow.returns if one.failed)
        self._recovered.update(dict.fromkeys(observation.flow.recovered, now))
        while self._returns and self._returns[0].at < now - WINDOW:
            self._returns.popleft()
        for id in [id for id, at in self._recovered.items() if at < now - WINDOW]:
            del self._recovered[id]
        often = Counter(one.id for one in self._returns)
        together = len(self._returns) >= self.releases and not any(id in self._recovered for id in often)
        found = {
            one.id: one
            for one in observation.tried
            if (one.attempts >= self.attempts and one.failed) or (together and one.id in often)
        }
        if not found:
            return None
        messages = tuple(sorted(found.values(), key=lambda one: (-one.attempts, one.id)))
        watched = sum(often[id] for id in found)
        if watched >= self.releases:
            window: float | None = min(WINDOW, max(1.0, now - self._since))
            retries = watched
        else:
            window, retries = None, sum(one.attempts for one in messages)
        last = next((one.ended for one in reversed(self._returns) if one.id in found and one.ended), None)
        if last is None:
            ends = Counter(one.ended for one in messages if one.ended not in (None, DIED))
            last = ends.most_common(1)[0][0] if ends else None
        return Failing(messages, retries, window, last, not observation.tried_all)

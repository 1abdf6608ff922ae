"""Problems of locks, and what cannot be said of them yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spooltop.model.snapshot import Observation, Problem, Severity
from spooltop.model.units import age, count, percent
from spooltop.model.vocabulary import Lock, escape
from spooltop.observe.observer import Codes, FeatureRules, RuleInput, base_name, counted, watch_words
from spooltop.observe.thresholds import Thresholds


class LockRules(FeatureRules):
    def add(self, observation: Observation, thresholds: Thresholds) -> dict[str, Any]:
        codes = ((lock.path, lock_problem(lock, observation.taken_at, thresholds)) for lock in observation.locks)
        return {"lock_problems": {path: code for path, code in codes if code is not None}}  # a path may be listed twice

    def problems(self, seen: RuleInput) -> Iterator[Problem]:
        stale: list[Lock] = []
        for lock in seen.observation.locks:
            taken, code = _taken(lock), lock_problem(lock, seen.now, seen.thresholds)
            if code == "ticket-orphan":
                text = f"{base_name(lock.path)}: {escape(lock.evidence)}"
                text += f", {len(lock.waiters)} wait{'s' if len(lock.waiters) == 1 else ''} behind it" if lock.waiters else ""
                yield Problem("ticket-orphan", Severity.WARNING, text, 1 + len(lock.waiters), view="locks", subject=lock.path)
                continue
            if code == "lock-stale":
                stale.append(lock)
            if code == "lock-blocked" and taken is not None:
                holder = lock.holders[0]
                who = " ".join(escape(str(part)) for part in (holder.pid, holder.command) if part)
                text = f"{base_name(lock.path)} held {age(seen.now - taken)}"
                text += (f" by {who}" if who else "") + f", {len(lock.waiters)} wait{'s' if len(lock.waiters) == 1 else ''}"
                yield Problem("lock-blocked", Severity.WARNING, text, len(lock.waiters), view="locks", subject=lock.path)
        if stale:
            first = stale[0]
            why = f": {escape(first.evidence)}" if len(stale) == 1 and first.evidence else ""
            more = "" if len(stale) == 1 else f" and {len(stale) - 1} more"
            text = f"stale lock {base_name(first.path)}{more}{why}"
            yield Problem("lock-stale", Severity.WARNING, text, len(stale), view="locks", subject=first.path)
        observation, limits = seen.observation, seen.thresholds
        given_up = observation.locks_given_up
        tries = observation.locks_had + given_up
        if tries >= limits.lock_tries and given_up * 100 > limits.lock_failures * tries:
            part = percent(given_up, tries)
            text = f"{count(given_up)} of {count(tries)} attempts at the engine's own locks timed out ({part} over 5m)"
            yield Problem("lock-failures", Severity.WARNING, text, given_up, view="locks")

    def codes(self, seen: RuleInput) -> Codes:
        if seen.watched < seen.thresholds.lock_blocked and any(lock.waiters for lock in seen.observation.locks):
            yield watch_words(seen.thresholds.lock_blocked), ("lock-blocked",)
        hidden = [lock for lock in seen.observation.locks if lock.verdict == "unknown"]
        if hidden:
            yield f"it is unknown who has {counted(len(hidden), 'lock')}", ("lock-blocked", "lock-stale", "ticket-orphan")


RULES = LockRules


def lock_problem(lock: Lock, now: float, limits: Thresholds) -> str | None:
    """Returns the code of a lock's problem at ``now`` (epoch seconds); None if there is none. Everything that calls a lock
    BLOCKED or STALE uses it."""
    taken = _taken(lock)
    if lock.verdict == "stale":
        if lock.kind == "ticket":
            return "ticket-orphan"
        return "lock-stale" if taken is not None and now - taken > limits.lock_stale else None
    if lock.waiters and lock.holders and taken is not None and now - taken > limits.lock_blocked:
        return "lock-blocked"
    return None


def _taken(lock: Lock) -> float | None:
    return min((holder.since for holder in lock.holders if holder.since is not None), default=None)

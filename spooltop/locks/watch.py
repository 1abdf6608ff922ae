"""Problems of locks, and what cannot be said of them yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spooltop.model import Lock, Observation, Problem, Severity, age, count, escape, percent, since
from spooltop.observe.observer import Codes, FeatureRules, RuleInput, base_name, counted, watch_words
from spooltop.observe.thresholds import Thresholds


class LockRules(FeatureRules):
    def add(self, observation: Observation, thresholds: Thresholds) -> dict[str, Any]:
        codes = ((lock.path, lock_problem(lock, observation.taken_at, thresholds)) for lock in observation.locks)
        return {"lock_problems": {path: code for path, code in codes if code is not None}}  # a path may be listed twice

    def problems(self, seen: RuleInput) -> Iterator[Problem]:
        stale: list[Lock] = []
        for lock in seen.observation.locks:
            name, waiters = base_name(lock.path), len(lock.waiters)
            waits = f", {waiters} wait{'s' if waiters == 1 else ''}"
            match lock_problem(lock, seen.now, seen.thresholds):
                case "ticket-orphan":
                    text = f"{name}: {escape(lock.evidence)}" + (f"{waits} behind it" if waiters else "")
                    yield _problem("ticket-orphan", text, 1 + waiters, lock)
                case "lock-stale":
                    stale.append(lock)
                case "lock-blocked":
                    holder = lock.holders[0]
                    who = " ".join(escape(str(part)) for part in (holder.pid, holder.command) if part)
                    text = f"{name} held {age(since(lock.taken_at, seen.now))}{f' by {who}' if who else ''}{waits}"
                    yield _problem("lock-blocked", text, waiters, lock)
        if stale:
            first = stale[0]
            why = f": {escape(first.evidence)}" if first.evidence else ""
            text = f"stale lock {base_name(first.path)}" + (f" and {len(stale) - 1} more" if len(stale) > 1 else why)
            yield _problem("lock-stale", text, len(stale), first)
        observation, limits = seen.observation, seen.thresholds
        given_up = observation.locks_given_up
        tries = observation.locks_had + given_up
        if tries >= limits.lock_tries and given_up * 100 > limits.lock_failures * tries:
            part = percent(given_up, tries)
            text = f"{count(given_up)} of {count(tries)} attempts at the engine's own locks timed out ({part} over 5m)"
            yield _problem("lock-failures", text, given_up)

    def codes(self, seen: RuleInput) -> Codes:
        if seen.watched < seen.thresholds.lock_blocked and any(lock.waiters for lock in seen.observation.locks):
            yield watch_words(seen.thresholds.lock_blocked), ("lock-blocked",)
        hidden = [lock for lock in seen.observation.locks if lock.verdict == "unknown"]
        if hidden:
            yield f"it is unknown who has {counted(len(hidden), 'lock')}", ("lock-blocked", "lock-stale", "ticket-orphan")


RULES = LockRules


def _problem(code: str, text: str, number: int, lock: Lock | None = None) -> Problem:
    return Problem(code, Severity.WARNING, text, number, view="locks", subject=None if lock is None else lock.path)


def lock_problem(lock: Lock, now: float, limits: Thresholds) -> str | None:
    """Returns the code of a lock's problem at ``now`` (epoch seconds); None if there is none. Everything that calls a lock
    BLOCKED or STALE uses it."""
    taken = lock.taken_at
    if lock.verdict == "stale":
        if lock.kind == "ticket":
            return "ticket-orphan"
        return "lock-stale" if taken is not None and now - taken > limits.lock_stale else None
    if lock.waiters and lock.holders and taken is not None and now - taken > limits.lock_blocked:
        return "lock-blocked"
    return None

"""Problems of cursors and locks."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

from spooltop.model.cursors.state import Cursor
from spooltop.model.look.locks import Lock
from spooltop.model.look.problem import Problem, Severity
from spooltop.model.text import escape
from spooltop.model.units import age, count, fit, percent

from ..cursors.verdict import revert_words, writers_of
from ..thresholds import Thresholds
from .rule_input import RuleInput

__all__ = ["lock_problem", "state_problems"]

_NAME_CELLS = 40


def state_problems(seen: RuleInput) -> Iterator[Problem]:
    yield from _cursors(seen)
    yield from _locks(seen)
    yield from _given_up(seen)
    yield from _unsafe(seen)


def _cursors(seen: RuleInput) -> Iterator[Problem]:
    for path, (error, sources) in seen.cursor_watch.errors.items():
        text = f"{_base(path)} cannot be read: {escape(error)}"
        if sources:
            text += f"; last good values of {sources} kept"
        first = next((cursor.source for cursor in seen.cursors if cursor.file == path), None)
        yield Problem("cursor-unreadable", Severity.CRITICAL, text, max(1, sources), view="cursors", subject=first)
    for cursor in seen.cursors:
        name = escape(cursor.source)
        if cursor.verdict == "reverted":
            text = f"{name} {_reverted(seen, cursor)}"
            yield _cursor("cursor-reverted", Severity.CRITICAL, text, cursor, cursor.reverts_recent)
        elif cursor.verdict == "missing":
            yield _cursor("cursor-missing", Severity.CRITICAL, f"{name}: {cursor.evidence}", cursor)
        elif cursor.verdict in ("rewound", "stopped", "stalled"):
            yield _cursor(f"cursor-{cursor.verdict}", Severity.WARNING, f"{name} {cursor.verdict}: {cursor.evidence}", cursor)


def _cursor(code: str, severity: Severity, text: str, cursor: Cursor, count: int = 1) -> Problem:
    return Problem(code, severity, text, count, view="cursors", subject=cursor.source)


def _reverted(seen: RuleInput, cursor: Cursor) -> str:
    found = seen.cursor_watch.lost_updates(cursor.file, cursor.source, seen.now)
    if not found or not found[1]:
        return cursor.evidence
    history, lost = found
    window = seen.thresholds.cursor_window
    recent = [change for change in lost if change.at >= seen.now - window] or lost
    text = revert_words(history, lost, seen.now, window=window, at_least=cursor.reverts_is_bound)
    carried = Counter(source for change in recent for source in change.advanced).most_common(1)
    written = writers_of(recent, seen.now, window=window)
    if written:
        text += f", written by {written[0][0]} ({written[0][1]} of {len(recent)})"
    elif carried:
        text += f", as {escape(carried[0][0])} wrote ({carried[0][1]} of {len(recent)})"
    return text


def _given_up(seen: RuleInput) -> Iterator[Problem]:
    observation, limits = seen.observation, seen.thresholds
    given_up = observation.locks_given_up
    tries = observation.locks_had + given_up
    if tries >= limits.lock_tries and given_up * 100 > limits.lock_failures * tries:
        part = percent(given_up, tries)
        text = f"{count(given_up)} of {count(tries)} attempts at the engine's own locks timed out ({part} over 5m)"
        yield Problem("lock-failures", Severity.WARNING, text, given_up, view="locks")


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


def _locks(seen: RuleInput) -> Iterator[Problem]:
    stale: list[Lock] = []
    for lock in seen.observation.locks:
        taken, code = _taken(lock), lock_problem(lock, seen.now, seen.thresholds)
        if code == "ticket-orphan":
            text = f"{_base(lock.path)}: {escape(lock.evidence)}"
            text += f", {len(lock.waiters)} wait{'s' if len(lock.waiters) == 1 else ''} behind it" if lock.waiters else ""
            yield Problem("ticket-orphan", Severity.WARNING, text, 1 + len(lock.waiters), view="locks", subject=lock.path)
            continue
        if code == "lock-stale":
            stale.append(lock)
        if code == "lock-blocked" and taken is not None:
            holder = lock.holders[0]
            who = " ".join(escape(str(part)) for part in (holder.pid, holder.command) if part)
            text = f"{_base(lock.path)} held {age(seen.now - taken)}"
            text += (f" by {who}" if who else "") + f", {len(lock.waiters)} wait{'s' if len(lock.waiters) == 1 else ''}"
            yield Problem("lock-blocked", Severity.WARNING, text, len(lock.waiters), view="locks", subject=lock.path)
    if stale:
        first = stale[0]
        why = f": {escape(first.evidence)}" if len(stale) == 1 and first.evidence else ""
        more = "" if len(stale) == 1 else f" and {len(stale) - 1} more"
        text = f"stale lock {_base(first.path)}{more}{why}"
        yield Problem("lock-stale", Severity.WARNING, text, len(stale), view="locks", subject=first.path)


def _unsafe(seen: RuleInput) -> Iterator[Problem]:
    for path, names in seen.cursor_watch.unsafe.items():
        first = fit(escape(names[0]), min(_NAME_CELLS, len(escape(names[0]))))
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        text = f"{_base(path)} is written unsafely: {first}{more} seen"
        source = next((cursor.source for cursor in seen.cursors if cursor.file == path), None)
        yield Problem("unsafe-writer", Severity.WARNING, text, len(names), view="cursors", subject=source)


def _base(path: str) -> str:
    return escape(os.path.basename(path) or path)

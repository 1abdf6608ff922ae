"""Locks and tickets as JSON objects and as lines of text, those of the report on a target too. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from spooltop.cli.render.as_json import holder, members
from spooltop.model import EXITED, RUNNING, Lock, LockHolder, Snapshot, age, count, escape, fit, percent, printable, since


def status_json(snapshot: Snapshot) -> dict[str, Any]:
    return {"locks": [*map(lock_json, snapshot.observation.locks)]}


def status_lines(snapshot: Snapshot) -> Iterator[str]:
    if busy := [lock for lock in snapshot.observation.locks if lock.verdict not in ("free", "unknown") or lock.waiters]:
        yield from _locks(busy, snapshot)


def lock_json(lock: Lock) -> dict[str, Any]:
    """A line of ``locks --json`` and ``tickets --json``."""
    return {
        "path": escape(lock.path),
        "kind": lock.kind,
        "holders": [*map(holder, lock.holders)],
        "waiters": [*map(holder, lock.waiters)],
        **members(lock, "verdict", "evidence"),
    }


def lock_lines(snapshot: Snapshot) -> Iterator[str]:
    """Lines of lock files with the holders and waiters of each, and of the number of times the engine's own locks timed out."""
    had, in_vain = snapshot.observation.locks_had, snapshot.observation.locks_given_up
    tries = had + in_vain
    yield from _locks(snapshot.observation.locks, snapshot)
    if tries:
        yield f"the engine's own locks: {count(in_vain)} timed out ({percent(in_vain, tries)}) of {count(tries)} attempts over 5m"


def ticket_lines(queues: Sequence[Lock], snapshot: Snapshot) -> Iterator[str]:
    """Lines of ticket queues: the owner of the lock, then the waiters in their order."""
    for number, queue in enumerate(queues):
        if number:
            yield ""
        said = f", {printable(queue.evidence)}" if queue.evidence else ""
        yield f"{escape(queue.path)}: {snapshot.lock_verdict(queue)}{said}"
        queued = (*queue.holders, *queue.waiters)
        if queued:
            yield "place       pid   age  state    command"
        for place, party in enumerate(queued):
            waited = age(since(party.since, snapshot.taken_at))
            state = RUNNING if party.alive else EXITED if party.alive is False else "?"
            where = f"{place:>5}" if place else "owner"
            pid = "?" if party.pid is None else party.pid
            yield f"{where}  {pid:>8}  {waited:>4}  {state:<7}  {escape(party.command or '—')}"


def _locks(some: Sequence[Lock], snapshot: Snapshot) -> Iterator[str]:
    yield "verdict  kind    holder                    waits  lock"
    for lock in some:
        first = lock.holders[0] if lock.holders else None
        who = "—" if first is None else _holder(first)
        who += f" +{len(lock.holders) - 1}" if len(lock.holders) > 1 else ""
        who = fit(who, 24, cut="right")
        yield f"{snapshot.lock_verdict(lock):<7}  {lock.kind:<6}  {who}  {len(lock.waiters):>5}  {escape(lock.path)}"
        if lock.evidence and lock.verdict not in ("free", "blocked"):  # those say it by holder and waits
            yield f"         {printable(lock.evidence)}"


def _holder(one: LockHolder) -> str:
    return " ".join(part for part in (str(one.pid or ("" if one.command else "?")), escape(one.command or "")) if part)

"""Commands that list locks and tickets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spooltop.cli.commands.show import look
from spooltop.cli.context import Arguments
from spooltop.model import Lock, SpooltopError, Unreadable, escape

from .render import lock_json, lock_lines, ticket_lines


def locks(args: Arguments) -> int:
    snapshot = look(args)
    found = snapshot.observation.locks
    return _listed(found, lock_lines(snapshot) if found else ["no locks here"], args)


def tickets(args: Arguments) -> int:
    snapshot = look(args)
    queues = [lock for lock in snapshot.observation.locks if lock.kind in ("ticket", "redis")]
    return _listed(queues, ticket_lines(queues, snapshot) if queues else ["no tickets here"], args)


def _listed(locks: Sequence[Lock], lines: Iterable[str], args: Arguments) -> int:
    """Prints locks, and which servers did not answer; returns the exit code for that."""
    args.terminal.show(map(lock_json, locks), lines)
    failed = [lock for lock in locks if lock.failed]
    for lock in failed:
        args.terminal.error(f"{escape(lock.path)}: {lock.evidence}")
    if not failed:
        return 0
    return Unreadable.exit_code if len(failed) == len(locks) else SpooltopError.exit_code

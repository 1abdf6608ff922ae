"""What the removal of locks says: which are meant, why one is not removed, what it is, what came of it."""

from __future__ import annotations

import os

from spooltop.errors import UsageError
from spooltop.model.observation import Lock
from spooltop.model.plan import OperationRecord, Outcome
from spooltop.model.row import Row
from spooltop.model.selection import Selection
from spooltop.model.text import escape
from spooltop.model.units import age, duration
from spooltop.model.vocabulary import Action, Box, Verdict

from ..storage.access import quoted
from .records import Taken

__all__ = ["chosen", "record", "row_of", "why_not", "words_of"]

_NEVER = "a kernel lock ends with its holder, and a file that merely exists is not held; removing it would let two hold it"


def chosen(selection: Selection, locks: tuple[Lock, ...]) -> tuple[list[Lock], tuple[str, ...]]:
    """The locks that are named, and the names that none has. Raises ``UsageError``."""
    if selection.everything:
        return [lock for lock in locks if lock.verdict == "stale"], ()
    names = [str(name) for name in (*(selection.ids or ()), *(selection.keys or ()))]
    if not names:
        raise UsageError("unlock: which lock?", advice="name it as spooltop locks lists it, or ALL for all that are stale")
    named: dict[str, Lock] = {}
    missing: list[str] = []
    for name in names:
        found = [lock for lock in locks if name == lock.path or os.path.abspath(name) == lock.path]
        found = found or [lock for lock in locks if name == os.path.basename(lock.path)]
        if len(found) > 1:
            there = ", ".join(escape(lock.path) for lock in found)
            raise UsageError(f"unlock: {escape(name)} stands in several places: {there}", advice="name one by its path")
        if found:
            named[found[0].path] = found[0]
        else:
            missing.append(name)
    return list(named.values()), tuple(missing)


def why_not(lock: Lock, now: float, stale_after: float) -> tuple[str, bool]:
    """Why it is not removed ("" where it may go), and whether force does it all the same."""
    head = lock.holders[0] if lock.holders else None
    who = f"pid {head.pid}" if head is not None and head.pid is not None else "somebody"
    if lock.kind == "mkdir":
        return f"{lock.evidence}; a directory is not removed here: if its holder is gone, rm -r {quoted(lock.path)}", False
    if lock.kind == "none" and lock.verdict == "unknown":
        return f"{lock.evidence}; if so, and its holder is gone, rm {quoted(lock.path)}", False
    if lock.kind not in ("soft", "ticket"):
        return (f"{who} holds it ({lock.kind}); {_NEVER}" if lock.holders else f"nobody holds it; {_NEVER}"), False
    if lock.verdict == "free":
        return f"{lock.evidence}: there is nothing to remove", False
    if lock.verdict == "unknown":
        return f"{lock.evidence}; whether its holder lives nobody here can tell", True
    if lock.verdict != "stale":
        has = "has the first ticket" if lock.kind == "ticket" else "has it"
        return (f"{who} lives and {has}" if head is not None and head.alive else f"somebody has it: {lock.evidence}"), False
    stood = None if head is None or head.since is None else now - head.since
    if lock.kind == "soft" and (stood is None or stood <= stale_after):
        held = "?" if stood is None else age(max(0.0, stood))
        return f"{lock.evidence}, but it is only {held} old; it counts as stale after {duration(stale_after)}", True
    return "", False


def row_of(lock: Lock) -> Row:
    verdict = {"stale": Verdict.DEAD, "held": Verdict.ALIVE, "blocked": Verdict.ALIVE}.get(lock.verdict, Verdict.UNKNOWN)
    since = min((one.since for one in lock.holders if one.since is not None), default=None)
    return Row(
        key=lock.path, box=Box.CUR, id=lock.path, name=lock.path, verdict=verdict, evidence=lock.evidence, in_box_since=since
    )


def words_of(lock: Lock, name: str, pid: int | None, element: str) -> str:
    """What it is, in the list of a plan and in the books."""
    if lock.kind == "ticket":
        return f"ticket {int(name.partition('.')[0])} of pid {pid} in {escape(lock.path)}"
    of = f" of pid {pid}" if pid is not None else f" on {escape(element)}" if element else ""
    return f"soft lock {escape(lock.path)}{of}"


def record(items: list[Taken], undone_by: str | None) -> OperationRecord:
    first = items[0]
    done, skipped, failed = (
        sum(one.outcome is outcome for one in items) for outcome in (Outcome.DONE, Outcome.SKIPPED, Outcome.FAILED)
    )
    is_open = any(one.outcome is None for one in items)
    why_not = None
    if first.action is Action.UNDO:
        why_not = "unlock removes it again"
    elif not done and not is_open:
        why_not = "it changed nothing"
    elif undone_by is not None:
        why_not = f"already undone by {undone_by}"
    words = "; ".join(one.words for one in items[:3]) + (f" and {len(items) - 3} more" if len(items) > 3 else "")
    if is_open:
        words += "; cut short: whether it was removed spooltop locks shows"
    return OperationRecord(
        first.operation, first.action, first.at, first.user, len(items), done, skipped, failed, is_open, undone_by, why_not, words
    )

"""Selects the locks that an unlock means, and gives the reason why one is not removed."""

from __future__ import annotations

import errno
import os
import stat

from spooltop.errors import UsageError
from spooltop.model.filters.selection import Selection
from spooltop.model.look.locks import Lock
from spooltop.model.operations.plan import Refusal
from spooltop.model.row import Row
from spooltop.model.text import escape
from spooltop.model.units import age, duration

from ...access import closed_words, quoted
from ...journal.log_files import LogFiles
from .read_write_locks import KIND

__all__ = ["blocked_by", "chosen_locks", "removal_refused"]

_NEVER = "a kernel lock ends when its holder exits; without its file, two processes could hold it"


def chosen_locks(selection: Selection, locks: tuple[Lock, ...]) -> tuple[list[Lock], tuple[str, ...]]:
    """The named locks, and the names that no lock has. Raises ``UsageError``."""
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


def blocked_by(lock: Lock, now: float, stale_after: float) -> tuple[str, bool]:
    """Returns the reason why a lock is not removed ("" if it may be), and True if force removes it anyway."""
    head = lock.holders[0] if lock.holders else None
    who = f"pid {head.pid}" if head is not None and head.pid is not None else "somebody"
    if lock.kind == "mkdir":
        return f"{lock.evidence}; a directory is not removed here: if its holder has exited, rm -r {quoted(lock.path)}", False
    if lock.kind == KIND:
        return f"{lock.evidence}: filelock itself evicts a holder whose heartbeat stays away", False
    if lock.kind == "none" and lock.verdict == "unknown":
        return f"{lock.evidence}; if so, and its holder has exited, rm {quoted(lock.path)}", False
    if lock.kind not in ("soft", "ticket"):
        return (f"{who} holds it ({lock.kind}); {_NEVER}" if lock.holders else f"nobody holds it; {_NEVER}"), False
    if lock.verdict == "free":
        return f"{lock.evidence}: there is nothing to remove", False
    if lock.verdict == "unknown":
        return f"{lock.evidence}; its holder cannot be checked from here", True
    if lock.verdict != "stale":
        has = "has the first ticket" if lock.kind == "ticket" else "has it"
        return (f"{who} is running and {has}" if head is not None and head.alive else f"it is held: {lock.evidence}"), False
    stood = None if head is None or head.since is None else now - head.since
    if lock.kind == "soft" and (stood is None or stood <= stale_after):
        held = "?" if stood is None else age(max(0.0, stood))
        return f"{lock.evidence}, but it is only {held} old; it counts as stale after {duration(stale_after)}", True
    return "", False


def removal_refused(own: int, name: str, row: Row, target: str, files: LogFiles) -> Refusal | None:
    """Why this user may not take ``name`` out of the directory ``own`` (rename(2), unlink(2)), or None."""
    above = os.fstat(own)
    if os.fstatvfs(own).f_flag & os.ST_RDONLY:
        return Refusal(row, f"the file system is read-only ({os.strerror(errno.EROFS)})")
    file = files.stat(name, own)
    sticky = above.st_mode & stat.S_ISVTX and os.geteuid() not in (0, above.st_uid, file.st_uid)
    if not sticky and os.access(".", os.R_OK | os.W_OK | os.X_OK, dir_fd=own, effective_ids=True):
        return None
    what, found = ("it", file) if sticky else ("its directory", above)
    return Refusal(row, closed_words(what, found, "unlock", target, row.id))

"""A directory of tickets, ``<ticket, 20 digits>.<pid>.<32 hex>``: the least ticket owns what they queue for, the others wait."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from dataclasses import replace

from spooltop.model.sight import Lock, LockParty

from .processes import Processes
from .softjudge import party

__all__ = ["MEMBER", "members_in", "orphaned", "ticket_queue"]

MEMBER = re.compile(r"[0-9]{20}\.([0-9]{1,10})\.[0-9a-f]{32}\Z")
_AT_MOST = 1_000
_SUFFIX = ".queue"


def members_in(names: Iterable[str]) -> list[str]:
    """The tickets among some names, in their order."""
    return sorted(name for name in names if MEMBER.match(name))


def ticket_queue(path: str, name: str, dir_fd: int, processes: Processes, *, local: bool) -> Lock | None:
    """The queue in the directory ``name`` below ``dir_fd``, its members in their order; None where it is no queue.

    ``local``: only this machine mounts it. A pid that is gone is proof only there and in the first pid namespace.
    """
    fd = -1
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
        names = os.listdir(fd)
        members = members_in(names)[:_AT_MOST]
        if not members and "seq" not in names:
            return None
        parties = [party for member in members if (party := _party(member, fd, processes)) is not None]
    except OSError:
        return None  # not ours to look into, or cleaned up meanwhile
    finally:
        if fd >= 0:
            os.close(fd)
    if not parties:
        return Lock(path, "ticket", verdict="free", evidence="nobody has a ticket")
    head, waiting = parties[0], tuple(parties[1:])
    sure = local and processes.in_first_namespace()
    if head.alive:
        wait = f"{len(waiting)} wait{'s' if len(waiting) == 1 else ''} for it"
        verdict, evidence = ("blocked", wait) if waiting else ("held", "")
    elif head.alive is False and sure:
        verdict, evidence = "stale", f"pid {head.pid} is gone and has the first ticket"
    else:
        verdict, evidence = "unknown", f"pid {head.pid} is gone here"
    return Lock(path, "ticket", (head,), waiting, verdict, evidence)


def orphaned(locks: Iterable[Lock]) -> tuple[Lock, ...]:
    """The same, where the first ticket of a queue is stale with what is known of the lock that is queued for: the kernel gave
    that back when its holder died, and only the ticket stands in the way."""
    found = tuple(locks)
    by_path = {os.path.normpath(lock.path): lock for lock in found}

    def told(queue: Lock) -> Lock:
        path = os.path.normpath(queue.path)
        base = by_path.get(path.removesuffix(_SUFFIX)) if path.endswith(_SUFFIX) else None
        if queue.kind != "ticket" or queue.verdict != "stale" or base is None or base.verdict != "free":
            return queue
        name = os.path.basename(base.path)
        return replace(queue, evidence=f"{queue.evidence}: an orphan ticket on a free lock, {name}")

    return tuple(told(lock) for lock in found)


def _party(member: str, fd: int, processes: Processes) -> LockParty | None:
    found = MEMBER.match(member)
    try:
        status = os.stat(member, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return None  # served meanwhile
    if found is None or not stat.S_ISREG(status.st_mode):
        return None
    pid = int(found.group(1))
    return party(pid, status.st_mtime, processes)

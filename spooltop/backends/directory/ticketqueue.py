"""A directory of tickets, ``<ticket, 20 digits>.<pid>.<32 hex>``: the least ticket owns what they queue for, the others wait."""

from __future__ import annotations

import os
import re
import stat

from spooltop.model.sight import Lock, LockParty

from .processes import Processes

__all__ = ["ticket_queue"]

_MEMBER = re.compile(r"[0-9]{20}\.([0-9]{1,10})\.[0-9a-f]{32}\Z")
_AT_MOST = 1_000


def ticket_queue(path: str, name: str, dir_fd: int, processes: Processes, *, local: bool) -> Lock | None:
    """The queue in the directory ``name`` below ``dir_fd``, its members in their order; None where it is no queue.

    ``local``: only this machine mounts it. A pid that is gone is proof only there and in the first pid namespace.
    """
    fd = -1
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
        names = os.listdir(fd)
        members = sorted(member for member in names if _MEMBER.match(member))[:_AT_MOST]
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
        verdict, evidence = ("blocked", f"{len(waiting)} wait for it") if waiting else ("held", "")
    elif head.alive is False and sure:
        verdict, evidence = "stale", f"pid {head.pid} is gone and has the first ticket"
    else:
        verdict, evidence = "unknown", f"pid {head.pid} is gone here"
    return Lock(path, "ticket", (head,), waiting, verdict, evidence)


def _party(member: str, fd: int, processes: Processes) -> LockParty | None:
    found = _MEMBER.match(member)
    try:
        status = os.stat(member, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return None  # served meanwhile
    if found is None or not stat.S_ISREG(status.st_mode):
        return None
    pid = int(found.group(1))
    there = processes.exists(pid)
    process = processes.process(pid, described=True) if there else None
    return LockParty(
        pid, process.command if process else None, process.user if process else None, status.st_mtime, there
    )

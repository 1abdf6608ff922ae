"""A directory of tickets, ``<ticket, 20 to 25 digits>.<pid>.<32 hex>``: the lowest owns the resource, the others wait."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from spooltop.engine.tickets.file_queue import FileTicket, file_tickets
from spooltop.model.look.locks import Lock, LockHolder
from spooltop.model.vocabulary import Verdict
from spooltop.records import replace

from ..liveness.processes import Processes
from .soft_lock_liveness import Judge, holder_info

__all__ = ["orphaned", "ticket_queue"]

_AT_MOST = 1_000
_SUFFIX = ".queue"


def ticket_queue(path: str, name: str, dir_fd: int, judge: Judge, *, local: bool) -> Lock | None:
    """The queue in the directory ``name`` below ``dir_fd``, its members in their order; None if it is not a queue.

    ``local``: only this machine mounts it. A pid that is gone is proof only there and in the first pid namespace.
    """
    fd = -1
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
        names = os.listdir(fd)
        tickets = file_tickets(names)[:_AT_MOST]
        if not tickets and "seq" not in names:
            return None
        holders = [holder_info for ticket in tickets if (holder_info := _holder(ticket, fd, judge.processes)) is not None]
    except OSError:
        return None  # not ours to look into, or cleaned up meanwhile
    finally:
        if fd >= 0:
            os.close(fd)
    if not holders:
        return Lock(path, "ticket", verdict="free", evidence="nobody has a ticket")
    head, waiting = holders[0], tuple(holders[1:])
    verdict_on_head, why = judge.judge(path, head.pid or 0, head.since or 0.0, local=local)
    if verdict_on_head is Verdict.ALIVE:
        wait = f"{len(waiting)} wait{'s' if len(waiting) == 1 else ''} for it"
        verdict, evidence = ("blocked", wait) if waiting else ("held", "")
    elif verdict_on_head is Verdict.DEAD:
        verdict, evidence = "stale", f"pid {head.pid} has exited and holds the first ticket"
    else:
        verdict, evidence = "unknown", why
    return Lock(path, "ticket", (head,), waiting, verdict, evidence)


def orphaned(locks: Iterable[Lock]) -> tuple[Lock, ...]:
    """The same locks; the first ticket of a queue is stale if the lock that it queues for is free: the kernel released
    that lock when its holder died, and only the ticket blocks the queue."""
    found = tuple(locks)
    by_path = {os.path.normpath(lock.path): lock for lock in found}

    def judged(queue: Lock) -> Lock:
        path = os.path.normpath(queue.path)
        base = by_path.get(path.removesuffix(_SUFFIX)) if path.endswith(_SUFFIX) else None
        if queue.kind != "ticket" or queue.verdict != "stale" or base is None or base.verdict != "free":
            return queue
        name = os.path.basename(base.path)
        return replace(queue, evidence=f"{queue.evidence}: an orphan ticket on a free lock, {name}")

    return tuple(judged(lock) for lock in found)


def _holder(ticket: FileTicket, fd: int, processes: Processes) -> LockHolder | None:
    try:
        status = os.stat(ticket.name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return None  # served meanwhile
    if not stat.S_ISREG(status.st_mode):
        return None
    return holder_info(ticket.pid, status.st_mtime, processes)

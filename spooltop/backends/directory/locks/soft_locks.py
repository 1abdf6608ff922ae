"""Lock files whose existence is the lock, read and never touched: which process holds them.

- filelock's ``SoftFileLock``: ``pid\nhost\nstart\n``; its ``SoftFileLease``: ``filelock/2`` and lines ``name=value``.
  ``start`` is that of the process, so that another one with its pid is recognised: boot id × 2⁶⁴ + clock ticks since boot.
- filelock's ``StrictSoftFileLock``: a marker that stays, beside it ``<lock>.filelock/claims/``. A file ``held-v1-….claim``
  there is the lock: magic, token, pid, host in hex, start.
- files of JSON, as leaders leave: with a pid, ``{"pid": 77, "host": "here"}``, or a lease, ``{"ownerId": …, "expiresAt": ms}``.
- ``<element>.lck``, a second name of the element that it locks: it does not name its holder.
- a symbolic link that leads nowhere and whose text has the pid: ``host:+pid``, ``user@host.pid``, ``host:pid``, ``pid``.
- files with ``pid`` alone, ``host:pid`` or ``user@host.pid``.
- directories, as mkdir(1) makes them: if anything names the holder, it is a file in them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from spooltop.engine.system.files import read_small
from spooltop.engine.tickets.file_queue import FileTicket, file_tickets
from spooltop.model.look.locks import Lock, LockHolder
from spooltop.model.text import escape, json_object
from spooltop.model.units import clock_time
from spooltop.model.vocabulary import EXITED, Verdict

from ..liveness.processes import Certainty, Process, Processes, judge_pid
from ..storage.disk import is_local, mount_of

LIMIT = 1_024
"""Bytes that a marker has at most."""
_MAX_PID = 1 << 22
"""The greatest pid there is (proc(5), pid_max)."""
_PID_ALONE = re.compile(r"\s*(?:(?:[^@/\s]+@)?(?P<host>[A-Za-z0-9_.-]+):)?\s*(?P<pid>[0-9]{1,10})\s*\Z", re.ASCII)
_USER_AT_HOST = re.compile(r"\s*[^@/\s]+@(?P<host>[A-Za-z0-9_.-]+)\.(?P<pid>[0-9]{1,10})(?::[0-9]+)?\s*\Z", re.ASCII)
_STRICT = b"filelock-strict-v1"
_LOCKS_AT_MOST = 64
_LINK = re.compile(r"(?:[^@/]*@)?(?:([A-Za-z0-9._-]+?)(?:\.|:\+?))?([0-9]{1,10})(?::[0-9]+)?\Z")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Marker(Struct, frozen=True):
    """The content of a soft lock: the ``pid`` on ``host`` (None: not named, or not yet) that has it ``since`` (epoch seconds,
    of its file). ``lease`` seconds after its last renewal anyone may take it; None for a lock without an end; ``until`` is that
    end where it is given (epoch seconds). ``free``: a file that stays when nobody holds the lock. ``below`` (a path below the
    lock's folder) and ``names`` in it are the files that the lock consists of, names of one file; none where it is the file
    itself. ``element`` is the name of the file that a link locks. ``start`` is filelock's start token."""

    pid: int | None
    host: str | None
    since: float
    lease: float | None = None
    free: bool = False
    until: float | None = None
    below: str = ""
    names: tuple[str, ...] = ()
    element: str = ""
    start: int | None = None


def read_marker(name: str, dir_fd: int) -> Marker | None:
    """Reads the soft lock in the file ``name`` below ``dir_fd``; None if it is not one."""
    found = _content(name, dir_fd)
    if found is None:
        return _symbolic(name, dir_fd)
    data, since = found
    if (linked := _linked(name, dir_fd)) is not None:
        return linked
    if _STRICT in data:
        return _strict(name, dir_fd, since)
    lines = data.decode("utf-8", "replace").split("\n")
    if lines[0] == "filelock/2":
        fields = dict(line.split("=", 1) for line in lines[1:] if "=" in line)
        lease, start = _seconds(fields.get("duration", "")), _token(fields.get("start", ""))
        return Marker(_pid(fields.get("pid", "")), fields.get("host"), since, lease, start=start)
    if len(lines) >= 3 and _pid(lines[0]) and lines[1]:
        return Marker(_pid(lines[0]), lines[1], since, start=_token(lines[2]))
    return _leader(data, since) or _plain(data, since)


def read_directory(name: str, dir_fd: int) -> Marker | None:
    """Reads the lock that the existence of the directory ``name`` below ``dir_fd`` is; None if it is gone or may not be
    read."""
    try:
        fd = os.open(name, _FOLDER, dir_fd=dir_fd)
    except OSError:
        return None
    try:
        since = os.fstat(fd).st_mtime
        for inside in sorted(os.listdir(fd))[:_LOCKS_AT_MOST]:
            if (marker := read_marker(inside, fd)) is not None and marker.pid is not None:
                return Marker(marker.pid, marker.host, since)
    except OSError:
        return None
    finally:
        os.close(fd)
    return Marker(None, None, since)


def _plain(data: bytes, since: float) -> Marker | None:
    text = data.decode("utf-8", "replace")
    found = _USER_AT_HOST.match(text) or _PID_ALONE.match(text)
    pid = _pid(found["pid"]) if found is not None else None
    return Marker(pid, found["host"], since) if found is not None and pid is not None and pid <= _MAX_PID else None


def _strict(name: str, dir_fd: int, since: float) -> Marker:
    claims = -1
    try:
        folder = os.open(f"{name}.filelock", _FOLDER, dir_fd=dir_fd)
        try:
            claims = os.open("claims", _FOLDER, dir_fd=folder)
        finally:
            os.close(folder)
        names = sorted(os.listdir(claims))
        for claim in names[:_LOCKS_AT_MOST]:
            found = _content(claim, claims) if claim.startswith("held-v1-") and claim.endswith(".claim") else None
            if found is not None:
                lines = found[0].decode("ascii", "replace").split("\n")
                complete = lines[0] == _STRICT.decode() and len(lines) >= 4
                pid, host = (_pid(lines[2]), _unhex(lines[3])) if complete else (None, None)
                intent = claim.replace("held-", "intent-", 1)  # stays beside it as long as it is held, and blocks as well
                both = (claim, intent) if intent in names else (claim,)
                start = _token(lines[4]) if complete and len(lines) > 4 else None
                return Marker(pid, host, found[1], below=f"{name}.filelock/claims", names=both, start=start)
    except FileNotFoundError:
        return Marker(None, None, since, free=True)  # its directory comes with the first claim
    except OSError:
        return Marker(None, None, since)  # not ours to look into
    finally:
        if claims >= 0:
            os.close(claims)
    return Marker(None, None, since, free=True)


def _leader(data: bytes, since: float) -> Marker | None:
    record = json_object(data)
    until = record.get("expiresAt")
    if isinstance(record.get("ownerId"), str) and isinstance(until, (int, float)) and 1e12 < until < 1e14:
        return Marker(None, None, since, until=until / 1000)
    if type(record.get("pid")) is not int or record["pid"] <= 0:
        return None
    host = record.get("host", record.get("hostname"))
    return Marker(record["pid"], host if isinstance(host, str) and host else None, since)


def _linked(name: str, dir_fd: int) -> Marker | None:
    """The lock ``x.lck`` where it is another name of ``x``."""
    element = name.removesuffix(".lck")
    if element in (name, ""):
        return None
    try:
        lock, locked = (os.stat(one, dir_fd=dir_fd, follow_symlinks=False) for one in (name, element))
    except OSError:
        return None  # no such element
    # Its ctime, as the mtime may be that of the element: making the link moved it.
    return Marker(None, None, lock.st_ctime, element=element) if os.path.samestat(lock, locked) else None


def _symbolic(name: str, dir_fd: int) -> Marker | None:
    try:
        text = os.readlink(name, dir_fd=dir_fd)
        if _leads(name, dir_fd):
            return None
        since = os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mtime
    except OSError:
        return None  # gone, or no link
    found = _LINK.match(text)
    return Marker(_pid(found[2]), found[1], since) if found is not None and _pid(found[2]) else None


def _leads(name: str, dir_fd: int) -> bool:
    try:
        os.stat(name, dir_fd=dir_fd)
    except OSError:
        return False
    return True


def _content(name: str, dir_fd: int) -> tuple[bytes, float] | None:
    """The start of a plain file and its mtime; None if it is gone, is not a plain file or may not be read."""
    try:
        found = read_small(name, dir_fd, limit=LIMIT)
    except OSError:
        return None
    return found.data, found.status.st_mtime


def _pid(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and 0 < len(text) <= 10 and int(text) > 0 else None


def _token(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 60 else None


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 < seconds < float("inf") else None


def _unhex(text: str) -> str | None:
    try:
        return bytes.fromhex(text).decode("utf-8", "replace") or None
    except ValueError:
        return None


# Judges locks whose existence is the lock: which process has them, and if it is running.

_NAMESPACE = "?pidns-"
"""Mark between the host and the pid namespace (in hex) in a host name of filelock."""
_SAME_START = 0.02
"""Seconds between two starts that are the same one: two clock ticks."""


class Judge:
    """Tells whether the process of a marker or a ticket is running, by the rules for claims that name only a pid. A process
    found to be gone stays gone: it is looked up once."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self._gone: dict[tuple[str, int, float], str] = {}

    def judge(self, path: str, pid: int, since: float, *, local: bool, start: int | None = None) -> tuple[Verdict, str]:
        """The verdict on ``path``, which names ``pid`` since ``since`` (epoch seconds, of its file), and filelock's ``start``
        token. ``local``: only this machine mounts it."""
        key = (path, pid, since)
        if key in self._gone:
            return Verdict.DEAD, self._gone[key]
        there = self.processes.exists(pid)
        sure = Certainty(local, self.processes.in_first_namespace())
        found = None if there else self.processes.namesakes([pid]) if sure.local and sure.all_pids else None
        process = self.processes.process(pid) if there else None
        now = self.processes.boottime()  # it exists now: any process that was started before may have taken it
        if process is not None and sure.local and sure.all_pids and self._is_another(process, start):
            verdict, evidence = Verdict.DEAD, f"pid {pid} is another process now"
        else:
            verdict, evidence = judge_pid(pid, there, process, None if found is None else found.get(pid, []), now, sure)
        if verdict is Verdict.DEAD:
            self._gone[key] = evidence
        return verdict, evidence

    def is_here(self, host: str) -> bool:
        """True if ``host`` names this machine, as filelock writes it: outside the first pid namespace with that behind it."""
        return host in (self.processes.host(), f"{self.processes.host()}{_NAMESPACE}{self.processes.namespace() or 0:x}")

    def _is_another(self, process: Process, start: int | None) -> bool:
        """True if the process was started at another moment than the token says. One without a boot id proves nothing."""
        boot = self.processes.boot_id().replace("-", "")
        if start is None or process.started is None or not start >> 64 or not boot or self.processes.starts_shifted():
            return False
        return start >> 64 != int(boot, 16) or abs(process.started - self.processes.seconds(start % 2**64)) > _SAME_START


def holder_info(pid: int | None, since: float | None, processes: Processes) -> LockHolder:
    """A holder or waiter with its data from the process table."""
    if pid is None:
        return LockHolder(None, since=since)
    process = processes.process(pid, described=True)
    return LockHolder(
        pid, process.command if process else None, process.user if process else None, since, processes.exists(pid)
    )


def directory_lock(path: str, name: str, fd: int, judge: Judge) -> Lock | None:
    """The lock that the existence of the directory ``name`` below ``fd`` is; None if it cannot be read."""
    marker = read_directory(name, fd)
    if marker is None:
        return None
    if marker.pid is None:
        why = "a lock directory, which does not name its owner"
        return Lock(path, "mkdir", (LockHolder(None, since=marker.since),), (), "unknown", why)
    return _judged(path, "mkdir", marker, marker.pid, fd, judge)


def soft_lock(path: str, name: str, fd: int, judge: Judge, now: float) -> Lock | None:
    """The lock that the existence of the file ``name`` below ``fd`` is; None if it is not one. ``now`` is in epoch seconds."""
    marker = read_marker(name, fd)
    if marker is None:
        return None
    if marker.free:
        return Lock(path, "soft", verdict="free", evidence="no claim is held beside it")
    if marker.until is not None:
        return _lease(path, marker, marker.until, now)
    pid, since = marker.pid, marker.since
    nobody = LockHolder(pid, since=since)
    if pid is None:
        of = f"a link to {escape(marker.element)}: " if marker.element else ""
        return Lock(path, "soft", (nobody,), (), "unknown", f"{of}it does not name its owner")
    return _judged(path, "soft", marker, pid, fd, judge)


def _judged(path: str, kind: str, marker: Marker, pid: int, fd: int, judge: Judge) -> Lock:
    """The lock of a marker that names a process. If it names no host, only a local file system shows that it is this one."""
    processes, since, local = judge.processes, marker.since, is_local(mount_of(fd))
    if marker.host is not None and not judge.is_here(marker.host):
        host, container, _ = marker.host.partition(_NAMESPACE)
        where = f"in a container on host {host}" if container else f"on host {host}"
        return Lock(path, kind, (LockHolder(pid, since=since),), (), "unknown", f"taken {where}, ask there")
    if marker.host is None and not local:
        return Lock(path, kind, (LockHolder(pid, since=since),), (), "unknown", f"pid {pid} of an unknown host")
    verdict, evidence = judge.judge(path, pid, since, local=local, start=marker.start)
    if verdict is Verdict.ALIVE:
        return Lock(path, kind, (holder_info(pid, since, processes),), (), "held", f"pid {pid}, which it names, is running")
    if verdict is not Verdict.DEAD:
        return Lock(path, kind, (LockHolder(pid, since=since, alive=processes.exists(pid)),), (), "unknown", evidence)
    why = f"pid {pid} has exited" if evidence == EXITED else evidence
    if marker.lease is not None:
        why += f"; a lease of {marker.lease:g} s, then the next one takes it"
    return Lock(path, kind, (LockHolder(pid, since=since, alive=False),), (), "stale", why)


def _lease(path: str, marker: Marker, until: float, now: float) -> Lock:
    """The lock of a leader that names no pid, but how long it leads. After that it is none by its own account."""
    if until > now:
        return Lock(path, "soft", (LockHolder(None, since=marker.since),), (), "held", f"a lease until {clock_time(until)}")
    return Lock(path, "soft", (LockHolder(None, since=until),), (), "stale", f"its lease ended {clock_time(until)}, not renewed")


# A directory of tickets, ``<ticket, 20 to 25 digits>.<pid>.<32 hex>``: the lowest owns the resource, the others wait.

_QUEUES_AT_MOST = 1_000
_SUFFIX = ".queue"


def ticket_queue(path: str, name: str, dir_fd: int, judge: Judge, *, local: bool) -> Lock | None:
    """The queue in the directory ``name`` below ``dir_fd``, its members in their order; None if it is not a queue.

    ``local``: only this machine mounts it. A pid that is gone is proof only there and in the first pid namespace.
    """
    fd = -1
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
        names = os.listdir(fd)
        tickets = file_tickets(names)[:_QUEUES_AT_MOST]
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

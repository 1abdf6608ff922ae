"""Lock files of a spool: who holds them and who waits for them. A lock is never probed by taking it.

The table is ``/proc/locks`` (proc(5)). A single read of it under churn misses locks that are held, so it is read twice and both
reads count. A lock file that merely exists is free where it is known to be locked through the kernel; else its existence may be
the lock, and its content names the holder:

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized

from msgspec import Struct

from spooltop.backends.access import closed_words, why_closed, why_read_only
from spooltop.backends.directory.processes import (
    Certainty,
    Descriptor,
    LockTable,
    Process,
    Processes,
    judge_pids,
    lock_owners,
)
from spooltop.backends.directory.scan import FolderNames
from spooltop.backends.directory.storage import System, is_local, mount_of, opened_below
from spooltop.engine.files import Content, read_small
from spooltop.engine.tickets import FileTicket, file_tickets
from spooltop.model.vocabulary import (
    EXITED,
    LOCK_SUFFIXES,
    QUEUE_SUFFIX,
    READ_WRITE_SUFFIX,
    Frozen,
    Lock,
    LockHolder,
    Verdict,
    clock_time,
    escape,
    is_lock_name,
    json_object,
)

LIMIT = 1_024
"""Bytes that a marker has at most."""
_MAX_PID = 1 << 22
"""The greatest pid there is (proc(5), pid_max)."""
_PID_ALONE = r"(?a)\s*(?:(?:[^@/\s]+@)?(?P<host>[A-Za-z0-9_.-]+):)?\s*(?P<pid>[0-9]{1,10})\s*\Z"
_USER_AT_HOST = r"(?a)\s*[^@/\s]+@(?P<host>[A-Za-z0-9_.-]+)\.(?P<pid>[0-9]{1,10})(?::[0-9]+)?\s*\Z"
_STRICT = b"filelock-strict-v1"
_LOCKS_AT_MOST = 64
_LINK = r"(?:[^@/]*@)?(?:([A-Za-z0-9._-]+?)(?:\.|:\+?))?([0-9]{1,10})(?::[0-9]+)?\Z"


class Marker(Frozen):
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
    data, since = found.data, found.status.st_mtime
    if (linked := _linked(name, dir_fd)) is not None:
        return linked
    if _STRICT in data:
        return _strict(name, dir_fd, since)
    lines = data.decode("utf-8", "replace").split("\n")
    if lines[0] == "filelock/2":
        fields = dict(line.split("=", 1) for line in lines[1:] if "=" in line)
        lease, start = _seconds(fields.get("duration", "")), _number(fields.get("start", ""), 60)
        return Marker(_number(fields.get("pid", "")), fields.get("host"), since, lease, start=start)
    if len(lines) >= 3 and _number(lines[0]) and lines[1]:
        return Marker(_number(lines[0]), lines[1], since, start=_number(lines[2], 60))
    return _leader(data, since) or _plain(data, since)


def read_directory(name: str, dir_fd: int) -> Marker | None:
    """Reads the lock that the existence of the directory ``name`` below ``dir_fd`` is; None if it is gone or may not be
    read."""
    try:
        with opened_below(dir_fd, name) as fd:
            since = os.fstat(fd).st_mtime
            for inside in sorted(os.listdir(fd))[:_LOCKS_AT_MOST]:
                if (marker := read_marker(inside, fd)) is not None and marker.pid is not None:
                    return Marker(marker.pid, marker.host, since)
    except OSError:
        return None
    return Marker(None, None, since)


def _plain(data: bytes, since: float) -> Marker | None:
    text = data.decode("utf-8", "replace")
    found = re.match(_USER_AT_HOST, text) or re.match(_PID_ALONE, text)
    pid = _number(found["pid"]) if found is not None else None
    return Marker(pid, found["host"], since) if found is not None and pid is not None and pid <= _MAX_PID else None


def _strict(name: str, dir_fd: int, since: float) -> Marker:
    below = f"{name}.filelock/claims"
    try:
        with opened_below(dir_fd, below) as claims:
            names = sorted(os.listdir(claims))
            for claim in names[:_LOCKS_AT_MOST]:
                found = _content(claim, claims) if claim.startswith("held-v1-") and claim.endswith(".claim") else None
                if found is None:
                    continue
                lines = found.data.decode("ascii", "replace").split("\n")
                complete = lines[0] == _STRICT.decode() and len(lines) >= 4
                pid, host = (_number(lines[2]), _unhex(lines[3])) if complete else (None, None)
                intent = claim.replace("held-", "intent-", 1)  # stays beside it as long as it is held, and blocks as well
                both = (claim, intent) if intent in names else (claim,)
                start = _number(lines[4], 60) if complete and len(lines) > 4 else None
                return Marker(pid, host, found.status.st_mtime, below=below, names=both, start=start)
    except FileNotFoundError:
        return Marker(None, None, since, free=True)  # its directory comes with the first claim
    except OSError:
        return Marker(None, None, since)  # not ours to look into
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
        since = os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mtime
    except OSError:
        return None  # gone, or no link
    try:
        os.stat(name, dir_fd=dir_fd)
        return None  # it leads to something
    except OSError:
        found = re.match(_LINK, text)
    return Marker(_number(found[2]), found[1], since) if found is not None and _number(found[2]) else None


def _content(name: str, dir_fd: int) -> Content | None:
    """The start of a plain file; None if it is gone, is not a plain file or may not be read."""
    try:
        return read_small(name, dir_fd, limit=LIMIT)
    except OSError:
        return None


def _number(text: str, digits: int = 10) -> int | None:
    """A number above 0 with at most so many digits: a pid, or with 60 a start token."""
    return int(text) or None if text.isascii() and text.isdecimal() and len(text) <= digits else None


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
_SOFT = {Verdict.ALIVE: "held", Verdict.DEAD: "stale"}
"""Verdicts on a soft lock by those on its holder; it is unknown else."""

# A directory of tickets, ``<ticket, 20 to 25 digits>.<pid>.<32 hex>``: the lowest owns the resource, the others wait.

_QUEUES_AT_MOST = 1_000

# filelock's ``SoftReadWriteLock``, the directory ``<lock>.rw``: who writes, who reads and who waits to write. ``gen/<20
# digits>`` are its states, of which the highest counts: lines ``writer=TOKEN`` and ``reader=TOKEN``. A writer beside readers
# waits until they leave. ``holders/<token>`` names pid and host, and is written anew with each heartbeat. The library itself
# evicts a holder that has not done so for ``lease`` seconds, so nothing is removed by hand.

KIND = "rw"
_STATE = re.compile(r"[0-9]{20}")
_MEMBER = r"(?m)^(writer|reader)=([0-9a-f]{32})$"
_FIELD = r"(?m)^(pid|host|lease)=(\S+)$"
_LIMIT = 4_096


class LockFolder(Struct, dict=True):
    """The locks in the open directory ``fd`` whose existence is the lock. Tells whether the process of a marker or a ticket is
    running, by the rules for claims that name only a pid. ``gone`` are those found to be gone, which stay so: each is looked up
    once."""

    _world: System
    fd: int
    _gone: dict[tuple[str, int, float], str] = {}

    def __post_init__(self) -> None:
        self.processes = self._world.processes
        self.mount = mount_of(self.fd)
        self._local = is_local(self.mount)  # only this machine mounts it

    def judge(self, path: str, pid: int, since: float, start: int | None = None) -> tuple[Verdict, str]:
        """The verdict on ``path``, which names ``pid`` since ``since`` (epoch seconds, of its file) and filelock's ``start``
        token. A pid that is gone is proof only where no other machine mounts the directory."""
        key = (path, pid, since)
        if key in self._gone:
            return Verdict.DEAD, self._gone[key]
        sure = Certainty(self._local, self.processes.in_first_namespace())
        now = self.processes.boottime()  # it exists now: any process that was started before may have taken it
        ((verdict, evidence, process),) = judge_pids(self.processes, [(pid, now)], sure)
        if process is not None and sure.local and sure.all_pids and self._is_another(process, start):
            verdict, evidence = Verdict.DEAD, f"pid {pid} is another process now"
        if verdict is Verdict.DEAD:
            self._gone[key] = evidence
        return verdict, evidence

    def holder(self, path: str, pid: int, marker: Marker) -> tuple[LockHolder, Verdict, str]:
        """The holder that names itself ``pid`` in a marker, whether it is running, and the evidence. Where it names no host, only
        a file system that no other machine mounts shows that it is of this one."""
        host, since = marker.host, marker.since
        if host is not None and not self._is_here(host):
            name, container, _ = host.partition(_NAMESPACE)
            where = f"in a container on host {name}" if container else f"on host {name}"
            return LockHolder(pid, since=since), Verdict.UNKNOWN, f"taken {where}, ask there"
        if host is None and not self._local:
            return LockHolder(pid, since=since), Verdict.UNKNOWN, f"pid {pid} of an unknown host"
        verdict, evidence = self.judge(path, pid, since, marker.start)
        if verdict is Verdict.DEAD:
            why = f"pid {pid} has exited" if evidence == EXITED else evidence
            return LockHolder(pid, since=since, alive=False), verdict, why
        words = f"pid {pid}, which it names, is running" if verdict is Verdict.ALIVE else evidence
        return holder_info(pid, since, self.processes), verdict, words

    def _is_here(self, host: str) -> bool:
        """True if ``host`` names this machine, as filelock writes it: outside the first pid namespace with that behind it."""
        return host in (self.processes.host(), f"{self.processes.host()}{_NAMESPACE}{self.processes.namespace() or 0:x}")

    def _is_another(self, process: Process, start: int | None) -> bool:
        """True if the process was started at another moment than the token says. One without a boot id proves nothing."""
        boot = self.processes.boot_id().replace("-", "")
        if start is None or process.started is None or not start >> 64 or not boot or self.processes.starts_shifted():
            return False
        return start >> 64 != int(boot, 16) or abs(process.started - self.processes.seconds(start % 2**64)) > _SAME_START

    def existing(self, path: str, name: str) -> Lock | None:
        """The lock that the existence of the file or the directory ``name`` is; None if it is not one."""
        kind, marker = "soft", read_marker(name, self.fd)
        if marker is None:
            kind, marker = "mkdir", read_directory(name, self.fd)
        if marker is None:
            return None
        if marker.free:
            return Lock(path, kind, verdict="free", evidence="no claim is held beside it")
        if marker.pid is not None:
            holder, verdict, why = self.holder(path, marker.pid, marker)
            if verdict is Verdict.DEAD and marker.lease is not None:
                why += f"; a lease of {marker.lease:g} s, then the next one takes it"
            return Lock(path, kind, (holder,), (), _SOFT.get(verdict, "unknown"), why)
        if marker.until is not None and marker.until <= self._world.clock():  # by its own account it is none any more
            why = f"its lease ended {clock_time(marker.until)}, not renewed"
            return Lock(path, kind, (LockHolder(None, since=marker.until),), (), "stale", why)
        holders = (LockHolder(None, since=marker.since),)
        if marker.until is not None:
            return Lock(path, kind, holders, (), "held", f"a lease until {clock_time(marker.until)}")
        who = "a lock directory, which" if kind == "mkdir" else "it"
        if marker.element:
            who = f"a link to {escape(marker.element)}: it"
        return Lock(path, kind, holders, (), "unknown", f"{who} does not name its owner")

    def ticket_queue(self, path: str, name: str) -> Lock | None:
        """The queue in the directory ``name``, its members in their order; None if it is not a queue."""
        try:
            with opened_below(self.fd, name) as fd:
                names = os.listdir(fd)
                tickets = file_tickets(names)[:_QUEUES_AT_MOST]
                if not tickets and "seq" not in names:
                    return None
                holders = [holder for ticket in tickets if (holder := _holder(ticket, fd, self.processes)) is not None]
        except OSError:
            return None  # not ours to look into, or cleaned up meanwhile
        if not holders:
            return Lock(path, "ticket", verdict="free", evidence="nobody has a ticket")
        head, waiting = holders[0], tuple(holders[1:])
        verdict_on_head, why = self.judge(path, head.pid or 0, head.since or 0.0)
        if verdict_on_head is Verdict.ALIVE:
            verdict, evidence = ("blocked", _waiting(waiting)) if waiting else ("held", "")
        elif verdict_on_head is Verdict.DEAD:
            verdict, evidence = "stale", f"pid {head.pid} has exited and holds the first ticket"
        else:
            verdict, evidence = "unknown", why
        return Lock(path, "ticket", (head,), waiting, verdict, evidence)

    def read_write(self, path: str, name: str) -> Lock | None:
        """The read-write lock in the directory ``name``; None where it is none, or not for this user to read."""
        try:
            with opened_below(self.fd, f"{name}/gen") as states, opened_below(self.fd, f"{name}/holders") as holders:
                newest = max(filter(_STATE.fullmatch, os.listdir(states)), default=None)
                state = None if newest is None else read_small(newest, states, limit=_LIMIT)
                members = [] if state is None else re.findall(_MEMBER, state.data.decode("ascii", "replace"))[:_LOCKS_AT_MOST]
                records = [(role, _record(token, holders)) for role, token in members]
        except OSError:
            return None  # not ours to look into, or it changed meanwhile: the next look sees it
        if state is None or not members:
            return Lock(path, KIND, verdict="free", evidence="nobody reads or writes under it")
        since = state.status.st_mtime
        readers, writers = (
            [self._member(path, record, since) for role, record in records if role == side]
            for side in ("reader", "writer")
        )
        held = readers or writers
        waiters = tuple(writer for writer, _, _ in writers) if readers else ()
        held_and_awaited = tuple(holder for holder, _, _ in held), waiters
        if any(verdict is Verdict.ALIVE for _, verdict, _ in held):
            words = f"{len(held)} read{'s' if len(held) == 1 else ''}" if readers else "1 writes"
            return Lock(path, KIND, *held_and_awaited, "blocked" if waiters else "held", words)
        return Lock(path, KIND, *held_and_awaited, "unknown", f"{held[0][2]}; filelock evicts it when its heartbeat stays away")

    def _member(self, path: str, record: dict[str, str], since: float) -> tuple[LockHolder, Verdict, str]:
        """A holder, whether it lives, and the evidence."""
        pid = _number(record.get("pid", ""))
        if pid is None:
            return LockHolder(None, since=since), Verdict.UNKNOWN, "it does not tell whose it is"
        return self.holder(path, pid, Marker(pid, record.get("host", ""), since))


def holder_info(pid: int | None, since: float | None, processes: Processes) -> LockHolder:
    """A holder or waiter with its data from the process table."""
    if pid is None:
        return LockHolder(None, since=since)
    process = processes.process(pid, described=True)
    return LockHolder(
        pid, process.command if process else None, process.user if process else None, since, processes.exists(pid)
    )


def _waiting(waiters: Sized) -> str:
    return f"{len(waiters)} wait{'s' if len(waiters) == 1 else ''} for it"


def _holder(ticket: FileTicket, fd: int, processes: Processes) -> LockHolder | None:
    try:
        status = os.stat(ticket.name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return None  # served meanwhile
    if not stat.S_ISREG(status.st_mode):
        return None
    return holder_info(ticket.pid, status.st_mtime, processes)


def _record(token: str, holders: int) -> dict[str, str]:
    try:
        data = read_small(token, holders, limit=_LIMIT).data
    except FileNotFoundError:
        return {}  # it has just left
    return dict(re.findall(_FIELD, data.decode("ascii", "replace")))


def _orphaned(locks: Sequence[Lock]) -> Iterator[Lock]:
    """The same locks; the first ticket of a queue is stale if the lock that it queues for is free: the kernel released
    that lock when its holder died, and only the ticket blocks the queue."""
    free = {os.path.normpath(lock.path) for lock in locks if lock.verdict == "free"}
    for lock in locks:
        path = os.path.normpath(lock.path)
        base = path.removesuffix(QUEUE_SUFFIX)
        orphan = lock.kind == "ticket" and lock.verdict == "stale" and base != path and base in free
        why = f"{lock.evidence}: an orphan ticket on a free lock, {os.path.basename(base)}"
        yield lock.replace(evidence=why) if orphan else lock


_MESSAGE_LOCK = ".lock"
_KERNEL_LOCKED = (".cursors.lock",)
"""Names of files that every user locks through the kernel."""
_LOOKED_FOR = 1.0
"""Seconds for which a look at the lock files is kept."""
_EXISTS = "no kernel lock; if its existence is the lock, it does not name its holder"


class LockFiles(Struct, dict=True):
    """The lock files in some folders, looked at once a second at most. Remembers since when each party was seen. ``tickets``: the
    first folder is itself a queue, which is read at each look."""

    _world: System
    tickets: bool = False
    _gone: dict[tuple[str, int, float], str] = {}
    _kernel_locked: set[tuple[int, int]] = set()
    _looked: float | None = None
    _last: tuple[Lock, ...] = ()
    _since: dict[tuple[tuple[int, int], int, bool], float] = {}
    """When each party was first seen: by the device and the inode of the file, its pid, and whether it waits."""

    def __post_init__(self) -> None:
        self._names = FolderNames(is_lock_name, _LOCKS_AT_MOST)

    def look(
        self,
        folders: Sequence[tuple[str, int]],
        table: Callable[[], LockTable],
        boxes: Mapping[str, tuple[str, ...]],
    ) -> tuple[Lock, ...]:
        """The locks in ``folders``: (path as shown, descriptor). ``table`` is called only where there is a lock file. ``boxes``
        are those of the folders that hold messages, with the names of the locks in them."""
        now = self._world.monotonic()
        if self._looked is not None and now - self._looked < _LOOKED_FOR and not self.tickets:
            return self._last
        self._looked = now
        found: list[Lock] = []
        before, self._since = self._since, {}
        known: LockTable | None = None
        files: set[tuple[int, int]] = set()
        for path, fd in folders:
            names = boxes[path] if path in boxes else self._names.of(path, fd)
            if not names:
                continue
            folder = LockFolder(self._world, fd, self._gone)
            for name in names:
                whole = os.path.join(path, name)
                try:
                    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                except FileNotFoundError:
                    continue  # removed since it was listed
                except OSError as error:
                    found.append(Lock(whole, "soft", (), (), "unknown", f"it cannot be seen: {error.strerror}"))
                    continue
                lock: Lock | None = None
                if stat.S_ISDIR(status.st_mode):
                    lock = (folder.read_write if name.endswith(READ_WRITE_SUFFIX) else folder.ticket_queue)(whole, name)
                    if lock is None and name.endswith(LOCK_SUFFIXES):
                        lock = folder.existing(whole, name)
                elif stat.S_ISLNK(status.st_mode):
                    lock = folder.existing(whole, name)
                elif stat.S_ISREG(status.st_mode):
                    known = known or table()
                    files.add((status.st_dev, status.st_ino))
                    queued = f"{name}{QUEUE_SUFFIX}" in names  # as stouputils has it: a flock, and who wants it next
                    lock = self._lock(folder, whole, name, status, known, before, queued=queued)
                found += [lock] if lock is not None else []
        self._kernel_locked &= files
        if self.tickets and not any(os.path.normpath(lock.path) == os.path.normpath(folders[0][0]) for lock in found):
            path, fd = folders[0]
            queue = LockFolder(self._world, fd, self._gone).ticket_queue(path, ".")
            found[:0] = [queue] if queue is not None else []
        self._last = tuple(_orphaned(found))
        return self._last

    def _lock(
        self,
        folder: LockFolder,
        path: str,
        name: str,
        status: os.stat_result,
        table: LockTable,
        before: Mapping[tuple[tuple[int, int], int, bool], float],
        *,
        queued: bool,
    ) -> Lock:
        lines = table.of(status, folder.mount)
        file = (status.st_dev, status.st_ino)

        def opened() -> Iterator[Descriptor]:
            yield from self._world.processes.descriptors({file}).by_file.get(file, ())

        holders: dict[int, LockHolder] = {}
        waiters: dict[int, LockHolder] = {}
        for line in lines:
            side = waiters if line.waits else holders
            for pid in lock_owners(line, opened(), self._world.processes):
                key = (file, pid or 0, line.waits)
                since = self._since[key] = before.get(key, self._world.clock())
                if (pid or 0) not in side:
                    side[pid or 0] = holder_info(pid, since, self._world.processes)
        if lines:
            self._kernel_locked.add(file)
        elif file not in self._kernel_locked and (status.st_size or status.st_nlink > 1):
            soft = folder.existing(path, name)
            if soft is not None:
                return soft
        kind = lines[0].kind if lines else "none"
        if waiters:
            verdict, evidence = "blocked", _waiting(waiters)
        elif holders:
            verdict, evidence = "held", ""
        elif not table.unseen and (queued or name in _KERNEL_LOCKED or file in self._kernel_locked or status.st_size > LIMIT):
            verdict, evidence = "free", "the file exists, nobody holds a lock on it"
        else:
            verdict, evidence = "unknown", table.unseen or _EXISTS
        return Lock(path, kind, tuple(holders.values()), tuple(waiters.values()), verdict, evidence)


def message_locks(chunks: Iterable[str]) -> tuple[str, ...]:
    """The locks among the names of one box, joined by ``/``, whose message is in the box too: under its name, or claimed, under
    that with a tail.

    >>> message_locks(["a/a.lock/b.lock", "c.lock/c:2,P77"])
    ('a.lock', 'c.lock')
    """
    known = list(chunks)
    names = [name for chunk in known if _MESSAGE_LOCK in chunk for name in chunk.split("/") if name.endswith(_MESSAGE_LOCK)]

    def message_exists(message: str) -> bool:
        among = (chunk.split("/") for chunk in known if message in chunk)
        starts = (f"{message},", f"{message}:")
        return bool(message) and any(name == message or name.startswith(starts) for names in among for name in names)

    return tuple(name for name in sorted(names)[:_LOCKS_AT_MOST] if message_exists(name.removesuffix(_MESSAGE_LOCK)))


def folder_closed(own: int, what: str, *command: str, file: os.stat_result | None = None) -> str | None:
    """Why this user may take nothing, or not ``file``, out of the open directory ``own``, called ``what`` (rename(2), unlink(2)),
    or None. ``command`` are the words after ``spooltop`` for a user who may. In a sticky directory the owner of the file counts
    too."""
    above = os.fstat(own)
    if file is not None and above.st_mode & stat.S_ISVTX and os.geteuid() not in (0, above.st_uid, file.st_uid):
        return why_read_only(own) or closed_words("it", file, *command)
    return why_closed(own, ".", what, *command)

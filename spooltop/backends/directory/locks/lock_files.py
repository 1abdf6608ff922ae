"""Lock files of a spool: who holds them and who waits for them. A lock is never probed by taking it.

The table is ``/proc/locks`` (proc(5)). A single read of it under churn misses locks that are held, so it is read twice and both
reads count. A lock file that merely exists is free where it is known to be locked through the kernel; else its existence may be
the lock, and its content names the holder.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct

from spooltop.engine.system.files import read_small
from spooltop.model.look.locks import Lock, LockHolder
from spooltop.model.proc import Device, LockLine, parse_locks
from spooltop.model.vocabulary import Verdict

from ...access import closed_words
from ..liveness.processes import Processes
from ..storage.disk import is_local, mount_of
from ..world import System
from .soft_locks import LIMIT, Judge, directory_lock, holder_info, orphaned, soft_lock, ticket_queue

# filelock's ``SoftReadWriteLock``, the directory ``<lock>.rw``: who writes, who reads and who waits to write. ``gen/<20
# digits>`` are its states, of which the highest counts: lines ``writer=TOKEN`` and ``reader=TOKEN``. A writer beside readers
# waits until they leave. ``holders/<token>`` names pid and host, and is written anew with each heartbeat. The library itself
# evicts a holder that has not done so for ``lease`` seconds, so nothing is removed by hand.

KIND = "rw"
SUFFIX = ".rw"
_STATE = re.compile(r"[0-9]{20}")
_MEMBER = re.compile(r"^(writer|reader)=([0-9a-f]{32})$", re.MULTILINE)
_FIELD = re.compile(r"^(pid|host|lease)=(\S+)$", re.MULTILINE)
_LIMIT = 4_096
_AT_MOST = 64
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_write_lock(path: str, name: str, dir_fd: int, judge: Judge, *, local: bool) -> Lock | None:
    """The lock in the directory ``name`` below ``dir_fd``; None where it is none, or not for this user to read. ``local``: only
    this machine mounts it."""
    opened: list[int] = []
    try:
        opened.append(os.open(name, _FOLDER, dir_fd=dir_fd))
        opened += [os.open(folder, _FOLDER, dir_fd=opened[0]) for folder in ("gen", "holders")]
        _, states, holders = opened
        newest = max(filter(_STATE.fullmatch, os.listdir(states)), default=None)
        state = None if newest is None else read_small(newest, states, limit=_LIMIT)
        members = [] if state is None else _MEMBER.findall(state.data.decode("ascii", "replace"))[:_AT_MOST]
        records = [(role, _record(token, holders)) for role, token in members]
    except OSError:
        return None  # not ours to look into, or it changed meanwhile: the next look sees it
    finally:
        for fd in opened:
            os.close(fd)
    if state is None or not members:
        return Lock(path, KIND, verdict="free", evidence="nobody reads or writes under it")
    since = state.status.st_mtime
    readers = [record for role, record in records if role == "reader"]
    writers = [record for role, record in records if role == "writer"]
    waiters = [_judged(path, record, since, judge, local=local)[0] for record in (writers if readers else ())]
    held = [_judged(path, record, since, judge, local=local) for record in readers or writers]
    held_and_awaited = tuple(holder for holder, _, _ in held), tuple(waiters)
    if any(verdict is Verdict.ALIVE for _, verdict, _ in held):
        words = f"{len(held)} read{'s' if len(held) == 1 else ''}" if readers else "1 writes"
        return Lock(path, KIND, *held_and_awaited, "blocked" if waiters else "held", words)
    return Lock(path, KIND, *held_and_awaited, "unknown", f"{held[0][2]}; filelock evicts it when its heartbeat stays away")


def _record(token: str, holders: int) -> dict[str, str]:
    try:
        data = read_small(token, holders, limit=_LIMIT).data
    except FileNotFoundError:
        return {}  # it has just left
    return dict(_FIELD.findall(data.decode("ascii", "replace")))


def _judged(path: str, record: dict[str, str], since: float, judge: Judge, *, local: bool) -> tuple[LockHolder, Verdict, str]:
    """A holder, whether it lives, and the evidence."""
    text, host = record.get("pid", ""), record.get("host", "")
    if not text.isdecimal() or len(text) > 10:
        return LockHolder(None, since=since), Verdict.UNKNOWN, "it does not tell whose it is"
    pid = int(text)
    if not judge.is_here(host):
        return LockHolder(pid, since=since), Verdict.UNKNOWN, f"taken on host {host}, ask there"
    verdict, evidence = judge.judge(f"{path}/{text}", pid, since, local=local)
    if verdict is Verdict.DEAD:
        return LockHolder(pid, since=since, alive=False), verdict, f"pid {pid} has exited"
    return holder_info(pid, since, judge.processes), verdict, evidence


_SUFFIXES = (".lock", ".lck")
_MESSAGE_LOCK = b".lock"
_KERNEL_LOCKED = (".cursors.lock",)
"""Names of files that every user locks through the kernel."""
_TABLE_FOR = 1.0
_LIST_AT_MOST = 20_000
_OTHER_NAMESPACES = "processes outside this container are not visible from here"
_NO_TABLE = "this system does not show who holds a lock"
_EXISTS = "no kernel lock; if its existence is the lock, it does not name its holder"


class LockTable(Struct, frozen=True):
    """All locks that were seen. ``unseen`` says why there may be more; if it is empty, an absent lock is free."""

    by_file: Mapping[tuple[Device, int], tuple[LockLine, ...]]
    unseen: str = ""

    def of(self, devices: Iterable[Device], inode: int) -> tuple[LockLine, ...]:
        """The locks on one file; ``devices`` are the device numbers it may have (btrfs: st_dev and the one of mountinfo)."""
        lines: dict[LockLine, None] = {}
        for device in dict.fromkeys(devices):
            lines.update(dict.fromkeys(self.by_file.get((device, inode), ())))
        return tuple(lines)


def read_table(processes: Processes) -> LockTable:
    """Reads the table twice and merges both. Outside the first pid namespace it leaves out the locks of others."""
    lines: dict[LockLine, None] = {}
    unseen = "" if processes.in_first_namespace() else _OTHER_NAMESPACES
    for _ in range(2):
        text = processes.locks()
        if text is None:
            unseen = _NO_TABLE
        else:
            lines.update(dict.fromkeys(parse_locks(text)))
    by_file: dict[tuple[Device, int], list[LockLine]] = {}
    for line in lines:
        by_file.setdefault((line.device, line.inode), []).append(line)
    return LockTable({key: tuple(found) for key, found in by_file.items()}, unseen)


class LockTableCache:
    """The lock table, read at most once a second."""

    def __init__(self, world: System) -> None:
        self._world = world
        self._read: tuple[float, LockTable] | None = None

    def read(self) -> LockTable:
        """Returns all locks of this machine that can be seen."""
        at = self._world.monotonic()
        if self._read is None or at - self._read[0] >= _TABLE_FOR:
            self._read = (at, read_table(self._world.processes))
        return self._read[1]


def is_lock_name(name: str) -> bool:
    """True for the names of lock files, lock directories, read-write locks and ticket queues."""
    return name.endswith((*_SUFFIXES, ".queue", SUFFIX))


def device_of(found: os.stat_result) -> Device:
    return os.major(found.st_dev), os.minor(found.st_dev)


class LockFiles:
    """The lock files in some folders, looked at once a second at most. Remembers since when each party was seen."""

    def __init__(
        self,
        world: System,
        *,
        least: float = 1.0,
    ) -> None:
        self._world = world
        self._judge = Judge(world.processes)
        self._least = least
        self._kernel_locked: set[tuple[int, int]] = set()
        self._looked: float | None = None
        self._last: tuple[Lock, ...] = ()
        self._since: dict[tuple[int, int, int, bool], float] = {}
        self._names: dict[str, tuple[tuple[int, int, int], tuple[str, ...]]] = {}

    def look(
        self,
        folders: Iterable[tuple[str, int, Device | None]],
        table: Callable[[], LockTable],
        boxes: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> tuple[Lock, ...]:
        """The locks in ``folders``: (path as shown, descriptor, device of its mount). ``table`` is called only where there is a
        lock file. ``boxes`` are those of the folders that hold messages, with the names of the locks in them."""
        now = self._world.monotonic()
        if self._looked is not None and now - self._looked < self._least:
            return self._last
        self._looked = now
        found: list[Lock] = []
        seen: dict[tuple[int, int, int, bool], float] = {}
        known: LockTable | None = None
        files: set[tuple[int, int]] = set()
        for path, fd, device in folders:
            names = boxes[path] if path in boxes else self._lock_names(path, fd)
            for name in names:
                try:
                    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                except FileNotFoundError:
                    continue  # removed since it was listed
                except OSError as error:
                    why = f"it cannot be seen: {error.strerror}"
                    found.append(Lock(os.path.join(path, name), "soft", (), (), "unknown", why))
                    continue
                if stat.S_ISDIR(status.st_mode):
                    whole = os.path.join(path, name)
                    kind = read_write_lock if name.endswith(SUFFIX) else ticket_queue
                    queue = kind(whole, name, fd, self._judge, local=is_local(mount_of(fd)))
                    if queue is None and name.endswith(_SUFFIXES):
                        queue = directory_lock(whole, name, fd, self._judge)
                    found += [queue] if queue is not None else []
                    continue
                if stat.S_ISLNK(status.st_mode):
                    link = soft_lock(os.path.join(path, name), name, fd, self._judge, self._world.clock())
                    found += [link] if link is not None else []
                    continue
                if not stat.S_ISREG(status.st_mode):
                    continue
                known = known or table()
                files.add((status.st_dev, status.st_ino))
                queued = f"{name}.queue" in names  # as stouputils has it: a flock, and who wants it next
                found.append(self._lock(os.path.join(path, name), name, fd, status, device, known, seen, queued=queued))
        self._since = seen
        self._kernel_locked &= files
        self._last = orphaned(found)
        return self._last

    def _lock_names(self, path: str, fd: int) -> tuple[str, ...]:
        """The names of lock files and ticket queues in a folder; listed again only when it changed, and never beyond a bound."""
        own = -1
        try:
            state = os.fstat(fd)
            generation = (state.st_dev, state.st_ino, state.st_mtime_ns)
            kept = self._names.get(path)
            if kept is not None and kept[0] == generation and state.st_mtime_ns < time.time_ns() - 20_000_000:
                return kept[1]
            own = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
            names: list[str] = []
            with os.scandir(own) as entries:
                for turn, entry in enumerate(entries):
                    if turn >= _LIST_AT_MOST or len(names) >= _AT_MOST:
                        break
                    if is_lock_name(entry.name):
                        names.append(entry.name)
        except OSError:
            return ()  # not listable: the box states say so
        finally:
            if own >= 0:
                os.close(own)
        self._names[path] = (generation, tuple(sorted(names)))
        return self._names[path][1]

    def _lock(
        self,
        path: str,
        name: str,
        fd: int,
        status: os.stat_result,
        device: Device | None,
        table: LockTable,
        seen: dict[tuple[int, int, int, bool], float],
        *,
        queued: bool,
    ) -> Lock:
        devices = [device_of(status)] + ([device] if device is not None else [])
        lines = table.of(devices, status.st_ino)
        holders: dict[int, LockHolder] = {}
        waiters: dict[int, LockHolder] = {}
        for line in lines:
            side = waiters if line.waits else holders
            for pid in self._real_pids(line, status):
                key = (status.st_ino, status.st_dev, pid or 0, line.waits)
                since = seen[key] = self._since.get(key, self._world.clock())
                if (pid or 0) not in side:
                    side[pid or 0] = holder_info(pid, since, self._world.processes)
        file = (status.st_dev, status.st_ino)
        if lines:
            self._kernel_locked.add(file)
        elif file not in self._kernel_locked and (status.st_size or status.st_nlink > 1):
            soft = soft_lock(path, name, fd, self._judge, self._world.clock())
            if soft is not None:
                return soft
        kind = lines[0].kind if lines else "none"
        if waiters:
            verdict, evidence = "blocked", f"{len(waiters)} wait{'s' if len(waiters) == 1 else ''} for it"
        elif holders:
            verdict, evidence = "held", ""
        elif not table.unseen and (queued or name in _KERNEL_LOCKED or file in self._kernel_locked or status.st_size > LIMIT):
            verdict, evidence = "free", "the file exists, nobody holds a lock on it"
        else:
            verdict, evidence = "unknown", table.unseen or _EXISTS
        return Lock(path, kind, tuple(holders.values()), tuple(waiters.values()), verdict, evidence)

    def _real_pids(self, line: LockLine, status: os.stat_result) -> list[int | None]:
        """The pid of the line; where it is hidden or has ended, those who have the lock through a descriptor (a child)."""
        if line.pid > 0 and self._world.processes.exists(line.pid):
            process = self._world.processes.process(line.pid)
            if process is None or not process.zombie:
                return [line.pid]
        if line.waits:
            return [line.pid if line.pid > 0 else None]
        file = (status.st_dev, status.st_ino)
        opened = self._world.processes.descriptors({file}).by_file.get(file, ())
        inheritors: list[int | None] = []
        for pid in dict.fromkeys(one.pid for one in opened):
            own = parse_locks(b"\n".join(self._world.processes.lock_lines(pid)))
            if any(held.inode == line.inode and held.kind == line.kind for held in own):
                inheritors.append(pid)
        return inheritors or [None]


def message_locks(chunks: Iterable[bytes]) -> tuple[str, ...]:
    """The locks among the names of one box, joined by ``/``, whose message is in the box too: under its name, or claimed, under
    that with a tail.

    >>> message_locks([b"a/a.lock/b.lock", b"c.lock/c:2,P77"])
    ('a.lock', 'c.lock')
    """
    known = list(chunks)
    names = [name for chunk in known if _MESSAGE_LOCK in chunk for name in chunk.split(b"/") if name.endswith(_MESSAGE_LOCK)]
    found = (name for name in sorted(names)[:_AT_MOST] if _message_exists(name.removesuffix(_MESSAGE_LOCK), known))
    return tuple(os.fsdecode(name) for name in found)


def _message_exists(message: bytes, chunks: list[bytes]) -> bool:
    if not message:
        return False
    starts = (message + b",", message + b":")
    among = (chunk.split(b"/") for chunk in chunks if message in chunk)
    return any(name == message or name.startswith(starts) for names in among for name in names)


def folder_closed(own: int, what: str, *command: str) -> str | None:
    """Why this user may take nothing out of the open directory ``own``, called ``what``, or None. ``command`` are the words
    after ``spooltop`` for a user who may. In a sticky directory the owner of the file counts too."""
    if os.fstatvfs(own).f_flag & os.ST_RDONLY:
        return f"the file system is read-only ({os.strerror(errno.EROFS)})"
    if os.access(".", os.R_OK | os.W_OK | os.X_OK, dir_fd=own, effective_ids=True):
        return None
    return closed_words(what, os.fstat(own), *command)

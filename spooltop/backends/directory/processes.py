"""The process table and the kernel's table of locks, as far as they can be seen from here. Everything that asks about a process
goes through one object.

psutil answers what it knows at a fair price: name, user, command line, start in epoch seconds, use of the processor and of
memory. ``procfs`` answers the rest, which is unknown on a system without ``/proc``. A missing entry of either proves nothing
(``hidepid``); only kill(2) with signal 0 tells whether a number is taken (proc(5)).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from errno import ENOSYS, EPERM
from functools import lru_cache
from typing import Any

from spooltop.engine.host import PROC, Machine, this_machine
from spooltop.engine.syscalls import cached_file_id
from spooltop.model import EXITED, RUNNING, Device, Frozen, LockLine, Mount, UsageError, Verdict, escape, parse_locks, program_of

# Reads ``/proc`` (proc(5)): what it tells about a process that psutil does not, or only at several times the cost. Measured per
# process, on a machine with 408 of them, in µs of CPU: start in clock ticks, state and number of threads 14, by psutil 74; open
# files with their devices and inodes 17, by psutil 70, without those that were deleted or are in another mount namespace;
# children 14, by psutil 6,900, as it reads every process. psutil has neither the numbers in pid namespaces nor the locks.

FileId = tuple[int, int]
"""Device and inode of a file."""

_FIRST_PID_NAMESPACE, _FIRST_TIME_NAMESPACE = 0xEFFFFFFC, 0xEFFFFFFA
"""Inodes that the kernel gives to them, proc(5)."""


class ProcOwner(Frozen):
    """Users and groups that the process ``pid`` acts for in any role (real, effective, saved, of the file system, supplementary),
    and the ``name`` that it gives itself. ``hides``: it lets nobody but root look into it, not even its own user (``dumpable`` of
    proc(5)), as a process does that was started by root and became this user, or one that keeps secrets."""

    pid: int
    uids: frozenset[int]
    gids: frozenset[int]
    name: str
    hides: bool


def _end_of(end: str) -> tuple[object, int] | None:
    """An end of a connection, equal to that of an IPv6 socket which stands for the same IPv4 address; None for no address."""
    from ipaddress import ip_address  # a look at a directory does without it

    host, _, port = end.rpartition(":")
    with suppress(ValueError):
        address = ip_address(host.strip("[]"))
        return getattr(address, "ipv4_mapped", None) or address, int(port)
    return None


def _numbers_in(status: bytes, name: bytes) -> list[int]:
    """The numbers of the line ``name`` of a ``status`` file."""
    return [int(number) for number in status.partition(b"\n%s:" % name)[2].partition(b"\n")[0].split()]


def _file_id(path: str) -> FileId:
    """The file that a descriptor is open on."""
    try:
        return cached_file_id(path)
    except OSError as error:
        if error.errno not in (ENOSYS, EPERM):  # before Linux 4.11, and where a container forbids what its list does not know
            raise
    found = os.stat(path)
    return found.st_dev, found.st_ino


_PID_AT_MOST = 1 << 22
_FAMILY_AT_MOST = 64
_INIT = 1
"""The first process works for no queue. It may be closed even to root, to one that has fewer capabilities."""
_ROUNDS = 20
"""Rounds in which new processes are still read; a machine that starts them faster is not seen whole."""
_DESCRIBED = 5_000
"""Descriptions of processes that are kept."""
_BOOTTIME: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Runs on in suspend: CLOCK_BOOTTIME of Linux; elsewhere CLOCK_MONOTONIC does."""


class Process(Frozen):
    """``started`` is in seconds of ``Processes.boottime``, ``since`` the same in epoch seconds by the clock of now; ``zombie``:
    it has ended and its parent has not taken notice; ``stopped`` is its state letter (proc(5)) where a signal (``T``) or a
    debugger (``t``) has stopped it. ``command``, ``user`` and ``since`` are None where nobody asked or may know."""

    pid: int
    started: float | None = None
    zombie: bool = False
    command: str | None = None
    user: str | None = None
    since: float | None = None
    stopped: str = ""

    @property
    def halted(self) -> str:
        """"stopped (T)", empty where it may run."""
        return f"stopped ({self.stopped})" if self.stopped else ""


class ProcessUse(Frozen):
    """Use by one process: ``cpu`` in seconds so far, ``memory`` (resident) in bytes now. ``started`` as in ``Process``."""

    started: float
    cpu: float
    memory: int
    stopped: bool


class Descriptor(Frozen):
    """Open descriptor. ``writing`` None: its flags could no longer be read."""

    pid: int
    number: int
    writing: bool | None


class Descriptors(Frozen):
    """Processes that have some files open, descriptor by descriptor. ``unread`` are the owners of those whose descriptors this
    user may not read; None where there may be processes that are not shown at all."""

    by_file: Mapping[FileId, tuple[Descriptor, ...]]
    unread: tuple[ProcOwner, ...] | None

    @property
    def all_seen(self) -> bool:
        return self.unread == ()

    def unseen_writers(self, file: os.stat_result, viewer: int, has_acl: Callable[[], bool]) -> str | None:
        """Describes the processes that may have ``file`` open for writing without being seen by the user ``viewer``: "" if there
        are none, "root's" and, where the file is the viewer's own, programs of his that root alone may look into; None if any
        other process may.

        Whoever has a file open for writing had the right to write it: its owner, its group or everybody where the mode says so
        (an access control list may name more, acl(5)), and root.
        """
        if not self.unread:
            return None if self.unread is None else ""
        hidden: set[str] = set()
        for process in self.unread:
            if process.uids == {0}:
                continue
            if viewer == file.st_uid and viewer in process.uids and process.hides:
                hidden.add(escape(process.name))
                continue
            by_group = file.st_mode & stat.S_IWGRP and (file.st_gid in process.gids or has_acl())
            if file.st_uid in process.uids or by_group or file.st_mode & stat.S_IWOTH:
                return None
        return " and ".join(("root's", *sorted(hidden)[:2]))


class Watchers(Frozen):
    """Processes that watch a directory by inotify(7). ``complete``: the watches of all could be read. ``used`` are the instances
    and watches of each user that could be read, ``most`` those that a user may have; None where that is not known."""

    pids: list[int]
    complete: bool
    used: Mapping[int, tuple[int, int]]
    most: tuple[int | None, int | None]

    @property
    def full(self) -> set[int]:
        """The ids of users who have no instance or no watch left: what they start runs without one."""
        return {
            uid for uid, used in self.used.items()
            if any(most is not None and many >= most for many, most in zip(used, self.most, strict=True))
        }  # fmt: skip


class Processes:
    """The table behind ``proc`` (a mount of procfs). Every answer is of this moment; nothing but descriptions is kept. A method
    returns None, or nothing, where an entry does not exist or is closed to this user."""

    def __init__(self, proc: str = PROC) -> None:
        self._root = proc
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._descriptions = lru_cache(_DESCRIBED)(lambda pid, started: self.process(pid, described=True))

    def wall(self) -> float:
        """The wall clock that the kernel stamps files with, epoch seconds."""
        return time.time()

    def boottime(self) -> float:
        """Seconds of a clock that runs on in suspend and never jumps: CLOCK_BOOTTIME where there is one."""
        return time.clock_gettime(_BOOTTIME)

    def host(self) -> str:
        return os.uname().nodename

    def boot_id(self) -> str:
        """Empty where it is not known."""
        return this_machine().boot_id

    def machine(self) -> Machine:
        """This machine, and the pid namespace of this process, as a presence file names them."""
        return this_machine().replace(host=self.host())

    def namespace(self) -> int | None:
        """The inode of this process's pid namespace, None where it is not known."""
        try:
            return os.stat(f"{self._root}/self/ns/pid").st_ino
        except OSError:
            return None

    def starts_shifted(self) -> bool:
        """True where starts may differ from those that processes outside read: in a time namespace (time_namespaces(7)), but not
        on a kernel that has none."""
        try:
            return os.stat(f"{self._root}/self/ns/time").st_ino != _FIRST_TIME_NAMESPACE
        except OSError:
            return not self._has_procfs()

    def in_first_namespace(self) -> bool:
        """True where every process of the kernel has a number here, and ``proc`` is the table of this very namespace."""
        try:
            mine = os.readlink(f"{self._root}/self") == str(os.getpid())
        except OSError:
            return False
        return mine and self.namespace() == _FIRST_PID_NAMESPACE

    def exists(self, pid: int) -> bool | None:
        """True: the number is taken (EPERM says so too). False: ESRCH, it is gone. None: no process can have that number."""
        if not 0 < pid <= _PID_AT_MOST:
            return None
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True  # EPERM, or a security module: it is there and belongs to somebody else
        return True

    def shown_pids(self) -> list[int]:
        """The numbers of all processes that are shown."""
        with suppress(OSError):
            return [int(name) for name in os.listdir(self._root) if name.isdecimal()]
        return []

    def namesakes(self, pids: Iterable[int]) -> dict[int, list[Process]] | None:
        """All processes that have one of ``pids`` as their number in any pid namespace; None where some are hidden from here."""
        found: dict[int, list[Process]] = {pid: [] for pid in pids}
        shown = self.shown_pids()
        if 1 not in shown:
            return None
        for pid in shown:
            try:
                numbers = _numbers_in(self._status(pid), b"NSpid")
            except (FileNotFoundError, ProcessLookupError):
                continue  # ended while we looked
            except OSError:
                return None
            if not numbers:
                return None
            for number in found.keys() & numbers:
                found[number].append(self.process(pid) or Process(pid))
        return found

    def numbers(self, pid: int) -> list[int]:
        """The numbers of a process in pid namespaces, the outermost first; empty where they are not known."""
        with suppress(OSError):
            return _numbers_in(self._status(pid), b"NSpid")
        return []

    def process(self, pid: int, *, described: bool = False) -> Process | None:
        """Reads start and state of a process; None where nothing is visible. ``described`` adds its command, user and start in
        epoch seconds."""
        fields = (self._bytes(f"{pid}/stat") or b"").rpartition(b")")[2].split()
        if len(fields) >= 20:
            # The leader of a process may end before its other threads: then the process lives.
            zombie = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
            stopped = fields[0].decode() if fields[0] in (b"T", b"t") else ""
            found = Process(pid, self.seconds(int(fields[19])), zombie, stopped=stopped)
        elif self._has_procfs():
            return None
        else:
            found = Process(pid)  # a system without procfs tells its command and its user at most
        return _described(found) if described else found

    def describe(self, process: Process) -> Process:
        """Adds command, user and start in epoch seconds, as they were when they were first asked for."""
        return (self._descriptions(process.pid, process.started) or process).replace(stopped=process.stopped)

    def cpu(self, pid: int) -> tuple[tuple[int, float, float], ...] | None:
        """Returns the CPU time used by a process and all its living descendants: for each (pid, start in epoch seconds, CPU
        seconds so far, including those of children that ended). None where not all of it is visible."""
        family = [pid]
        used = []
        with suppress(OSError):
            for member in family:  # grows while it is walked
                seen = _told(member, "cpu_times", "create_time")
                children = self._children(member)
                if None in seen.values() or len(family) + len(children) > _FAMILY_AT_MOST:
                    return None
                family += [child for child in children if child not in family]
                # Not every system tells the times of the children that ended.
                kinds = ("user", "system", "children_user", "children_system")
                used.append((member, seen["create_time"], sum(getattr(seen["cpu_times"], kind, 0.0) for kind in kinds)))
            return tuple(used)
        return None  # ended meanwhile, or closed to this user

    def use(self, pid: int) -> ProcessUse | None:
        """Returns what a process uses, without its children; None where that is not visible, or it has ended."""
        process = self.process(pid)
        if process is None or process.started is None or process.zombie:
            return None
        times, memory = _told(pid, "cpu_times", "memory_info").values()
        if times is None or memory is None:
            return None
        return ProcessUse(process.started, times.user + times.system, memory.rss, bool(process.stopped))

    def command_line(self, pid: int) -> str:
        """The whole command line of a process, "" where it is not visible."""
        return " ".join(_told(pid, "cmdline")["cmdline"] or ())

    def seconds(self, ticks: int) -> float:
        """Clock ticks since boot, as a presence file has them, in seconds."""
        return ticks / self._ticks

    def files_of(self, pid: int) -> set[FileId] | None:
        """Returns the files that a process has open, as (device, inode); None where its descriptors cannot be read."""
        with suppress(OSError):
            return {file for _, file in self._open_files(pid)}
        return None

    def clients(
        self, pids: Iterable[int], connections: Collection[tuple[str, str]]
    ) -> list[tuple[int, float, tuple[str, str]]]:
        """Returns pid, start (seconds since boot) and connection of each of ``pids`` that has one of these TCP connections open,
        (own end, other end) as ``ADDRESS:PORT``; those that this user may not look into are left out."""
        import psutil

        wanted = {tuple(map(_end_of, one)): one for one in connections}
        found = []
        for pid in pids if wanted else ():
            before = self.process(pid)
            try:
                opened = psutil.Process(pid).net_connections("tcp")
            except (psutil.Error, OSError):
                continue  # ended meanwhile, or closed to this user
            ends = (tuple(_end_of(f"{ip}:{port}") for ip, port in (one.laddr, one.raddr)) for one in opened if len(one.raddr))
            held = min((wanted[both] for both in ends if both in wanted), default=None)
            if held is not None and before is not None and before.started is not None and self.process(pid) == before:
                found.append((pid, before.started, held))
        return found

    def has_ended(self, pid: int, started: float) -> bool | None:
        """True where the process ``pid`` that was started at ``started`` (seconds since boot) is gone, or only waits for its
        parent to notice; None where that is not visible."""
        if self.exists(pid) is False:
            return True
        now = self.process(pid)
        return None if now is None or now.started is None else now.zombie or now.started != started

    def descriptors(self, files: set[FileId]) -> Descriptors:
        """Finds all descriptors on one of ``files`` (device, inode), and whether they are open for writing. Reads every
        descriptor there is: call it rarely."""
        found: dict[FileId, list[Descriptor]] = {}
        unread: list[ProcOwner] = []
        pids = self.shown_pids()
        all_shown = 1 in pids
        read: set[int] = set()
        for _ in range(_ROUNDS):
            fresh = sorted(set(pids) - read)
            if not fresh:
                break
            for pid in fresh:
                try:
                    try:
                        for number, file in self._open_files(pid):
                            if file in files:
                                found.setdefault(file, []).append(Descriptor(pid, number, self._position(pid, number)[1]))
                    except PermissionError:
                        state = self.process(pid)
                        if pid != _INIT and (state is None or not state.zombie):  # which has no descriptors any more
                            unread.append(self._owner(pid))
                except (FileNotFoundError, ProcessLookupError):
                    continue
                except OSError:
                    all_shown = False
            read.update(fresh)
            pids = self.shown_pids()  # what a process closed before it was read, a child that it forked meanwhile may have
        else:
            all_shown = False
        return Descriptors({file: tuple(those) for file, those in found.items()}, tuple(unread) if all_shown else None)

    def watchers(self, files: Set[FileId]) -> Watchers:
        """Finds the processes that watch one of these directories by inotify(7). Reads every descriptor there is: call it rarely.
        """
        found: list[int] = []
        used: dict[int, tuple[int, int]] = {}
        pids = self.shown_pids()
        complete = 1 in pids
        for pid in pids:
            try:
                watched, its_instances, its_watches = self._inotify(pid)
                if files & watched:
                    found.append(pid)
                for uid in self._owner(pid).uids if its_instances else ():
                    instances, watches = used.get(uid, (0, 0))
                    used[uid] = instances + its_instances, watches + its_watches
            except (FileNotFoundError, ProcessLookupError):
                continue
            except OSError:
                complete = complete and pid == _INIT
        return Watchers(found, complete, used, (self._limit("instances"), self._limit("watches")))

    def _limit(self, what: str) -> int | None:
        """The limit of the machine or that of the user namespace, whichever is lower."""
        texts = (self._bytes(f"sys/fs/inotify/max_user_{what}"), self._bytes(f"sys/user/max_inotify_{what}"))
        return min((int(text) for text in texts if text is not None), default=None)

    def locked_at(self, pid: int, fd: int, inode: int) -> int | None:
        """The file offset of a descriptor that is open for writing and holds a write lock on ``inode``; None for others."""
        at, writing, locks = self._position(pid, fd)
        return at if writing and any(b" WRITE " in line and b":%d " % inode in line for line in locks) else None

    def lock_lines(self, pid: int) -> list[bytes]:
        """The ``lock:`` lines of all descriptors of a process (fdinfo), empty where they cannot be read."""
        with suppress(OSError):
            return [line for fd in os.listdir(f"{self._root}/{pid}/fdinfo") for line in self._position(pid, int(fd))[2]]
        return []

    def locks(self) -> bytes | None:
        """The kernel's table of all locks, ``/proc/locks``, read whole; None on a system that has none."""
        return self._bytes("locks", 1 << 26)

    def _has_procfs(self) -> bool:
        """False on a system without procfs, where psutil has to answer."""
        return os.path.exists(f"{self._root}/self")

    def _owner(self, pid: int) -> ProcOwner:
        """The users and groups that a process acts for. Raises ``OSError``."""
        status = self._status(pid)
        uids, gids, groups = (frozenset(_numbers_in(status, name)) for name in (b"Uid", b"Gid", b"Groups"))
        name = status.partition(b"Name:\t")[2].partition(b"\n")[0]
        hides = os.stat(f"{self._root}/{pid}/fd").st_uid not in uids
        return ProcOwner(pid, uids, gids | groups, os.fsdecode(name), hides)

    def _children(self, pid: int) -> list[int]:
        """The children of all threads of a process (``task/*/children``). Raises ``OSError``."""
        found: list[int] = []
        for thread in os.listdir(f"{self._root}/{pid}/task"):
            with open(f"{self._root}/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
        return found

    def _open_files(self, pid: int) -> Iterator[tuple[int, FileId]]:
        """Yields each descriptor of a process, with its file. Raises ``OSError`` if they cannot be listed or looked at. A process
        may have a file open on a network whose server is away, and must not stop whoever looks."""
        folder = f"{self._root}/{pid}/fd"
        for descriptor in os.listdir(folder):
            try:
                file = _file_id(f"{folder}/{descriptor}")
            except PermissionError:
                # Of a process of this user in another group the descriptors can be listed and no more (ptrace(2)): that raises.
                # Else it is a file of another user's FUSE.
                os.readlink(f"{folder}/{descriptor}")
                continue
            except OSError:
                continue  # closed meanwhile, or something that has no inode
            yield int(descriptor), file

    def _inotify(self, pid: int) -> tuple[set[FileId], int, int]:
        """Reads which files a process watches by inotify(7), and how many instances and watches it has of those that its user may
        have, from the ``inotify`` lines of fdinfo; devices as (major, minor) of the kernel make them. Raises ``OSError`` if its
        descriptors cannot be listed or looked at."""
        found: set[FileId] = set()
        instances = watches = 0
        for descriptor in os.listdir(f"{self._root}/{pid}/fd"):
            try:
                link = os.readlink(f"{self._root}/{pid}/fd/{descriptor}")
            except PermissionError:
                raise
            except OSError:
                continue  # closed meanwhile
            if "inotify" not in link:
                continue
            instances += 1
            for line in (self._bytes(f"{pid}/fdinfo/{descriptor}", 1 << 22) or b"").splitlines():
                fields = dict(part.partition(b":")[::2] for part in line.split()[1:]) if line.startswith(b"inotify ") else {}
                watches += bool(fields)
                if b"ino" in fields and b"sdev" in fields:
                    device = int(fields[b"sdev"], 16)
                    found.add((os.makedev(device >> 20, device & 0xFFFFF), int(fields[b"ino"], 16)))
        return found, instances, watches

    def _position(self, pid: int, fd: int) -> tuple[int | None, bool | None, list[bytes]]:
        """File offset, whether it is open for writing, and the locks of a descriptor (fdinfo)."""
        at, writing, locks = None, None, []
        for line in (self._bytes(f"{pid}/fdinfo/{fd}") or b"").splitlines():
            if line.startswith(b"pos:"):
                at = int(line[4:])
            elif line.startswith(b"flags:"):
                writing = int(line[6:], 8) & os.O_ACCMODE != os.O_RDONLY
            elif line.startswith(b"lock:"):
                locks.append(line[5:].strip())
        return at, writing, locks

    def _status(self, pid: int) -> bytes:
        with open(f"{self._root}/{pid}/status", "rb") as file:
            return file.read(1 << 20)  # a process may be in 65,536 groups

    def _bytes(self, path: str, limit: int = 65_536) -> bytes | None:
        with suppress(OSError), open(f"{self._root}/{path}", "rb", buffering=0) as file:
            parts: list[bytes] = []
            while limit > 0 and (part := file.read(min(limit, 1 << 20))):
                parts.append(part)
                limit -= len(part)
            return b"".join(parts)
        return None


def _described(process: Process) -> Process:
    """Adds command, user and start in epoch seconds, as far as they are visible to this user."""
    seen = _told(process.pid, "create_time", "name", "username", "cmdline")
    command = program_of(seen["cmdline"] or []) or seen["name"] or None
    return process.replace(command=command, user=seen["username"], since=seen["create_time"])


def _told(pid: int, *names: str) -> dict[str, Any]:
    """These attributes of a process as psutil tells them; None for each that this user may not know, and where it has ended."""
    import psutil

    with suppress(psutil.Error):
        return dict.fromkeys(names) | psutil.Process(pid).as_dict(names)
    return dict.fromkeys(names)


# The kernel's table of locks, read twice, and the owners of a lock in it.

_OTHER_NAMESPACES = "processes outside this container are not visible from here"
_NO_TABLE = "this system does not show who holds a lock"


class LockTable(Frozen):
    """All locks that were seen. ``unseen`` says why there may be more; if it is empty, an absent lock is free."""

    by_file: Mapping[tuple[Device, int], tuple[LockLine, ...]]
    unseen: str = ""

    def of(self, found: os.stat_result, mount: Mount | None = None) -> tuple[LockLine, ...]:
        """The locks on the file with this status; btrfs has the device of its ``mount`` in the table in place of the one of the
        status."""
        devices = {(os.major(found.st_dev), os.minor(found.st_dev)): None}
        if mount is not None:
            devices[mount.device] = None
        return tuple(dict.fromkeys(line for one in devices for line in self.by_file.get((one, found.st_ino), ())))


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


def lock_owners(line: LockLine, opened: Iterable[Descriptor], processes: Processes) -> list[int | None]:
    """Returns the owners of a lock: the pid of the line; where it is hidden or has ended (an OFD lock, or the child of a process
    that ended), those that have the lock through one of the descriptors on the file, ``opened``: read only
    then."""
    if line.pid > 0 and processes.exists(line.pid):
        process = processes.process(line.pid)
        if process is None or not process.zombie:
            return [line.pid]
    if line.waits:
        return [line.pid if line.pid > 0 else None]
    inheritors: list[int | None] = []
    for pid in dict.fromkeys(one.pid for one in opened):
        own = parse_locks(b"\n".join(processes.lock_lines(pid)))
        if any(held.inode == line.inode and held.kind == line.kind for held in own):
            inheritors.append(pid)
    return inheritors or [None]


# Judges whether the pid in the name of a claim still refers to the process that made it. A living holder is never called dead,
# except where the setting ``claims.pids`` wrongly says that it runs here.

ANY_HOST, THIS_HOST = "any", "this-host"
"""Values of the setting ``claims.pids``: where the holders run that name only a pid."""

MARGIN = 2.0
"""Seconds between a claim and the start of a process that prove that it is another process."""


class Certainty(Frozen):
    """Conditions for conclusions about pids. ``local``: only this machine mounts the file system. ``all_pids``: this is the first
    pid namespace. ``pids_here``: the user vouches that all pids are those of processes of this pid namespace
    (``claims.pids``)."""

    local: bool
    all_pids: bool
    pids_here: bool = False


def check_pids(pids: str) -> bool:
    """``Certainty.pids_here`` for ``pids``, a value of ``claims.pids``. Raises ``UsageError`` for any other."""
    if pids not in (ANY_HOST, THIS_HOST):
        raise UsageError(f"claims.pids: {escape(pids)!r} is neither {ANY_HOST} nor {THIS_HOST}")
    return pids == THIS_HOST


class BootClock:
    """Ties file times to CLOCK_BOOTTIME. Only what happened while watching can be tied: how the wall clock was set before that
    is not known."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._began_boot = processes.boottime()
        self._offset = processes.wall() - self._began_boot
        self.jumped: float | None = None

    def look(self) -> None:
        """Notices jumps of the wall clock over 2 s since watching began."""
        drift = self._processes.wall() - self._processes.boottime() - self._offset
        if abs(drift) > 2.0:
            self.jumped = drift

    def latest(self, stamped: float, seen: float) -> float:
        """Returns a moment (CLOCK_BOOTTIME) at which a file with the time ``stamped`` (epoch), first seen at ``seen``, existed
        already."""
        if self.jumped is not None:
            return seen
        at = stamped - self._offset
        return min(seen, at) if at >= self._began_boot else seen


def judge_pids(
    processes: Processes, claims: Sequence[tuple[int, float]], certainty: Certainty
) -> list[tuple[Verdict, str, Process | None]]:
    """Judges the holders of ``claims`` that name only a pid, each with a moment (CLOCK_BOOTTIME) at which it existed already.
    Also returns what is visible of the process."""
    there = {pid: processes.exists(pid) for pid, _ in claims}
    visible = {pid: processes.process(pid) for pid, taken in there.items() if taken}
    namesakes: Mapping[int, Sequence[Process]] | None = None
    if certainty.local and (certainty.all_pids or certainty.pids_here):
        # Only where they can change a verdict: it costs a read of every ``status`` file.
        asked = {pid for pid, taken in there.items() if taken is False}
        asked |= {pid for pid, at in claims if (process := visible.get(pid)) is not None and later(process, at)}
        namesakes = processes.namesakes(asked) if asked else {}
    found = []
    for pid, at in claims:
        process, others = visible.get(pid), None if namesakes is None else namesakes.get(pid, ())
        found.append((*judge_pid(pid, there[pid], process, others, at, certainty), process))
    return found


def judge_pid(
    pid: int,
    there: bool | None,
    process: Process | None,
    namesakes: Sequence[Process] | None,
    known_at: float,
    certainty: Certainty,
) -> tuple[Verdict, str]:
    """Judges whether the holder of a claim that names only a pid is alive. Pure.

    ``there`` is the answer of kill(pid, 0), ``process`` what is visible under that number, ``namesakes`` all processes with that
    number in any pid namespace (None: not all are visible). ``known_at`` is a moment (CLOCK_BOOTTIME) at which the claim already
    existed.
    """
    if there is None:
        return Verdict.UNKNOWN, f"no process can have pid {pid}"
    certain = certainty.local and certainty.all_pids and namesakes is not None
    vouched = "" if certain else f"; claims.pids is {THIS_HOST}"
    if there:
        if process is not None and process.zombie:
            return Verdict.UNKNOWN, f"pid {pid} has exited, its parent has not noticed"
        if process is None or process.started is None or process.started <= known_at + MARGIN:
            return Verdict.ALIVE, RUNNING
        # By the clock of a server it may only seem to have started later.
        if (certain or (certainty.local and certainty.pids_here)) and all(later(other, known_at) for other in namesakes or ()):
            return Verdict.DEAD, f"pid {pid} is running, but started after the claim{vouched}"
        return Verdict.UNKNOWN, f"pid {pid} is running, but started after the claim"
    if not certain and not certainty.pids_here:
        return Verdict.UNKNOWN, f"no pid {pid} here"
    others = [other for other in namesakes or () if not later(other, known_at)]
    if not others:
        return Verdict.DEAD, f"{EXITED}{vouched}"
    return Verdict.UNKNOWN, f"no pid {pid} here; in a container it is pid {others[0].pid}"


def later(process: Process, known_at: float) -> bool:
    """True where ``process`` was started so long after ``known_at`` (CLOCK_BOOTTIME) that it is another one."""
    return process.started is not None and process.started > known_at + MARGIN

"""The process table, as far as it can be seen from here. Everything that asks about a process goes through one object.

psutil answers what it knows at a fair price: name, user, command line, start in epoch seconds, CPU time. ``procfs`` answers the
rest, and on a system without ``/proc`` psutil answers that too, as far as it can. A missing entry of either proves nothing
(``hidepid``); only kill(2) with signal 0 tells whether a number is taken (proc(5)).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from typing import NamedTuple

from spooltop.engine.system.host import PROC, Machine, boot_id, this_machine
from spooltop.model.text import escape, program_of
from spooltop.records import dataclass, replace

from .procfs import FileId, ProcFs, ProcOwner

__all__ = ["Descriptor", "Descriptors", "Process", "ProcessUse", "Processes", "Watchers"]

_PID_AT_MOST = 1 << 22
_FAMILY_AT_MOST = 64
_INIT = 1
"""The first process works for no queue. It may be closed even to root, to one that has fewer capabilities."""
_ROUNDS = 20
"""Rounds in which new processes are still read; a machine that starts them faster is not seen whole."""
_BOOTTIME: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Runs on in suspend: CLOCK_BOOTTIME of Linux; elsewhere CLOCK_MONOTONIC does."""


@dataclass(frozen=True, slots=True)
class Process:
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


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """Use by one process: ``cpu`` in seconds so far, ``memory`` (resident) in bytes now. ``started`` as in ``Process``."""

    started: float
    cpu: float
    memory: int
    stopped: bool


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Open descriptor. ``writing`` None: its flags could no longer be read."""

    pid: int
    number: int
    writing: bool | None


@dataclass(frozen=True, slots=True)
class Descriptors:
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


class Watchers(NamedTuple):
    """Processes that watch a directory by inotify(7). ``complete``: the watches of all could be read. ``full`` are the ids of
    users who have no instance or no watch left: what they start runs without one."""

    pids: list[int]
    complete: bool
    full: frozenset[int] = frozenset()


class Processes:
    """The table behind ``proc`` (a mount of procfs). Every answer is of this moment; nothing is kept."""

    def __init__(self, proc: str = PROC, *, wall: Callable[[], float] = time.time) -> None:
        self._procfs = ProcFs(proc)
        self._wall = wall
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._boot_id = ""

    def wall(self) -> float:
        """The wall clock that the kernel stamps files with, epoch seconds."""
        return self._wall()

    def boottime(self) -> float:
        """Seconds of a clock that runs on in suspend and never jumps: CLOCK_BOOTTIME where there is one."""
        return time.clock_gettime(_BOOTTIME)

    def host(self) -> str:
        return os.uname().nodename

    def boot_id(self) -> str:
        """Empty where it is not known."""
        if not self._boot_id:
            self._boot_id = boot_id(self._procfs.root)
        return self._boot_id

    def machine(self) -> Machine:
        """This machine, and the pid namespace of this process, as a presence file names them."""
        namespace = self._procfs.namespace()
        pid_ns = "" if namespace is None else f"pid:[{namespace}]"
        return Machine(self.host(), self.boot_id(), pid_ns, this_machine().machine_id)

    def namespace(self) -> int | None:
        """The inode of this process's pid namespace, None where it is not known."""
        return self._procfs.namespace()

    def starts_shifted(self) -> bool:
        """True where starts may differ from those that processes outside read: in a time namespace (time_namespaces(7))."""
        return not self._procfs.in_first_time_namespace()

    def in_first_namespace(self) -> bool:
        """True where every process of the kernel has a number here, and ``proc`` is the table of this very namespace."""
        return self._procfs.in_first_namespace()

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

    def namesakes(self, pids: Iterable[int]) -> dict[int, list[Process]] | None:
        """All processes that have one of ``pids`` as their number in any pid namespace; None where some are hidden from here."""
        found: dict[int, list[Process]] = {pid: [] for pid in pids}
        shown = self._procfs.pids()
        if shown is None or 1 not in shown:
            return None
        for pid in shown:
            try:
                numbers = self._procfs.numbers(pid)
            except (FileNotFoundError, ProcessLookupError):
                continue  # ended while we looked
            except OSError:
                return None
            if not numbers:
                return None
            for number in found.keys() & numbers:
                found[number].append(self.process(pid) or Process(pid))
        return found

    def numbers(self, pid: int) -> tuple[int, ...]:
        """The numbers of a process in pid namespaces, the outermost first; empty where they are not known."""
        try:
            return self._procfs.numbers(pid)
        except OSError:
            return ()

    def process(self, pid: int, *, described: bool = False) -> Process | None:
        """Reads start and state of a process; None where nothing is visible. ``described`` adds its command, user and start in
        epoch seconds."""
        seen = self._procfs.stat(pid)
        if seen is not None:
            found = Process(pid, self.seconds(seen.started), seen.zombie, stopped=seen.stopped)
        elif self._procfs.exists() or (by_psutil := self._by_psutil(pid)) is None:
            return None
        else:
            found = by_psutil
        return _described(found) if described else found

    def _by_psutil(self, pid: int) -> Process | None:
        """Start and state of a process on a system without procfs. The start is as exact as the wall clock was steady."""
        import psutil

        try:
            one = psutil.Process(pid)
            with one.oneshot():
                state, since = one.status(), one.create_time()
        except psutil.Error:
            return None
        stopped = {psutil.STATUS_STOPPED: "T", psutil.STATUS_TRACING_STOP: "t"}.get(state, "")
        return Process(pid, since - self.wall() + self.boottime(), state == psutil.STATUS_ZOMBIE, stopped=stopped)

    def cpu(self, pid: int) -> tuple[tuple[int, float, float], ...] | None:
        """Returns the CPU time used by a process and all its living descendants: for each (pid, start in epoch seconds, CPU
        seconds so far, including those of children that ended). None where not all of it is visible."""
        import psutil

        family = [pid]
        used = []
        try:
            for member in family:  # grows while it is walked
                one = psutil.Process(member)
                children = self._procfs.children(member)
                if children is None and not self._procfs.exists():
                    children = [child.pid for child in one.children()]
                if children is None or len(family) + len(children) > _FAMILY_AT_MOST:
                    return None
                family += [child for child in children if child not in family]
                with one.oneshot():
                    times = one.cpu_times()
                    # Not every system tells the times of the children that ended.
                    total = sum(getattr(times, kind, 0.0) for kind in ("user", "system", "children_user", "children_system"))
                    used.append((member, one.create_time(), total))
        except psutil.Error:
            return None  # ended meanwhile, or closed to this user
        return tuple(used)

    def use(self, pid: int) -> ProcessUse | None:
        """Returns what a process uses, without its children; None where that is not visible, or it has ended."""
        seen = self._procfs.use(pid)
        if seen is not None:
            if seen.stat.zombie:
                return None
            started, cpu = self.seconds(seen.stat.started), self.seconds(seen.cpu)
            return ProcessUse(started, cpu, seen.pages * self._page, bool(seen.stat.stopped))
        return None if self._procfs.exists() else _use_by_psutil(pid)

    def command_line(self, pid: int) -> str:
        """The whole command line of a process, "" where it is not visible."""
        found = self._procfs.command_line(pid)
        return found if found or self._procfs.exists() else _command_by_psutil(pid)

    def seconds(self, ticks: int) -> float:
        """Clock ticks since boot, as a presence file has them, in seconds."""
        return ticks / self._ticks

    def files_of(self, pid: int) -> set[FileId] | None:
        """Returns the files that a process has open, as (device, inode); None where its descriptors cannot be read."""
        try:
            return {file for _, file in self._procfs.open_files(pid)}
        except OSError:
            return None

    def clients(
        self, pids: Iterable[int], connections: Collection[tuple[str, str]]
    ) -> list[tuple[int, float, tuple[str, str]]]:
        """Returns pid, start (seconds since boot) and connection of each of ``pids`` that has one of these TCP connections open,
        (own end, other end) as ``ADDRESS:PORT``; those that this user may not look into are left out."""
        sockets = self._procfs.connection_inodes(connections)
        found = []
        for pid in pids if sockets else ():
            before = self.process(pid)
            held = sockets.keys() & self._procfs.sockets(pid)
            if held and before is not None and before.started is not None and self.process(pid) == before:
                found.append((pid, before.started, sockets[min(held)]))
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
        pids = self._procfs.pids()
        if pids is None:
            return _descriptors_by_psutil(files)
        all_shown = 1 in pids
        read: set[int] = set()
        for _ in range(_ROUNDS):
            fresh = sorted(set(pids or ()) - read)
            if not fresh:
                break
            for pid in fresh:
                try:
                    try:
                        for number, file in self._procfs.open_files(pid):
                            if file in files:
                                found.setdefault(file, []).append(Descriptor(pid, number, self._procfs.is_writing(pid, number)))
                    except PermissionError:
                        state = self._procfs.stat(pid)
                        if pid != _INIT and (state is None or not state.zombie):  # which has no descriptors any more
                            unread.append(self._procfs.owner(pid))
                except (FileNotFoundError, ProcessLookupError):
                    continue
                except OSError:
                    all_shown = False
            read.update(fresh)
            pids = self._procfs.pids()  # what a process closed before it was read, a child that it forked meanwhile may have
        else:
            all_shown = False
        return Descriptors({file: tuple(those) for file, those in found.items()}, tuple(unread) if all_shown else None)

    def watchers(self, files: Set[FileId]) -> Watchers:
        """Finds the processes that watch one of these directories by inotify. Reads every descriptor there is: call it rarely."""
        found: list[int] = []
        used: dict[int, tuple[int, int]] = {}
        pids = self._procfs.pids()
        complete = pids is not None and 1 in pids
        for pid in pids or ():
            try:
                its = self._procfs.inotify(pid)
                if files & its.files:
                    found.append(pid)
                for uid in self._procfs.owner(pid).uids if its.instances else ():
                    instances, watches = used.get(uid, (0, 0))
                    used[uid] = instances + its.instances, watches + its.watches
            except (FileNotFoundError, ProcessLookupError):
                continue
            except OSError:
                complete = complete and pid == _INIT
        most = self._procfs.inotify_limits()
        full = (uid for uid, (instances, watches) in used.items() if most and (instances >= most[0] or watches >= most[1]))
        return Watchers(found, complete, frozenset(full))

    def locked_at(self, pid: int, number: int, inode: int) -> int | None:
        """The file offset of a descriptor that is open for writing and holds a write lock on ``inode``; None for others."""
        return self._procfs.locked_at(pid, number, inode)

    def lock_lines(self, pid: int) -> list[bytes]:
        """The ``lock:`` lines of all descriptors of a process (fdinfo), empty where they cannot be read."""
        return self._procfs.lock_lines(pid)

    def locks(self) -> bytes | None:
        """The kernel's table of all locks, read whole; None on a system that has none."""
        return self._procfs.locks()


def _use_by_psutil(pid: int) -> ProcessUse | None:
    import psutil

    try:
        one = psutil.Process(pid)
        with one.oneshot():
            times, state = one.cpu_times(), one.status()
            if state == psutil.STATUS_ZOMBIE:
                return None
            memory = one.memory_info().rss
            return ProcessUse(one.create_time(), times.user + times.system, memory, state == psutil.STATUS_STOPPED)
    except psutil.Error:
        return None  # ended meanwhile, or closed to this user


def _command_by_psutil(pid: int) -> str:
    import psutil

    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""


def _described(process: Process) -> Process:
    """Adds command, user and start in epoch seconds, as far as they are visible to this user."""
    import psutil

    command = user = since = None
    try:
        one = psutil.Process(process.pid)
        with one.oneshot():
            since = one.create_time()
            command = one.name() or None
            user = one.username()
            command = program_of(one.cmdline()) or command
    except psutil.Error:
        pass  # it ended, or hides something: what was learnt until then is known
    return replace(process, command=command, user=user, since=since)


def _descriptors_by_psutil(files: set[FileId]) -> Descriptors:
    """Finds descriptors on ``files`` by psutil, which only sees files that still have their path: so never all."""
    import psutil

    found: dict[FileId, list[Descriptor]] = {}
    for one in psutil.process_iter():
        try:
            opened = one.open_files()
        except psutil.Error:
            continue  # ended, or another user's
        for file in opened:
            try:
                status = os.stat(file.path)
            except OSError:
                continue
            key = (status.st_dev, status.st_ino)
            if key in files:
                mode = getattr(file, "mode", None)  # of Linux alone
                found.setdefault(key, []).append(Descriptor(one.pid, file.fd, None if mode is None else mode != "r"))
    return Descriptors({file: tuple(those) for file, those in found.items()}, None)

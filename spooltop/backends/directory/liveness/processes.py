"""The process table, as far as it can be seen from here. Everything that asks the kernel about a process goes through one object.

A missing ``/proc`` entry proves nothing (``hidepid``); only kill(2) with signal 0 tells whether a number is taken (proc(5)).
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from spooltop.engine.host import Machine, boot_id, this_machine
from spooltop.model.text import program_of

__all__ = ["Descriptor", "Descriptors", "Openers", "Process", "Processes"]

_FIRST_PID_NAMESPACE = 0xEFFFFFFC
_PID_AT_MOST = 1 << 22
_FAMILY_AT_MOST = 64


@dataclass(frozen=True, slots=True)
class Process:
    """``started`` is in seconds of CLOCK_BOOTTIME, ``since`` the same in epoch seconds by the clock of now; ``zombie``: it has
    ended and its parent has not taken notice; ``stopped`` is its state letter (proc(5)) where a signal (``T``) or a debugger
    (``t``) has stopped it. ``command``, ``user`` and ``since`` are None where nobody asked or may know."""

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
class Openers:
    """Processes that have some files open: (device, inode) → pids. ``all_seen`` is False where descriptors of others cannot be
    read."""

    by_file: Mapping[tuple[int, int], tuple[int, ...]]
    all_seen: bool


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Open descriptor. ``writing`` None: its flags could no longer be read."""

    pid: int
    number: int
    writing: bool | None


@dataclass(frozen=True, slots=True)
class Descriptors:
    """Same as ``Openers``, descriptor by descriptor."""

    by_file: Mapping[tuple[int, int], tuple[Descriptor, ...]]
    all_seen: bool


class Processes:
    """The table behind ``proc`` (a mount of procfs). Every answer is of this moment; nothing is kept."""

    def __init__(self, proc: str = "/proc", *, wall: Callable[[], float] = time.time) -> None:
        self._proc = proc
        self._wall = wall
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._boot_id = ""

    def wall(self) -> float:
        """The wall clock that the kernel stamps files with, epoch seconds."""
        return self._wall()

    def boottime(self) -> float:
        """CLOCK_BOOTTIME in seconds: runs on in suspend and never jumps."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def host(self) -> str:
        return socket.gethostname()

    def boot_id(self) -> str:
        """Empty where it is not told."""
        if not self._boot_id:
            self._boot_id = boot_id(self._proc)
        return self._boot_id

    def machine(self) -> Machine:
        """This machine, and the pid namespace of this process, as a presence file names them."""
        return Machine(self.host(), self.boot_id(), f"pid:[{self.namespace()}]", this_machine().machine_id)

    def namespace(self) -> int | None:
        """The inode of this process's pid namespace, None where it is not told."""
        try:
            return os.stat(f"{self._proc}/self/ns/pid").st_ino
        except OSError:
            return None

    def in_first_namespace(self) -> bool:
        """True where every process of the kernel has a number here, and ``proc`` is the table of this very namespace."""
        try:
            mine = os.readlink(f"{self._proc}/self") == str(os.getpid())
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

    def namesakes(self, pids: Iterable[int]) -> dict[int, list[Process]] | None:
        """All processes that have one of ``pids`` as their number in any pid namespace; None where some are hidden from here."""
        wanted = {str(pid) for pid in pids}
        found: dict[int, list[Process]] = {int(pid): [] for pid in wanted}
        try:
            numbers = [name for name in os.listdir(self._proc) if name.isdecimal()]
        except OSError:
            return None
        if "1" not in numbers:
            return None
        for number in numbers:
            try:
                with open(f"{self._proc}/{number}/status", "rb") as file:
                    status = file.read(16_384)
            except (FileNotFoundError, ProcessLookupError):
                continue  # ended while we looked
            except OSError:
                return None
            line = status.partition(b"\nNSpid:")[2].partition(b"\n")[0].decode()
            if not line:
                return None
            for field in set(line.split()) & wanted:
                found[int(field)].append(self.process(int(number)) or Process(int(number)))
        return found

    def process(self, pid: int, *, described: bool = False) -> Process | None:
        """Reads a process from ``/proc``; None where nothing is visible. ``described`` adds its command, user and start."""
        raw = self._bytes(f"{pid}/stat")
        if raw is None:
            return None
        fields = raw.rpartition(b")")[2].split()
        if len(fields) < 20:
            return None
        # The leader of a process may end before its other threads: then the process lives.
        zombie = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
        started = int(fields[19]) / self._ticks
        stopped = fields[0].decode() if fields[0] in (b"T", b"t") else ""
        if not described:
            return Process(pid, started, zombie, stopped=stopped)
        command, user, since = _described(pid)
        return Process(pid, started, zombie, command, user, since, stopped)

    def cpu(self, pid: int) -> tuple[tuple[int, float, float], ...] | None:
        """Returns the CPU time used by a process and all its living descendants: for each (pid, start in epoch seconds, CPU
        seconds so far, including those of children that ended). None where not all of it is visible."""
        import psutil  # the first process that is asked for pays the 20 ms

        family = [pid]
        used = []
        try:
            for member in family:  # grows while it is walked
                children = self._children(member)
                if children is None or len(family) + len(children) > _FAMILY_AT_MOST:
                    return None
                family += [child for child in children if child not in family]
                one = psutil.Process(member)
                with one.oneshot():
                    times = one.cpu_times()
                    total = times.user + times.system + times.children_user + times.children_system
                    used.append((member, one.create_time(), total))
        except psutil.Error:
            return None  # ended meanwhile, or closed to this user
        return tuple(used)

    def _children(self, pid: int) -> list[int] | None:
        """Children of all threads (proc(5) ``task/*/children``), None where the kernel does not list them."""
        found: list[int] = []
        try:
            threads = os.listdir(f"{self._proc}/{pid}/task")
        except OSError:
            return None
        for thread in threads:
            line = self._bytes(f"{pid}/task/{thread}/children")
            if line is None:
                return None
            found += [int(number) for number in line.split()]
        return found

    def files_of(self, pid: int) -> set[tuple[int, int]] | None:
        """Returns the files that a process has open, as (device, inode); None where its descriptors cannot be read."""
        folder = f"{self._proc}/{pid}/fd"
        found: set[tuple[int, int]] = set()
        try:
            descriptors = os.listdir(folder)
        except OSError:
            return None
        for descriptor in descriptors:
            try:
                there = os.stat(f"{folder}/{descriptor}")
            except OSError:
                continue  # closed meanwhile, or something that has no inode
            found.add((there.st_dev, there.st_ino))
        return found

    def locked_at(self, pid: int, number: int, inode: int) -> int | None:
        """Returns the file offset of a descriptor that is open for writing and holds a write lock on ``inode``; None for
        others."""
        at, writing, locked = None, False, False
        for line in (self._bytes(f"{pid}/fdinfo/{number}") or b"").splitlines():
            if line.startswith(b"pos:"):
                at = int(line[4:])
            elif line.startswith(b"flags:"):
                writing = int(line[6:], 8) & os.O_ACCMODE != os.O_RDONLY
            locked = locked or (line.startswith(b"lock:") and b" WRITE " in line and b":%d " % inode in line)
        return at if writing and locked else None

    def numbers(self, pid: int) -> tuple[int, ...]:
        """The numbers of a process, from the pid namespace of ``proc`` inwards (``NSpid:``); empty where they are not told."""
        status = self._bytes(f"{pid}/status") or b""
        line = status.partition(b"\nNSpid:")[2].partition(b"\n")[0]
        return tuple(int(number) for number in line.split())

    def seconds(self, ticks: int) -> float:
        """Clock ticks since boot, as a presence file has them, in seconds."""
        return ticks / self._ticks

    def openers(self, files: set[tuple[int, int]]) -> Openers:
        """Finds the processes that have one of ``files`` (device, inode) open. Reads every descriptor there is: call it
        rarely."""
        found, all_seen = self._opened(files)
        return Openers({key: tuple(dict.fromkeys(pid for pid, _ in those)) for key, those in found.items()}, all_seen)

    def descriptors(self, files: set[tuple[int, int]]) -> Descriptors:
        """The same with every descriptor and whether it is open for writing (``flags:`` of fdinfo)."""
        found, all_seen = self._opened(files)
        return Descriptors(
            {key: tuple(Descriptor(pid, fd, self._writing(pid, fd)) for pid, fd in those) for key, those in found.items()},
            all_seen,
        )

    def _writing(self, pid: int, fd: int) -> bool | None:
        for line in (self._bytes(f"{pid}/fdinfo/{fd}") or b"").splitlines():
            if line.startswith(b"flags:"):
                return int(line[6:], 8) & os.O_ACCMODE != os.O_RDONLY
        return None

    def _opened(self, files: set[tuple[int, int]]) -> tuple[dict[tuple[int, int], list[tuple[int, int]]], bool]:
        """(device, inode) → (pid, descriptor) of all that have it open, and whether every process could be asked."""
        found: dict[tuple[int, int], list[tuple[int, int]]] = {}
        all_seen = True
        try:
            numbers = [name for name in os.listdir(self._proc) if name.isdecimal()]
        except OSError:
            return {}, False
        if "1" not in numbers:
            all_seen = False
        for number in numbers:
            folder = f"{self._proc}/{number}/fd"
            try:
                descriptors = os.listdir(folder)
            except (FileNotFoundError, ProcessLookupError):
                continue
            except OSError:
                all_seen = False
                continue
            for descriptor in descriptors:
                try:
                    there = os.stat(f"{folder}/{descriptor}")
                except OSError:
                    continue  # closed meanwhile, or something that has no inode
                key = (there.st_dev, there.st_ino)
                if key in files:
                    found.setdefault(key, []).append((int(number), int(descriptor)))
        return found, all_seen

    def lock_lines(self, pid: int) -> list[bytes]:
        """The ``lock:`` lines of all descriptors of a process (fdinfo), empty where they cannot be read."""
        lines: list[bytes] = []
        try:
            descriptors = os.listdir(f"{self._proc}/{pid}/fdinfo")
        except OSError:
            return lines
        for descriptor in descriptors:
            text = self._bytes(f"{pid}/fdinfo/{descriptor}") or b""
            lines += [line[5:].strip() for line in text.splitlines() if line.startswith(b"lock:")]
        return lines

    def locks(self) -> bytes | None:
        """``/proc/locks``, read whole; None where there is none."""
        return self._bytes("locks", 1 << 26)

    def _bytes(self, path: str, limit: int = 65_536) -> bytes | None:
        try:
            with open(f"{self._proc}/{path}", "rb", buffering=0) as file:
                parts: list[bytes] = []
                while limit > 0 and (part := file.read(min(limit, 1 << 20))):
                    parts.append(part)
                    limit -= len(part)
                return b"".join(parts)
        except OSError:
            return None

    def _text(self, path: str) -> str | None:
        raw = self._bytes(path)
        return None if raw is None else raw.decode("ascii", "replace").strip()


def _described(pid: int) -> tuple[str | None, str | None, float | None]:
    """Command, user and start (epoch seconds) of a process, as far as they are visible to this user."""
    import psutil  # the first process that is named pays the 20 ms

    command = user = since = None
    try:
        one = psutil.Process(pid)
        with one.oneshot():
            since = one.create_time()
            command = one.name() or None
            user = one.username()
            command = program_of(one.cmdline()) or command
    except psutil.Error:
        return command, user, since  # it ended, or hides something: what was learnt until then is known
    return command, user, since

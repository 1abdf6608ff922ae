"""Reads ``/proc`` (proc(5)): what it tells about a process that psutil does not, or only at several times the cost.

Measured per process, on a machine with 408 of them, in µs of CPU: start in clock ticks, state and number of threads 14, by psutil
74; open files with their devices and inodes 17, by psutil 70, without those that were deleted or are in another mount namespace;
children 14, by psutil 6,900, as it reads every process. psutil has neither the numbers in pid namespaces nor the locks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from errno import ENOSYS, EPERM
from typing import NamedTuple

from spooltop.engine.system.host import PROC
from spooltop.engine.system.syscalls import cached_file_id

__all__ = ["FileId", "ProcFs", "ProcOwner", "ProcStat"]

FileId = tuple[int, int]
"""Device and inode of a file."""

_RSS = 21
"""Place of the resident set among the fields of ``stat`` that follow the name."""
_FIRST_PID_NAMESPACE, _FIRST_TIME_NAMESPACE = 0xEFFFFFFC, 0xEFFFFFFA
"""Inodes that the kernel gives to them, proc(5)."""


class ProcStat(NamedTuple):
    """``started`` in clock ticks since boot; ``stopped``: the state letter where a signal or a debugger has stopped it."""

    started: int
    zombie: bool
    stopped: str


class ProcUse(NamedTuple):
    """Use of the processor in clock ticks, of memory in pages; ``stat`` is the rest of that line."""

    cpu: int
    pages: int
    stat: ProcStat


class ProcOwner(NamedTuple):
    """Users and groups that the process ``pid`` acts for in any role (real, effective, saved, of the file system, supplementary),
    and the ``name`` that it gives itself. ``hides``: it lets nobody but root look into it, not even its own user (``dumpable`` of
    proc(5)), as a process does that was started by root and became this user, or one that keeps secrets."""

    pid: int
    uids: frozenset[int]
    gids: frozenset[int]
    name: str
    hides: bool


class Inotify(NamedTuple):
    """Files that a process watches by inotify(7), and how many instances and watches it has of those that its user may have."""

    files: set[FileId]
    instances: int
    watches: int


class ProcFs:
    """The procfs that is mounted at ``root``. A method returns None, or nothing, where that does not exist or is closed to this
    user, except those that say that they raise."""

    def __init__(self, root: str = PROC) -> None:
        self.root = root

    def exists(self) -> bool:
        """False on a system without procfs, where psutil has to answer."""
        return os.path.exists(f"{self.root}/self")

    def namespace(self) -> int | None:
        """The inode of the pid namespace of this process."""
        try:
            return os.stat(f"{self.root}/self/ns/pid").st_ino
        except OSError:
            return None

    def in_first_namespace(self) -> bool:
        """True in the first pid namespace, if ``root`` belongs to that very namespace."""
        try:
            mine = os.readlink(f"{self.root}/self") == str(os.getpid())
        except OSError:
            return False
        return mine and self.namespace() == _FIRST_PID_NAMESPACE

    def in_first_time_namespace(self) -> bool:
        """True in the first time namespace, and on a kernel that has no others."""
        try:
            return os.stat(f"{self.root}/self/ns/time").st_ino == _FIRST_TIME_NAMESPACE
        except OSError:
            return self.exists()

    def pids(self) -> list[int] | None:
        """The numbers of all processes that are shown."""
        try:
            return [int(name) for name in os.listdir(self.root) if name.isdecimal()]
        except OSError:
            return None

    def stat(self, pid: int) -> ProcStat | None:
        """Start and state of a process."""
        fields = self._stat_fields(pid)
        return None if fields is None else _stat_of(fields)

    def use(self, pid: int) -> ProcUse | None:
        """Returns what a process itself has used so far, its threads included, its children not."""
        fields = self._stat_fields(pid)
        if fields is None or len(fields) <= _RSS:
            return None
        return ProcUse(int(fields[11]) + int(fields[12]), int(fields[_RSS]), _stat_of(fields))

    def command_line(self, pid: int) -> str:
        """The arguments of a process, joined by blanks; "" where they are not visible."""
        words = os.fsdecode(self._bytes(f"{pid}/cmdline", 4_096) or b"").rstrip("\0")
        return words.replace("\0", " ")

    def numbers(self, pid: int) -> tuple[int, ...]:
        """The numbers of a process, from the pid namespace of ``root`` inwards (``NSpid:``). Raises ``OSError``."""
        return tuple(_status_numbers(self._status(pid), b"NSpid"))

    def owner(self, pid: int) -> ProcOwner:
        """The users and groups that a process acts for. Raises ``OSError``."""
        status = self._status(pid)
        groups = _status_numbers(status, b"Gid") + _status_numbers(status, b"Groups")
        name = status.partition(b"Name:\t")[2].partition(b"\n")[0]
        uids = frozenset(_status_numbers(status, b"Uid"))
        hides = os.stat(f"{self.root}/{pid}/fd").st_uid not in uids
        return ProcOwner(pid, uids, frozenset(groups), os.fsdecode(name), hides)

    def children(self, pid: int) -> list[int] | None:
        """The children of all threads of a process (``task/*/children``)."""
        found: list[int] = []
        try:
            threads = os.listdir(f"{self.root}/{pid}/task")
        except OSError:
            return None
        for thread in threads:
            line = self._bytes(f"{pid}/task/{thread}/children")
            if line is None:
                return None
            found += [int(number) for number in line.split()]
        return found

    def open_files(self, pid: int) -> Iterator[tuple[int, FileId]]:
        """Yields each descriptor of a process, with its file. Raises ``OSError`` if they cannot be listed or looked at. A process
        may have a file open on a network whose server is away, and must not stop whoever looks."""
        folder = f"{self.root}/{pid}/fd"
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

    def sockets(self, pid: int) -> set[int]:
        """The inodes of the sockets that a process has open; empty where this user may not look into it."""
        found: set[int] = set()
        folder = f"{self.root}/{pid}/fd"
        try:
            for descriptor in os.listdir(folder):
                try:
                    kind, _, inode = os.readlink(f"{folder}/{descriptor}").rstrip("]").partition(":[")
                except FileNotFoundError:
                    continue  # closed meanwhile
                if kind == "socket":
                    found.add(int(inode))
        except OSError:
            return set()
        return found

    def connection_inodes(self, connections: Collection[tuple[str, str]]) -> dict[int, tuple[str, str]]:
        """The TCP sockets of this network namespace with these ends (own, other; ``ADDRESS:PORT``), by inode."""
        wanted = {spelled: one for one in connections for spelled in _spelled_ends(one)}
        found: dict[int, tuple[str, str]] = {}
        for table in ("tcp", "tcp6") if wanted else ():
            for line in (self._bytes(f"net/{table}", 1 << 26) or b"").splitlines()[1:]:
                fields = line.split()
                if len(fields) > 9 and (one := wanted.get((fields[1], fields[2]))) is not None and fields[9] != b"0":
                    found[int(fields[9])] = one
        return found

    def inotify(self, pid: int) -> Inotify:
        """Reads what a process watches by inotify(7), from the ``inotify`` lines of fdinfo; devices as (major, minor) of the
        kernel make them. Raises ``OSError`` if its descriptors cannot be listed or looked at."""
        folder = f"{self.root}/{pid}/fd"
        found: set[FileId] = set()
        instances = watches = 0
        for descriptor in os.listdir(folder):
            try:
                if "inotify" not in os.readlink(f"{folder}/{descriptor}"):
                    continue
            except PermissionError:
                raise
            except OSError:
                continue  # closed meanwhile
            instances += 1
            for line in (self._bytes(f"{pid}/fdinfo/{descriptor}", 1 << 22) or b"").splitlines():
                fields = dict(part.partition(b":")[::2] for part in line.split()[1:]) if line.startswith(b"inotify ") else {}
                watches += bool(fields)
                if b"ino" in fields and b"sdev" in fields:
                    device = int(fields[b"sdev"], 16)
                    found.add((os.makedev(device >> 20, device & 0xFFFFF), int(fields[b"ino"], 16)))
        return Inotify(found, instances, watches)

    def inotify_limits(self) -> tuple[int, int] | None:
        """The maximum numbers of inotify instances and of watches of a user; None where they cannot be read."""
        texts = [self._bytes(f"sys/fs/inotify/max_user_{what}") for what in ("instances", "watches")]
        return None if None in texts else (int(texts[0] or 0), int(texts[1] or 0))

    def is_writing(self, pid: int, fd: int) -> bool | None:
        """Tells whether a descriptor is open for writing (``flags:`` of fdinfo)."""
        return self._position(pid, fd)[1]

    def locked_at(self, pid: int, fd: int, inode: int) -> int | None:
        """The file offset of a descriptor that is open for writing and holds a write lock on ``inode``; None for others."""
        at, writing, locks = self._position(pid, fd)
        return at if writing and any(b" WRITE " in line and b":%d " % inode in line for line in locks) else None

    def lock_lines(self, pid: int) -> list[bytes]:
        """The ``lock:`` lines of all descriptors of a process (fdinfo)."""
        try:
            descriptors = os.listdir(f"{self.root}/{pid}/fdinfo")
        except OSError:
            return []
        return [line for fd in descriptors for line in self._position(pid, int(fd))[2]]

    def locks(self) -> bytes | None:
        """The table of all locks, ``/proc/locks``, read whole."""
        return self._bytes("locks", 1 << 26)

    def _position(self, pid: int, fd: int) -> tuple[int | None, bool | None, list[bytes]]:
        """File offset, whether it is open for writing, and the locks of a descriptor."""
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
        with open(f"{self.root}/{pid}/status", "rb") as file:
            return file.read(1 << 20)  # a process may be in 65,536 groups

    def _stat_fields(self, pid: int) -> list[bytes] | None:
        fields = (self._bytes(f"{pid}/stat") or b"").rpartition(b")")[2].split()
        return fields if len(fields) >= 20 else None

    def _bytes(self, path: str, limit: int = 65_536) -> bytes | None:
        try:
            with open(f"{self.root}/{path}", "rb", buffering=0) as file:
                parts: list[bytes] = []
                while limit > 0 and (part := file.read(min(limit, 1 << 20))):
                    parts.append(part)
                    limit -= len(part)
                return b"".join(parts)
        except OSError:
            return None


def _spelled_ends(connection: tuple[str, str]) -> list[tuple[bytes, bytes]]:
    """The ends of a connection as the tables of the kernel spell them; an IPv4 one may also belong to a socket of IPv6. Empty for
    what is no address of either."""
    import socket  # a look at a directory does without it

    ends = [end.rpartition(":") for end in connection]
    try:
        packed = [(socket.inet_pton(socket.AF_INET, host), int(port)) for host, _, port in ends]
        forms = [packed, [(b"\0" * 10 + b"\xff\xff" + host, port) for host, port in packed]]
    except (OSError, ValueError):
        try:
            forms = [[(socket.inet_pton(socket.AF_INET6, host.strip("[]")), int(port)) for host, _, port in ends]]
        except (OSError, ValueError):
            return []
    return [(_spelled_end(*own), _spelled_end(*other)) for own, other in forms]


def _spelled_end(address: bytes, port: int) -> bytes:
    words = (int.from_bytes(address[at : at + 4], sys.byteorder) for at in range(0, len(address), 4))
    return b"".join(b"%08X" % word for word in words) + b":%04X" % port


def _status_numbers(status: bytes, name: bytes) -> list[int]:
    """The numbers of the line ``name`` of a ``status`` file."""
    return [int(number) for number in status.partition(b"\n%s:" % name)[2].partition(b"\n")[0].split()]


def _stat_of(fields: list[bytes]) -> ProcStat:
    # The leader of a process may end before its other threads: then the process lives.
    zombie = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
    return ProcStat(int(fields[19]), zombie, fields[0].decode() if fields[0] in (b"T", b"t") else "")


def _file_id(path: str) -> FileId:
    """The file that a descriptor is open on."""
    try:
        return cached_file_id(path)
    except OSError as error:
        if error.errno not in (ENOSYS, EPERM):  # before Linux 4.11, and where a container forbids what its list does not know
            raise
    found = os.stat(path)
    return found.st_dev, found.st_ino

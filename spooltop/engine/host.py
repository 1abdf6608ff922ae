"""Identity of this process and this machine: host, boot, pid namespace, start of a process, kind of file system."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from spooltop.model import ClaimLost, Frozen, parse_mounts

# Forks: what a process holds stays its own, and its children begin anew.

_T = TypeVar("_T")
_told: weakref.WeakKeyDictionary[object, Callable[[object], None]] = weakref.WeakKeyDictionary()


def tell_in_children(thing: _T, forked: Callable[[_T], None]) -> None:
    """Has ``forked(thing)`` called in each forked child, as long as ``thing`` exists. It forgets what the parent holds, and
    renews locks that a thread of the parent may have held."""
    _told[thing] = forked  # type: ignore[assignment]  # it is called with this object only


def is_its_child(done: str, pid: int | None) -> str:
    """Says why a child may not go on with what its parent did.

    >>> is_its_child("claimed", 4312)
    'claimed by pid 4312; this is its child'
    """
    return f"{done} by pid {pid}; this is its child"


def iterated_by(pid: int, path: str) -> ClaimLost:
    """Builds the error for an iteration over claims that the process ``pid`` began and a child goes on with: the child would be
    a consumer that nobody started."""
    what = f"the claims are {is_its_child('iterated', pid)}"
    return ClaimLost(what, "leave the loop; a child claims by calls of its own", path=path)


def _in_child() -> None:
    for thing, forked in list(_told.items()):
        forked(thing)


os.register_at_fork(after_in_child=_in_child)


PROC = "/proc"
"""The procfs of Linux. Other systems have none: what only it shows is then unknown."""

LOCAL = frozenset((
    "ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "ramfs", "zfs", "f2fs", "bcachefs", "overlay", "jfs", "reiserfs", "nilfs2",
    "vfat", "exfat", "ntfs3", "fuseblk", "fuse.lxcfs",
))  # fmt: skip
"""File systems that one machine mounts. Every other kind, known or not, another machine may have mounted too, and then a boot
id or a pid says nothing certain: a kind that is missing here costs a verdict, one too many would cost a message."""

MOUNTED_ONCE = frozenset(("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "jfs", "reiserfs", "nilfs2"))
"""File systems of a disk: all mounts of one at a time share its files, so that a lock is met through each of them."""

ORDERED = frozenset(("ext3", "ext4", "xfs", "tmpfs", "ramfs"))
"""File systems that keep the order of name changes over a power failure: a sync of one directory includes all earlier
changes. btrfs does not. For a kind missing here, one more directory is synced; a kind listed by mistake would bring back
acked messages."""


class Machine(Frozen):
    """Machine on which a process runs. ``boot_id`` and ``pid_ns`` are empty if ``/proc`` does not show them, ``machine_id`` is
    empty if the machine has none (machine-id(5); many containers)."""

    host: str
    boot_id: str
    pid_ns: str
    machine_id: str = ""


@cache
def this_machine() -> Machine:
    return Machine(
        os.uname().nodename, boot_id(), _link(f"{PROC}/self/ns/pid"), _machine_id()
    )


def boot_id(proc: str = PROC) -> str:
    """The id of this boot of the machine, empty if ``proc`` (a mount of procfs) does not show it."""
    return _read(f"{proc}/sys/kernel/random/boot_id")


def sees_all_pids() -> bool:
    """True in the first pid namespace, from which every process of the machine has a number (pid_namespaces(7))."""
    return this_machine().pid_ns == "pid:[4026531836]"


def command_line() -> str:
    """Returns the command line of this process, the program without its directory; at most 200 characters."""
    program, *words = sys.orig_argv or ["?"]
    return " ".join((os.path.basename(program), *words))[:200]


def command_of(pid: int) -> str:
    """Returns the command line of the process ``pid`` in the form of ``command_line``; empty if the process is gone or its
    command line is not readable."""
    try:
        with open(f"{PROC}/{pid}/cmdline", "rb") as file:
            program, *words = os.fsdecode(file.read(4096)).rstrip("\0").split("\0")
    except OSError:
        return ""
    return " ".join((os.path.basename(program), *words))[:200]


def flock_holders(fd: int) -> list[int]:
    """The pids of the processes that took a ``flock`` on the file of ``fd`` and, or a child of theirs, still hold it; as far as
    they are visible from here (proc_locks(5))."""
    from spooltop.model.proc import parse_locks  # needed only after a lock was waited for in vain

    found = os.fstat(fd)
    device = os.major(found.st_dev), os.minor(found.st_dev)
    try:
        with open(f"{PROC}/locks", "rb") as table:
            lines = parse_locks(table.read())
    except OSError:
        return []
    same = [line for line in lines if line.kind == "flock" and not line.waits and line.inode == found.st_ino]
    here = [line for line in same if line.device == device] or same  # btrfs reports the device of another layer
    return [line.pid for line in here if line.pid > 0]


def is_gone(pid: int) -> bool:
    """True if no process has this pid here; one that may not be sent a signal is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return False


def process_start(pid: int) -> int | None:
    """Returns the start time of a process, in clock ticks since boot (proc(5) ``stat`` field 22); None if unknown."""
    try:
        with open(f"{PROC}/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def file_system(fd: int) -> str:
    """Returns the kind of file system that ``fd`` is on ("ext4", "nfs4"), "?" if unknown.

    The lookup uses the number of its mount (proc(5) ``fdinfo``, ``mountinfo``): the device does not suffice, as btrfs gives each
    subvolume another one.
    """
    number = mount_number(fd)
    try:
        with open(f"{PROC}/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
            return next(mount.fs_type for mount in parse_mounts(table) if mount.number == number)
    except (OSError, ValueError, IndexError, StopIteration):
        return "?"


def mount_number(fd: int) -> int | None:
    """Returns the number of the mount that ``fd`` was opened through; None if unknown."""
    try:
        with open(f"{PROC}/self/fdinfo/{fd}", encoding="utf-8") as info:
            return next(int(line.split()[1]) for line in info if line.startswith("mnt_id:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def lacks_journal(fd: int) -> bool:
    """True if ``fd`` is on an ext4 without a journal, as far as sysfs shows it."""
    device = os.fstat(fd).st_dev
    name = os.path.basename(_link(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"))
    return _read(f"/sys/fs/ext4/{name}/journal_task") == "<none>"


def is_network(kind: str) -> bool:
    """True if other machines may have a file system of this kind mounted, as far as its type shows."""
    return kind not in LOCAL


def _machine_id() -> str:
    """Returns the machine id; empty if there is none yet: images for many machines ship an empty file, or one that says
    "uninitialized"."""
    id = _read("/etc/machine-id")
    return id if len(id) == 32 and set(id) <= set("0123456789abcdef") else ""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""

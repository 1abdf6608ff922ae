"""What this process and this machine are called: host, boot, pid namespace, start of a process, kind of file system."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cache

__all__ = ["NETWORK", "Machine", "command_line", "file_system", "is_network", "process_start", "sees_all_pids", "this_machine"]

NETWORK = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "lustre", "afs", "gfs2", "ocfs2", "beegfs")
)
"""File systems that several machines mount: a lock or a boot id of another machine says nothing certain there."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a process runs. ``boot_id`` and ``pid_ns`` are empty where ``/proc`` does not tell."""

    host: str
    boot_id: str
    pid_ns: str


@cache
def this_machine() -> Machine:
    return Machine(os.uname().nodename, _read("/proc/sys/kernel/random/boot_id"), _link("/proc/self/ns/pid"))


def sees_all_pids() -> bool:
    """True in the first pid namespace, from which every process of the machine has a number (pid_namespaces(7))."""
    return this_machine().pid_ns == "pid:[4026531836]"


def command_line() -> str:
    """What this process was started as, the program without its directory; at most 200 characters."""
    program, *words = sys.orig_argv or ["?"]
    return " ".join((os.path.basename(program), *words))[:200]


def process_start(pid: int) -> int | None:
    """When a process started, in clock ticks since boot (proc(5) ``stat`` field 22); None where not told."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def file_system(fd: int) -> str:
    """The kind of file system that ``fd`` is on ("ext4", "nfs4"), "?" where not told (proc(5) ``mountinfo``)."""
    device = os.fstat(fd).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    kind = "?"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                before, _, after = line.partition(" - ")
                if before.split(" ", 3)[2] == wanted:
                    kind = after.split(" ", 1)[0]
    except (OSError, IndexError):
        return "?"
    return kind


def is_network(kind: str) -> bool:
    return kind in NETWORK or (kind.startswith("fuse.") and kind != "fuse.lxcfs")


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""

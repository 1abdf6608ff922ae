"""Finds the file system of a descriptor: type, device, read-only. Source: ``/proc/self/mountinfo`` and fdinfo, proc(5)."""

from __future__ import annotations

import os
import re

from spooltop.engine.system import host
from spooltop.model.proc import parse_mounts
from spooltop.records import dataclass

__all__ = ["Mount", "changes_unseen", "is_local", "mount_of", "parse_mountinfo", "sends_no_events"]


@dataclass(frozen=True, slots=True)
class Mount:
    """Mount from a line of mountinfo. ``device`` is (major, minor) as ``/proc/locks`` prints it, also where ``st_dev`` differs
    (btrfs). ``readonly`` says that no mount of the file system can be written."""

    number: int
    device: tuple[int, int]
    mountpoint: str
    fs_type: str
    readonly: bool


def parse_mountinfo(text: str) -> dict[int, Mount]:
    """Returns the mounts by their number."""
    mounts = (Mount(*fields) for fields in parse_mounts(text.splitlines()))
    return {mount.number: mount for mount in mounts}


def mount_of(fd: int, proc: str = host.PROC) -> Mount | None:
    """Returns the mount of the open ``fd``; None if the kernel does not report it (no ``/proc``)."""
    try:
        with open(os.path.join(proc, "self", "fdinfo", str(fd)), encoding="utf-8") as file:
            info = file.read()
        with open(os.path.join(proc, "self", "mountinfo"), encoding="utf-8", errors="surrogateescape") as file:
            table = file.read()
    except OSError:
        return None
    found = re.search(r"^mnt_id:\s*(\d+)", info, re.MULTILINE)
    return parse_mountinfo(table).get(int(found.group(1))) if found else None


def is_local(mount: Mount | None) -> bool:
    """True if, by its type, only this machine can have the file system mounted."""
    return mount is not None and not host.is_network(mount.fs_type)


def sends_no_events(mount: Mount | None) -> bool:
    """True if changes by other machines cause no inotify event: network and FUSE file systems."""
    return mount is not None and host.is_network(mount.fs_type)


def changes_unseen(mount: Mount | None) -> bool:
    """True if a directory may change without an event and without a new mtime: if other machines change it, if a FUSE program
    keeps no times, and in an overlay, whose times are those of the upper layer, for names in a lower one."""
    return sends_no_events(mount) or (mount is not None and mount.fs_type == "overlay")

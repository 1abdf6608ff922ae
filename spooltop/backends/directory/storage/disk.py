"""Free space on the disk, and the user who runs this."""

from __future__ import annotations

import os
import re
import stat

from msgspec import Struct

from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.system import host
from spooltop.model.backend import Capabilities
from spooltop.model.look.observation import Disk, Viewer
from spooltop.model.proc import parse_mounts
from spooltop.model.text import escape
from spooltop.model.vocabulary import Action, Box

from ...access import group_name, user_name

# Finds the file system of a descriptor: type, device, read-only. Source: ``/proc/self/mountinfo`` and fdinfo, proc(5).


class Mount(Struct, frozen=True):
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


_CHANGES = (Action.REQUEUE, Action.PURGE, Action.INJECT)
_REMOVABLE = {"tickets": "tickets", "locks": "stale locks"}
"""Objects that can be removed where nothing else can, by layout."""


def disk_of(fd: int, mount: Mount | None, dirs: SpoolDirs | None = None) -> Disk:
    """Reads statvfs(3) of the file system of ``fd``: f_bavail and f_favail count for users, root has a little more."""
    kind = mount.fs_type if mount is not None else "?"
    try:
        free = os.fstatvfs(fd)
    except OSError:
        return Disk(fs_type=kind)
    readonly = bool(free.f_flag & os.ST_RDONLY)
    unit = free.f_frsize or free.f_bsize
    inodes = free.f_files > 0  # btrfs has no inode table and says 0
    return Disk(
        fs_type=kind,
        bytes_free=free.f_bavail * unit,
        bytes_total=free.f_blocks * unit,
        inodes_free=free.f_favail if inodes else None,
        inodes_total=free.f_files if inodes else None,
        readonly=readonly,
        readonly_here=readonly and mount is not None and not mount.readonly,
        root_bytes_free=free.f_bfree * unit,
        apart=() if dirs is None else dirs.apart,
    )


def _closed(dirs: SpoolDirs | None) -> str:
    """Names a box that this user may not change, with its owner and mode; empty where there is none."""
    for box, fd in ((Box.CUR, dirs.cur), (Box.NEW, dirs.new)) if dirs is not None else ():
        if fd is not None and not os.access(".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=True):
            found = os.fstat(fd)
            owner = f"{user_name(found.st_uid)}:{group_name(found.st_gid)}"
            return f"{box} is {escape(owner)} {stat.S_IMODE(found.st_mode):04o}"
    return ""


def who_am_i(capabilities: Capabilities, *, read_only: str | None, dirs: SpoolDirs | None = None, layout: str = "") -> Viewer:
    """Returns the user who runs this and their rights in words: "read-write", "read-only: cur is memex:memex 0750"."""
    uid = os.geteuid()
    if read_only:
        words = "READ-ONLY"
    elif not any(action in capabilities.refusals for action in _CHANGES):
        words = "read-write"
    elif capabilities.change:
        words = "read-write" if layout == "layout" else "read-write in part"
    elif dirs is None and capabilities.why_not(Action.SET_CURSOR) is None:
        words = "read-write: cursors can be set"
    elif layout in _REMOVABLE and capabilities.why_not(Action.UNLOCK) is None:
        words = f"read-write: {_REMOVABLE[layout]} can be removed"
    else:
        why = _closed(dirs)
        words = f"read-only: {why}" if why else "read-only"
    return Viewer(user_name(uid), uid, words)

"""The file system of a spool, its free space, the user who runs this, and the directories of the spool, kept open."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, suppress

from msgspec import Struct

from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.system import host
from spooltop.model import LIVE, Action, Box, Capabilities, Disk, Mount, Viewer, escape, parse_mounts

from ...access import group_name, user_name
from ..world import System

OpenFolder = tuple[str, int]
"""A folder: its path, and a descriptor."""

# Finds the file system of a descriptor: type, device, read-only. Source: ``/proc/self/mountinfo`` and fdinfo, proc(5).


def mount_of(fd: int) -> Mount | None:
    """Returns the mount of the open ``fd``; None if the kernel does not report it (no ``/proc``)."""
    try:
        number = host.mount_number(fd)
        return next((mount for mount in mounts() if mount.number == number), None)
    except OSError:
        return None


def mounts() -> Iterator[Mount]:
    """Yields the mounts that this process sees; none if the kernel does not report them (no ``/proc``)."""
    with suppress(OSError), open(f"{host.PROC}/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        yield from parse_mounts(file)


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


# Keeps the directories of a spool open as long as their names lead to them, and reopens them when they lead elsewhere.

_MOUNT_FOR = 5.0


class OpenSpool(Struct):
    """Descriptors of one spool and of its parent directory, and its mount."""

    path: str
    _world: System
    dirs: SpoolDirs | None = None
    _parent: int = -1
    _mount: tuple[float, Mount | None] | None = None

    def open(self) -> tuple[SpoolDirs, bool]:
        """Returns the open directories, and True if they were opened just now. Raises ``OSError`` if the spool is gone or
        closed."""
        dirs = self.dirs
        if dirs is not None:
            if _same(dirs):
                return dirs, False
            self.close()
        self.dirs = dirs = SpoolDirs(self.path, self._world.files)
        self._mount = None
        try:
            parent = os.path.dirname(self.path)
            if parent != self.path:
                self._parent = self._world.files.open_dir(parent, follow=True)
        except OSError:
            self._parent = -1  # the parent may be closed to us; then no locks or cursors beside the spool are shown
        return dirs, True

    def mount(self, dirs: SpoolDirs) -> Mount | None:
        """Returns the mount of the spool. It is looked up every few seconds, because it may become read-only."""
        at = self._world.monotonic()
        if self._mount is None or at - self._mount[0] >= _MOUNT_FOR:
            self._mount = (at, mount_of(dirs.root))
        return self._mount[1]

    def folders(self, dirs: SpoolDirs) -> list[OpenFolder]:
        """Returns (path, descriptor) of the spool and of its parent directory, where locks and cursors are looked for."""
        found = [(self.path, dirs.root)]
        if self._parent >= 0:
            found.append((os.path.dirname(self.path), self._parent))
        return found

    def boxes(self, dirs: SpoolDirs) -> dict[Box, OpenFolder]:
        """Returns (path, descriptor) of each box that is open."""
        return {box: (os.path.join(self.path, box), dirs.box(box)) for box in LIVE if box not in dirs.errors}

    def status(self, box: Box, name: str) -> os.stat_result | None:
        """Returns the lstat(2) of a name in a box; None if it is not there or cannot be seen."""
        try:
            return None if self.dirs is None else os.lstat(name, dir_fd=self.dirs.box(box))
        except OSError:
            return None

    def close(self) -> None:
        with ExitStack() as both:
            if self._parent >= 0:
                both.callback(os.close, self._parent)
            if self.dirs is not None:
                both.callback(self.dirs.close)
            self._parent, self.dirs = -1, None


def _same(dirs: SpoolDirs) -> bool:
    """True if every name still leads to the open directory, and what was missing is still missing."""
    if dirs.moved() or not all(_still_closed(dirs, box) for box in dirs.swapped()):
        return False
    try:
        own = dirs.private_dir()
    except OSError:
        return True  # something beside the boxes is not of the engine
    return own is None or os.fstat(own).st_nlink > 0


def _still_closed(dirs: SpoolDirs, box: Box) -> bool:
    """True where a box could not be opened before and could not be now for the same reason."""
    error = dirs.errors.get(box)
    if error is None:
        return False
    try:
        fd = dirs.files.open_dir(box.value, dirs.root)
    except OSError as problem:
        return problem.errno == error.errno
    dirs.files.close(fd)
    return False

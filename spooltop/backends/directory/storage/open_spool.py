"""Keeps the directories of a spool open as long as their names lead to them, and reopens them when they lead elsewhere."""

from __future__ import annotations

import os

from spooltop.engine.dirs import SpoolDirs
from spooltop.model.vocabulary import Box

from ..world import System
from .disk import Mount, mount_of

_MOUNT_FOR = 5.0


class OpenSpool:
    """Descriptors of one spool and of its parent directory, and its mount."""

    def __init__(self, path: str, world: System) -> None:
        self.path = path
        self.dirs: SpoolDirs | None = None
        self._world = world
        self._parent = -1
        self._mount: tuple[float, Mount | None] | None = None

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
                self._parent = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            self._parent = -1  # the parent may be closed to us; then no locks or cursors beside the spool are shown
        return dirs, True

    def mount(self, dirs: SpoolDirs) -> Mount | None:
        """Returns the mount of the spool. It is looked up every few seconds, because it may become read-only."""
        at = self._world.monotonic()
        if self._mount is None or at - self._mount[0] >= _MOUNT_FOR:
            self._mount = (at, mount_of(dirs.root))
        return self._mount[1]

    def folders(self, dirs: SpoolDirs) -> list[tuple[str, int]]:
        """Returns (path, descriptor) of the spool and of its parent directory, where locks and cursors are looked for."""
        found = [(self.path, dirs.root)]
        if self._parent >= 0:
            found.append((os.path.dirname(self.path), self._parent))
        return found

    def boxes(self, dirs: SpoolDirs) -> dict[Box, tuple[str, int]]:
        """Returns (path, descriptor) of each box that is open."""
        opened = {Box.TMP: dirs.tmp, Box.NEW: dirs.new, Box.CUR: dirs.cur}
        return {box: (os.path.join(self.path, box.value), fd) for box, fd in opened.items() if fd is not None}

    def status(self, box: Box, name: str) -> os.stat_result | None:
        """Returns the lstat(2) of a name in a box; None if it is not there or cannot be seen."""
        dirs = self.dirs
        fd = None if dirs is None else dirs.new if box is Box.NEW else dirs.cur if box is Box.CUR else dirs.tmp
        if fd is None:
            return None
        try:
            return os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError:
            return None

    def has(self, box: Box, name: str) -> bool:
        """True if a name is in a box now."""
        return self.status(box, name) is not None

    def close(self) -> None:
        parent, self._parent = self._parent, -1
        dirs, self.dirs = self.dirs, None
        try:
            if dirs is not None:
                dirs.close()
        finally:
            if parent >= 0:
                os.close(parent)


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

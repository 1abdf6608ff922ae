"""Staging directories: ``.spooltop/stage/<folder>/``. Files in them are drafts like those in ``tmp``.

An ext4 without a journal passes over each inode that was freed within the last minutes, one by one, at every create in the same
block group. A spool through which much goes frees as many inodes as it takes, and with all drafts in ``tmp`` a put soon costs ten
times as much. The directory decides in which block group the inode of a new file is looked for. So a producer that puts many
messages takes one staging directory after the other, which ext4 spreads over its block groups. They are made when they are first
needed, shared by all producers, and never removed. Elsewhere a draft is in ``tmp``, as are the first ones of each process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from weakref import WeakSet

from spooltop.errors import SpooltopError

from ..dirs import STAGE, SpoolDirs

__all__ = ["DraftDir", "Staging"]

_FOLDERS = 256
"""Number of staging directories. Measured: with 64 the inodes freed in a minute cost half of the speed again."""
_EACH = 256
"""Number of drafts after which a producer goes on to the next directory. The first use of a block group may have to read from the
disk; the inodes that are freed while a producer stays cost more the longer it does."""
_IN_TMP = 32
"""Number of drafts in ``tmp`` after which a producer takes a staging directory."""
_OPEN_AT_MOST = 32
"""Number of directories that drafts of one producer may be in at a time: a large group commit has many drafts."""


class DraftDir:
    """An open directory for drafts; ``left`` is the number of drafts until the next directory. A staging directory is closed when
    nothing refers to this object any more."""

    __slots__ = ("__weakref__", "_close", "fd", "left")

    def __init__(self, fd: int, left: float, close: Callable[[int], None] | None = None) -> None:
        self.fd = fd
        self.left = left
        self._close = close

    def __del__(self) -> None:
        if self._close is not None:
            try:
                self._close(self.fd)
            except OSError:
                return  # a directory is only read: a close that reports an error loses nothing, and here nobody hears of it


class Staging:
    """Chooses the directory for each draft of one process, on the spool of ``dirs``. Thread-safe: at worst two threads open the
    next directory each."""

    def __init__(self, dirs: SpoolDirs) -> None:
        self._dirs = dirs
        self._tmp = dirs.tmp if dirs.tmp is not None else -1
        self._current = DraftDir(self._tmp, _IN_TMP)
        self._opened: WeakSet[DraftDir] = WeakSet()
        self._wanted: bool | None = None
        self._number = int.from_bytes(os.urandom(2))  # not the same for all producers

    def take(self) -> DraftDir:
        """Returns the directory for the next draft."""
        current = self._current
        current.left -= 1
        return current if current.left >= 0 else self._next(current)

    def use_tmp(self) -> DraftDir:
        """Goes back to ``tmp`` for a while: a staging directory was removed, or may not be written any more."""
        self._current = DraftDir(self._tmp, _IN_TMP)
        return self._current

    def _next(self, current: DraftDir) -> DraftDir:
        if self._wanted is None:
            self._wanted = self._dirs.files.reuses_inodes_late(self._tmp)
        if not self._wanted:
            current.left = float("inf")
        elif len(self._opened) >= _OPEN_AT_MOST:
            current.left = _EACH
        else:
            try:
                self._current = current = self._open()
            except (OSError, SpooltopError):
                return self.use_tmp()  # a put needs no staging directory
        return current

    def _open(self) -> DraftDir:
        dirs, files = self._dirs, self._dirs.files
        above = dirs.private_dir(STAGE, create=True)
        assert above is not None  # create=True makes it or raises
        self._number = (self._number + 1) % _FOLDERS
        name = f"{self._number:02x}"
        try:
            fd = files.open_dir(name, above)
        except FileNotFoundError:
            files.spread_directories(above)
            dirs.make_dir(name, above, durable=False)
            fd = files.open_dir(name, above)
        opened = DraftDir(fd, _EACH - 1, files.close)
        self._opened.add(opened)
        return opened

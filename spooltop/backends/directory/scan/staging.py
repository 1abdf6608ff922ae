"""Lists the staging directories of a spool: their files count as ``tmp``.

Nearly all of them are empty at nearly all times, so that a look costs one ``lstat`` for each that has not changed.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from spooltop.engine.dirs import STAGE, SpoolDirs
from spooltop.records import replace

from ...journal.log_files import OPERATION
from ..storage.location import in_folder
from ..world import World
from .scan import BoxScan

__all__ = ["StagingScanner"]

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDERS_AT_MOST = 4_096
_COARSE = 0.02
"""Seconds after a change in which another may leave the same mtime: kernels before 6.13 stamp directories by the tick."""


class _Listed(NamedTuple):
    """The names in a directory when it had this inode and mtime (ns)."""

    generation: tuple[int, int]
    names: tuple[str, ...]


class StagingScanner:
    """Keeps what it has listed until the directory changes."""

    def __init__(self, world: World) -> None:
        self._clock = world.clock
        self._above: _Listed | None = None
        self._folders: dict[str, _Listed] = {}

    def add_to(self, scan: BoxScan, dirs: SpoolDirs, *, unseen: bool) -> BoxScan:
        """Returns the scan of ``tmp`` with the files in staging directories, not ``complete`` where one could not be listed.
        ``unseen``: the file system does not report all changes."""
        if scan.error:
            return scan
        since = float("-inf") if unseen else self._clock() - _COARSE
        try:
            above = dirs.private_dir(STAGE)
            if above is None:
                return scan
            complete = self._look(above, since)
        except OSError:
            self._folders = {}
            complete = False
        staged = tuple(in_folder(name, folder) for folder, listed in self._folders.items() for name in listed.names)
        return replace(scan, staged=staged, complete=scan.complete and complete)

    def stamps(self, dirs: SpoolDirs) -> tuple[int, ...]:
        """The times of the last change of the directories that were there at the last look. Raises ``OSError``."""
        above = dirs.private_dir(STAGE) if self._folders else None
        return tuple(os.stat(folder, dir_fd=above, follow_symlinks=False).st_ctime_ns for folder in self._folders)

    def _look(self, above: int, since: float) -> bool:
        """Lists what has changed, or may have changed ``since``. False where something could not be listed."""
        self._above = _current(self._above, os.fstat(above), since) or _list(".", above)
        folders = [name for name in self._above.names if OPERATION.match(name)]
        complete = len(folders) <= _FOLDERS_AT_MOST
        listed: dict[str, _Listed] = {}
        for folder in folders[:_FOLDERS_AT_MOST]:
            try:
                status = os.stat(folder, dir_fd=above, follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):  # anything else is nothing of ours
                    listed[folder] = _current(self._folders.get(folder), status, since) or _list(folder, above)
            except FileNotFoundError:
                continue  # removed meanwhile
            except OSError:
                complete = False
        self._folders = listed
        return complete


def _current(known: _Listed | None, status: os.stat_result, since: float) -> _Listed | None:
    """Returns what is ``known`` of a directory, if it has not changed."""
    same = known is not None and known.generation == _generation(status) and status.st_mtime < since
    return known if same else None


def _list(name: str, above: int) -> _Listed:
    fd = os.open(name, _FLAGS, dir_fd=above)  # a descriptor of its own: the offset of a shared one is moved by whoever lists
    try:
        generation = _generation(os.fstat(fd))
        return _Listed(generation, tuple(sorted(found for found in os.listdir(fd) if not found.startswith("."))))
    finally:
        os.close(fd)


def _generation(status: os.stat_result) -> tuple[int, int]:
    return status.st_ino, status.st_mtime_ns

"""Looks up names as they are now. A name that cannot be seen is a result, not an error."""

from __future__ import annotations

import os

from spooltop.engine.system.files import Files

from .folders import Folder

__all__ = ["NameLookup"]


class NameLookup:
    """Lookups that never raise ``OSError``."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._ordered: dict[int, bool] = {}

    def status(self, name: str, dir_fd: int) -> os.stat_result | None:
        """Returns the status of the file under that name; None where it is not there or not visible."""
        try:
            return self._files.stat(name, dir_fd)
        except OSError:
            return None

    def there(self, name: str, dir_fd: int) -> bool | None:
        """Returns whether anything exists under that name; None where that cannot be seen."""
        try:
            self._files.stat(name, dir_fd)
        except FileNotFoundError:
            return False
        except OSError:
            return None
        return True

    def inode(self, name: str, dir_fd: int) -> int | None:
        found = self.status(name, dir_fd)
        return None if found is None else found.st_ino

    def ctime_ns(self, name: str, dir_fd: int, ino: int) -> int:
        """Returns the ctime (ns) of the file ``ino`` under that name; 0 where a consumer was quicker and the file has already
        moved on."""
        found = self.status(name, dir_fd)
        return found.st_ctime_ns if found is not None and found.st_ino == ino else 0

    def ordered(self, folder: Folder) -> bool:
        """Returns whether a sync of this directory makes earlier changes of names durable in the others of its device."""
        device = folder.id[0]
        if device not in self._ordered:
            try:
                self._ordered[device] = self._files.ordered(folder.fd)
            except OSError:
                return False  # not known, so the order is not relied on
        return self._ordered[device]

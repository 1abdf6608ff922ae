"""What stands under a name right now, where not to see it is an answer too."""

from __future__ import annotations

from spooltop.engine.files import Files

__all__ = ["Sight"]


class Sight:
    """Nothing here raises ``OSError``."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def there(self, name: str, dir_fd: int) -> bool | None:
        """Whether there is anything under that name; None where it is not to be seen."""
        try:
            self._files.stat(name, dir_fd)
        except FileNotFoundError:
            return False
        except OSError:
            return None
        return True

    def inode(self, name: str, dir_fd: int) -> int | None:
        try:
            return self._files.stat(name, dir_fd).st_ino
        except OSError:
            return None  # not there, or not to be seen: then it is not known to be there

    def ctime_ns(self, name: str, dir_fd: int, ino: int) -> int:
        """Where a consumer was quicker the file has gone on already: 0."""
        try:
            found = self._files.stat(name, dir_fd)
        except OSError:
            return 0
        return found.st_ctime_ns if found.st_ino == ino else 0

    def ordered(self, fd: int) -> bool:
        try:
            return self._files.ordered(fd)
        except OSError:
            return False  # not known: then no more is taken for granted than of any

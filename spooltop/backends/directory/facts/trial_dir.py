"""A directory for trials and measurements: hidden, in ``tmp`` of the target, removed at the end.

Its name begins with a dot, so that neither consumers nor looks take it for a message. An exclusive lock (flock(2)) on the
directory itself lasts as long as its process. A directory whose lock is free was left behind by a process that was killed, and
is removed by the next one.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from spooltop.engine.system.host import flock_holders

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["PREFIX", "TrialDir", "left_behind", "remove_tree", "sweep", "trial_parent"]

PREFIX = ".spooltop-trial-"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES = 8


def trial_parent(path: str) -> str:
    """Returns the directory for trials on the target ``path``: its ``tmp``, where it has one, else itself."""
    tmp = os.path.join(path, "tmp")
    return tmp if os.path.isdir(tmp) and not os.path.islink(tmp) else path


class TrialDir:
    """A directory of its own below ``parent``, from the start until ``close``. ``path`` leads to it, ``fd`` is it. Raises
    ``OSError`` if it cannot be made."""

    def __init__(self, parent: str) -> None:
        self._parent = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.fd = -1
        try:
            self.name = self._make()
        except BaseException:
            self.close()
            raise
        self.path = os.path.join(parent, self.name)

    def _make(self) -> str:
        for attempt in range(_TRIES):
            name = f"{PREFIX}{os.getpid()}-{os.urandom(6).hex()}"
            os.mkdir(name, 0o700, dir_fd=self._parent)
            try:
                self.fd = os.open(name, _DIRECTORY, dir_fd=self._parent)
                with suppress(OSError):  # a file system without locks: then nobody sweeps either
                    fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(self.fd).st_nlink:
                    return name
                os.close(self.fd)  # a sweep took it before it was locked
                self.fd = -1
            except BaseException as error:
                with suppress(OSError):
                    os.rmdir(name, dir_fd=self._parent)
                if not isinstance(error, FileNotFoundError) or attempt == _TRIES - 1:
                    raise
        raise FileNotFoundError(2, "it is removed as soon as it is made", PREFIX)

    def close(self) -> None:
        """Removes the directory with everything in it. A second call does nothing."""
        if self.fd >= 0:
            remove_tree(self.name, self._parent)
            os.close(self.fd)
            self.fd = -1
        if self._parent >= 0:
            os.close(self._parent)
            self._parent = -1

    def __enter__(self) -> TrialDir:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def left_behind(parent: str) -> list[str]:
    """Returns the names of the directories in ``parent`` whose processes are gone, as far as the kernel's table of locks shows.
    Changes nothing and takes no lock."""
    try:
        fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return sorted(name for name in _names(fd) if _is_dead(name, fd, remove=False))
    finally:
        os.close(fd)


def sweep(parent: str) -> list[str]:
    """Removes the directories of this user that killed processes left in ``parent``; returns their names."""
    try:
        fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return sorted(name for name in _names(fd) if _is_dead(name, fd, remove=True))
    finally:
        os.close(fd)


def _names(fd: int) -> list[str]:
    with closing(os.scandir(fd)) as entries:
        return [entry.name for entry in entries if entry.name.startswith(PREFIX)]


def _is_dead(name: str, parent: int, *, remove: bool) -> bool:
    try:
        fd = os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError:
        return False  # no directory, somebody else's, or removed meanwhile
    try:
        if not remove:
            return not flock_holders(fd)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_tree(name, parent)
        return True
    except OSError:
        return False  # its process lives, or there are no locks here, or it is not ours to remove
    finally:
        os.close(fd)


def remove_tree(name: str, parent: int) -> None:
    """Removes a directory and everything in it without following links. What is gone already is no error."""
    try:
        fd = os.open(name, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        return
    try:
        for entry in os.listdir(fd):
            try:
                if stat.S_ISDIR(os.stat(entry, dir_fd=fd, follow_symlinks=False).st_mode):
                    remove_tree(entry, fd)
                else:
                    os.unlink(entry, dir_fd=fd)
            except FileNotFoundError:
                continue
    finally:
        os.close(fd)
    with suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=parent)

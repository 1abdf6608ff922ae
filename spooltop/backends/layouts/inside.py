"""Access to what lies in the directory of a queue, by descriptors: no link is followed and no path leads out of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from spooltop.engine.system.files import open_regular, read_small
from spooltop.records import dataclass

__all__ = ["DIRECTORY", "MOST", "PathEntry", "exists", "parent", "read", "read_end", "status", "walk"]

MOST = 200_000
"""Maximum number of names of one walk."""
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""Flags that open a directory for reading its names, and nothing else."""
_LOOK_UP: int = getattr(os, "O_PATH", os.O_RDONLY)


@dataclass(frozen=True, slots=True)
class PathEntry:
    """A name below the root: ``path`` relative to it; ``directory``: it is one."""

    path: str
    directory: bool


@contextmanager
def parent(root: int, path: str) -> Iterator[tuple[int, str]]:
    """The descriptor of the directory in which ``path`` lies, and its last name. Raises ``OSError``, also for a link on the
    way."""
    *folders, name = path.removesuffix("/").split("/")
    with ExitStack() as stack:
        at = root
        for folder in folders:
            at = os.open(folder, _LOOK_UP | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            stack.callback(os.close, at)
        yield at, name


def status(root: int, path: str) -> os.stat_result:
    """The status of ``path``, of a link itself. Raises ``OSError``."""
    with parent(root, path) as (at, name):
        return os.stat(name, dir_fd=at, follow_symlinks=False)


def exists(root: int, path: str) -> bool:
    """True where something has that name; False also where it cannot be known."""
    try:
        status(root, path)
    except OSError:
        return False
    return True


def read(root: int, path: str, limit: int) -> bytes:
    """The first ``limit`` bytes of a regular file. Raises ``OSError``."""
    with parent(root, path) as (at, name):
        return read_small(name, at, limit=limit).data


def read_end(root: int, path: str, limit: int) -> bytes:
    """The last ``limit`` bytes of a regular file. Raises ``OSError``."""
    with parent(root, path) as (at, name):
        fd, found = open_regular(name, at)
        try:
            return os.pread(fd, limit, max(0, found.st_size - limit))
        finally:
            os.close(fd)


def walk(
    root: int, depth: int, most: int = MOST, *, without: str = "", unread: Callable[[str, OSError], object] = lambda *_: None
) -> Iterator[PathEntry]:
    """Yields at most ``most`` names of the first ``depth`` levels, each directory before what lies in it, and leaves out the name
    ``without`` in the root. A directory that cannot be read is passed over and given to ``unread``, one that has gone is not; the
    root raises ``OSError``."""
    left = most
    waiting: list[tuple[str, int]] = [("", depth)]
    while waiting and left > 0:
        folder, levels = waiting.pop()
        try:
            entries = _entries(root, folder, left)
        except OSError as error:
            if not folder:
                raise
            if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
                unread(folder, error)
            continue
        if not folder:
            entries = [entry for entry in entries if entry[0] != without]
        left -= len(entries)
        prefix = f"{folder}/" if folder else ""
        deeper = []
        for name, directory in sorted(entries):
            yield PathEntry(prefix + name, directory)
            if directory and levels > 1:
                deeper.append((prefix + name, levels - 1))
        waiting += reversed(deeper)


def _entries(root: int, folder: str, most: int) -> list[tuple[str, bool]]:
    if not folder:
        return _names(os.open(".", DIRECTORY, dir_fd=root), most)
    with parent(root, folder) as (at, name):
        return _names(os.open(name, DIRECTORY, dir_fd=at), most)


def _names(fd: int, most: int) -> list[tuple[str, bool]]:
    try:
        with os.scandir(fd) as entries:
            found = []
            for entry in entries:
                found.append((entry.name, entry.is_dir(follow_symlinks=False)))
                if len(found) >= most:
                    break
            return found
    finally:
        os.close(fd)

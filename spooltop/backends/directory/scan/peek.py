"""A first glimpse of a directory: what kind of entry a name is, and the first few names. Cheap however large it is."""

from __future__ import annotations

import itertools
import os
import stat

from spooltop.model.vocabulary import LIVE, Box

__all__ = ["boxes_in", "first_names", "is_spool_at", "is_spool_like", "open_path"]

_LOOK_UP: int = getattr(os, "O_PATH", getattr(os, "O_SEARCH", os.O_RDONLY))
"""Opens a directory without the right to read it: ``O_PATH`` (open(2)), or ``O_SEARCH`` where the system has that instead."""

FEW = 128
"""Maximum number of names read: a single read of a directory returns that many, and a box may hold millions."""


def open_path(path: str, dir_fd: int | None = None, *, follow: bool = True) -> int:
    """A descriptor of the directory ``path`` that needs no right to read it. With ``follow``, symbolic links are followed: the
    user named them. Raises ``OSError``, and ``ValueError`` for a NUL in the path."""
    return os.open(path, _LOOK_UP | os.O_DIRECTORY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW), dir_fd=dir_fd)


def first_names(name: str, dir_fd: int, most: int = FEW) -> list[str]:
    """The first names in the directory ``name``, as the file system has them, at most ``most``. Raises ``OSError``."""
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=dir_fd)
    try:
        with os.scandir(fd) as entries:
            return [entry.name for entry in itertools.islice(entries, most)]
    finally:
        os.close(fd)


def boxes_in(dir_fd: int) -> dict[Box, int]:
    """The modes (inode(7)) of what is called ``tmp``, ``new``, ``cur`` there, links not followed. What is missing is left out."""
    modes = {}
    for box in LIVE:
        try:
            modes[box] = os.stat(box, dir_fd=dir_fd, follow_symlinks=False).st_mode
        except FileNotFoundError:
            continue
    return modes


def is_spool_like(modes: dict[Box, int]) -> bool:
    """Returns whether at least two of the three boxes are directories, ``new`` among them."""
    there = [box for box, mode in modes.items() if stat.S_ISDIR(mode)]
    return Box.NEW in there and len(there) >= 2


def is_spool_at(path: str, *, follow: bool = True) -> bool:
    """Returns whether ``path`` is like a spool; False where it is not there or may not be looked into."""
    try:
        fd = open_path(path, follow=follow)
    except (OSError, ValueError):
        return False
    try:
        return is_spool_like(boxes_in(fd))
    except OSError:
        return False
    finally:
        os.close(fd)

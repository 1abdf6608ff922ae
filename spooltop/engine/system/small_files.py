"""Reading files that somebody else may have put there.

Who may write a directory can place a symbolic link, a FIFO or a device under any name in it. So no link is followed, nothing is
waited for, only regular files are read, and only as many bytes as the caller expects.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple

from .files import READ_CAP, REAL_FILES, Files

__all__ = ["IRREGULAR", "Content", "NotRegular", "open_regular", "read_small", "why_mistrusted"]

IRREGULAR = frozenset({errno.EINVAL, errno.ELOOP, errno.ENXIO})
"""Errors of ``open_regular`` for anything other than a regular file: ``NotRegular`` (EINVAL), a symbolic link (ELOOP), a socket
(ENXIO)."""


class NotRegular(OSError):
    """EINVAL: the name belongs to something other than a regular file. ``status`` is its status."""

    def __init__(self, name: str, status: os.stat_result) -> None:
        super().__init__(errno.EINVAL, "not a regular file", name)
        self.status = status


class Content(NamedTuple):
    """The bytes that were read, and the status of the file when it was opened."""

    data: bytes
    status: os.stat_result


def why_mistrusted(found: os.stat_result, uid: int) -> str:
    """Says why ``uid`` does not trust a file or folder; empty where it does. A user's own group may write it, as the umask of
    many systems lets it; for root no other group may."""
    if found.st_uid not in (0, uid):
        return f"it belongs to user {found.st_uid}, neither to you nor to root"
    if found.st_mode & stat.S_IWOTH or (not uid and found.st_mode & stat.S_IWGRP and found.st_gid):
        return "others than its owner may write it"
    return ""


def open_regular(
    name: str, dir_fd: int | None = None, *, files: Files = REAL_FILES, follow: bool = False
) -> tuple[int, os.stat_result]:
    """Opens a regular file for reading and returns its descriptor and status. ``follow``: a symbolic link is followed, for paths
    given by a person.

    Raises ``OSError`` as open(2) does, ``NotRegular`` for anything else that can be opened.
    """
    fd = files.open_read(name, dir_fd, follow=True) if follow else files.open_read(name, dir_fd)
    try:
        status = files.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise NotRegular(name, status)
    except BaseException:
        files.close(fd)
        raise
    return fd, status


def read_small(
    name: str,
    dir_fd: int | None = None,
    *,
    files: Files = REAL_FILES,
    limit: int = READ_CAP,
    whole: bool = False,
    follow: bool = False,
) -> Content:
    """Reads up to ``limit`` bytes from the beginning of a regular file. ``whole``: raises ``OSError`` (EFBIG) for a longer file.

    Raises ``OSError`` as ``open_regular`` and read(2) do.
    """
    fd, status = open_regular(name, dir_fd, files=files, follow=follow)
    try:
        data = files.read(fd, limit + whole)
    finally:
        files.close(fd)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes", name)
    return Content(data, status)

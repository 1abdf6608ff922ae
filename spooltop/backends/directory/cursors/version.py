"""Versions of a cursor file: each content that was read, with what identifies it."""

from __future__ import annotations

import os
import stat

from spooltop.engine.cursors import FILE_MAX
from spooltop.engine.system import syscalls
from spooltop.engine.system.files import open_regular
from spooltop.records import dataclass

__all__ = ["Handle", "Version", "handle_of", "read_version"]

Handle = tuple[int, bytes]
"""Identifies a file on its file system, also after its inode number was used again: (type, bytes)."""


@dataclass(frozen=True, slots=True)
class Version:
    """A content of a cursor file, or why it could not be read. ``at`` is when it was read, in epoch seconds. ``unread`` is how
    many writes between the version before and this one were not read."""

    at: float
    state: tuple[int, int, int] = (0, 0, 0)
    """Inode, time of the last change in ns, size."""
    mtime: float = 0.0
    data: bytes = b""
    error: str = ""
    handle: Handle | None = None
    unread: int | None = 0


def read_version(name: str, folder: int, at: float, *, handles: bool = False) -> Version | None:
    """Reads the file now; None if there is none. ``handles``: the version gets the handle by which ``WriterWatch``
    identifies it."""
    try:
        own, found = open_regular(name, folder)
    except OSError as problem:
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError as gone:
            return None if isinstance(gone, FileNotFoundError) else Version(at, error=str(gone.strerror))
        why = f"you may not read it ({problem.strerror})" if stat.S_ISREG(found.st_mode) else "not a plain file"
        return _version(at, found, error=why)
    try:
        if found.st_size > FILE_MAX:
            return _version(at, found, error=f"over {FILE_MAX >> 20} MB, not read")
        data = os.read(own, found.st_size + 1)
        while len(data) <= FILE_MAX and (part := os.read(own, FILE_MAX + 1 - len(data)) if len(data) != found.st_size else b""):
            data += part
        if len(data) > FILE_MAX:
            return _version(at, found, error=f"over {FILE_MAX >> 20} MB, not read")
        return _version(at, found, data=data, handle=handle_of(own) if handles else None)
    except OSError as problem:
        return Version(at, error=str(problem.strerror))
    finally:
        os.close(own)


def _version(
    at: float, found: os.stat_result, *, data: bytes = b"", error: str = "", handle: Handle | None = None
) -> Version:
    return Version(at, (found.st_ino, found.st_mtime_ns, found.st_size), found.st_mtime, data, error, handle)


def handle_of(fd: int) -> Handle | None:
    """The handle of an open file, None if its file system has none."""
    try:
        return syscalls.file_handle(fd)
    except OSError:
        return None

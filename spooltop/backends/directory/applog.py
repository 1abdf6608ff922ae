"""A log that is only ever appended to: one object a line, one write(2) a line, synced, with room kept for a full disk."""

from __future__ import annotations

import ctypes
import errno
import os
import stat

from ...engine.files import Files

__all__ = ["RESERVED", "AppendLog"]

RESERVED = 256 * 1024
"""Bytes kept allocated behind the end of the file, so that a full disk does not stop the last lines."""

_READ_AT_MOST = 64 << 20
_KEEP_SIZE = 1
_fallocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
if _fallocate is not None:
    _fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class AppendLog:
    """``name`` in the directory ``dir_fd``; takes owner, group and mode of ``like`` when made. All methods raise ``OSError``."""

    def __init__(self, files: Files, dir_fd: int, name: str, like: os.stat_result) -> None:
        self._files = files
        self._dir_fd = dir_fd
        self._name = name
        self._like = like

    def append(self, line: bytes) -> None:
        """``line`` ends with a newline. Synced when it returns; after an error a part of it may stand there."""
        files = self._files
        fd = files.open_lasting(self._name, self._dir_fd, append=True, mode=0o600)
        try:
            found = files.fstat(fd)
            self._check(found)
            fresh = found.st_size == 0
            if fresh:
                files.own_as(fd, self._like)
            _reserve(fd, found, len(line))
            if not fresh and os.pread(fd, 1, found.st_size - 1) != b"\n":
                line = b"\n" + line  # a line was cut off here: it stays one bad line, not two
            if files.write(fd, line) != len(line):
                raise OSError(errno.ENOSPC, "the line was cut off", self._name)
            files.sync(fd)
            if fresh:
                files.sync_dir(self._dir_fd)
        finally:
            files.close(fd)

    def lines(self) -> tuple[list[bytes], bool]:
        """The lines (of the last 64 MiB) without their newlines, and whether the last one was cut off (it is left out then)."""
        try:
            fd = self._files.open_read(self._name, self._dir_fd)
        except FileNotFoundError:
            return [], False
        try:
            found = self._files.fstat(fd)
            self._check(found)
            start = max(0, found.st_size - _READ_AT_MOST)
            os.lseek(fd, start, os.SEEK_SET)
            data = self._files.read(fd, _READ_AT_MOST)
        finally:
            self._files.close(fd)
        lines = data.split(b"\n")
        torn = lines.pop() != b""
        if start:
            del lines[:1]
        return [line for line in lines if line], torn

    def _check(self, found: os.stat_result) -> None:
        """Whoever may write the directory can put something else under the name: a link to a file of ours, a fifo."""
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise OSError(errno.EINVAL, "is no plain log file; look who put it there", self._name)


def _reserve(fd: int, found: os.stat_result, length: int) -> None:
    wanted = found.st_size + length
    if _fallocate is None or found.st_blocks * 512 >= wanted + RESERVED // 2:
        return
    # Where it cannot be had (no such call here, a full disk) the write itself says what there is to say.
    _fallocate(fd, _KEEP_SIZE, found.st_size, length + RESERVED)

"""The append-only log file: one object a line, with room kept for a full disk."""

from __future__ import annotations

import errno
import os

from spooltop.engine.atomic import make_file
from spooltop.engine.system.files import is_inode

from .log_files import RESERVED, LogFiles, plain_now
from .log_parts import NextPart, rotate

__all__ = ["AppendLog"]


class AppendLog:
    """The log file ``name`` in the directory ``dir_fd``: one object a line, one write(2) a line. It takes owner, group and mode
    of ``like`` when made. All methods raise ``OSError``."""

    def __init__(self, files: LogFiles, dir_fd: int, name: str, like: os.stat_result) -> None:
        self._files = files
        self._dir_fd = dir_fd
        self._name = name
        self._like = like

    def append(self, line: bytes, *, sync: bool = True, following: NextPart | None = None) -> None:
        """Appends ``line``, which ends with a newline; an empty line only syncs. It is synced when this returns, unless
        ``sync`` is off and a later line will be. After an error a part of it may be in the file. A log that has become large
        continues in the part ``following``; without one in the same file."""
        while not self._append(line, sync=sync, following=following):
            following = None

    def _append(self, line: bytes, *, sync: bool, following: NextPart | None) -> bool:
        """False where the log continues in another file, so that the line has to be written there."""
        files = self._files
        try:
            files.stat(self._name, self._dir_fd)
        except FileNotFoundError:
            make_file(files, self._dir_fd, self._name, self._like)
        fd = files.open_lasting(self._name, self._dir_fd, append=True, mode=0o600)
        try:
            found = plain_now(files, fd, self._dir_fd, self._name)
            size = found.st_size
            large = size >= files.rotate_at
            if following and large and rotate(files, self._dir_fd, self._name, fd, self._like, following):
                return False
            if found.st_blocks * 512 < size + len(line) + RESERVED // 2:
                self._reserve(fd, size, len(line) + RESERVED)
            if line and size and files.read_at(fd, 1, size - 1) != b"\n":
                line = b"\n" + line  # a line was cut off here: it stays one bad line, not two
            if line and files.write(fd, line) != len(line):
                raise OSError(errno.ENOSPC, "the line was cut off", self._name)
            if sync:
                files.sync(fd)
        finally:
            files.close(fd)
        return is_inode(files, self._name, self._dir_fd, found.st_ino)

    def _reserve(self, fd: int, offset: int, length: int) -> None:
        try:
            self._files.reserve(fd, offset, length)
        except OSError:
            return  # no such call here, or a full disk: the write itself says what there is to say

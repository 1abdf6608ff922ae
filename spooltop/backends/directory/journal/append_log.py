"""A log that is only ever appended to: one object a line, one write(2) a line, synced, with room kept for a full disk."""

from __future__ import annotations

import errno
import os

from spooltop.engine.atomic import make_file

from .log_files import LogFiles, plain_but_for_draft, plain_now

__all__ = ["READ_AT_MOST", "RESERVED", "AppendLog", "lines_of"]

RESERVED = 256 * 1024
"""Bytes kept allocated behind the end of the file, so that a full disk does not stop the last lines."""
READ_AT_MOST = 64 << 20
"""Bytes from the end of the file that are read back."""


class AppendLog:
    """``name`` in the directory ``dir_fd``; takes owner, group and mode of ``like`` when made. All methods raise ``OSError``."""

    def __init__(self, files: LogFiles, dir_fd: int, name: str, like: os.stat_result) -> None:
        self._files = files
        self._dir_fd = dir_fd
        self._name = name
        self._like = like

    def append(self, line: bytes, *, sync: bool = True) -> None:
        """``line`` ends with a newline; empty, it only syncs. Synced when it returns, unless another one follows that will be;
        after an error a part of it may stand there."""
        files = self._files
        try:
            files.stat(self._name, self._dir_fd)
        except FileNotFoundError:
            make_file(files, self._dir_fd, self._name, self._like)
        fd = files.open_lasting(self._name, self._dir_fd, append=True, mode=0o600)
        try:
            found = plain_now(files, fd, self._dir_fd, self._name)
            size = found.st_size
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

    def lines(self) -> tuple[list[bytes], bool, int]:
        """The lines of the last 64 MiB without their newlines, whether the last one was cut off (it is left out then), and how
        many bytes before them were not read."""
        data, torn, start = self.whole()
        return lines_of(data), torn, start

    def whole(self) -> tuple[bytes, bool, int]:
        """The same as one piece, each line with its newline: whoever looks for a few lines need not make all of them."""
        try:
            fd = self._files.open_read(self._name, self._dir_fd)
        except FileNotFoundError:
            return b"", False, 0
        try:
            found = plain_but_for_draft(self._files, fd, self._dir_fd, self._name)
            start = max(0, found.st_size - READ_AT_MOST)
            data = self._files.read_at(fd, found.st_size - start, start)
        finally:
            self._files.close(fd)
        begin, end = data.find(b"\n") + 1 if start else 0, data.rfind(b"\n") + 1
        torn = end < len(data)
        return (data[begin:end] if begin or torn else data), torn, start

    def _reserve(self, fd: int, offset: int, length: int) -> None:
        try:
            self._files.reserve(fd, offset, length)
        except OSError:
            return  # no such call here, or a full disk: the write itself says what there is to say


def lines_of(data: bytes) -> list[bytes]:
    """The lines of one piece of a log, without their newlines; an empty one is none."""
    return [line for line in data.split(b"\n") if line]

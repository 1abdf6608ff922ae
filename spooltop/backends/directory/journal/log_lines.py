"""Reads the lines of a log from its end, a block at a time, however large it is."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing

from .log_files import LogFiles, plain_but_for_draft

__all__ = ["LogLines"]

_BLOCK = 1 << 20
_LONGEST = 64 << 20
"""Bytes of a line; what is longer is none of ours, and nothing before it is read."""


class LogLines:
    """The lines of the log ``name`` in an open directory, newest first, without their newlines; empty ones are left out.
    ``folder`` returns its descriptor, None if there is no such directory.

    Once a line was read, ``torn`` tells that the last one was cut off (it is left out then), and ``unread`` how many bytes before
    the first line are not read, because there are more than ``files.read_at_most``. Raises ``OSError`` while it is read.
    """

    def __init__(self, files: LogFiles, folder: Callable[[], int | None], name: str) -> None:
        self._files = files
        self._folder = folder
        self._name = name
        self.torn = False
        self.unread = 0

    def __iter__(self) -> Generator[bytes, None, None]:
        files, folder = self._files, self._folder()
        if folder is None:
            return
        try:
            fd = files.open_read(self._name, folder)
        except FileNotFoundError:
            return
        try:
            size = plain_but_for_draft(files, fd, folder, self._name).st_size
            self.unread = max(0, size - files.read_at_most)
            with closing(self._backwards(fd, size)) as lines:
                self.torn = bool(next(lines, b""))
                yield from filter(None, lines)
        finally:
            files.close(fd)

    def _backwards(self, fd: int, end: int) -> Generator[bytes, None, None]:
        """Yields what is between the newlines up to byte ``end`` of a file, the last first, which is empty where the file ends
        with a newline. A line that begins before what is read is left out."""
        parts: list[bytes] = []
        length = 0
        while end > self.unread:
            begin = max(self.unread, end - _BLOCK)
            block = self._files.read_at(fd, end - begin, begin)
            end, until = begin, len(block)
            while (newline := block.rfind(b"\n", 0, until)) >= 0:
                parts.append(block[newline + 1 : until])
                yield parts[0] if len(parts) == 1 else b"".join(reversed(parts))
                parts, length, until = [], 0, newline
            parts.append(block[:until])
            length += until
            if length > _LONGEST:
                self.unread = end
        if not self.unread:
            yield b"".join(reversed(parts))

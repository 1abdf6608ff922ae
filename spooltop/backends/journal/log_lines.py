"""Reads the lines of a log from its end, a block at a time, however large it is."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing

from spooltop.engine.system.files import is_inode

from .log_files import LogFiles, plain_but_for_draft
from .log_parts import parts_of

__all__ = ["LogLines"]

_BLOCK = 1 << 20
_LONGEST = 64 << 20
"""Bytes of a line; what is longer is none of ours, and nothing before it is read."""


class LogLines:
    """The lines of the log ``name`` in an open directory, newest first, without their newlines; empty ones are left out.
    ``folder`` returns its descriptor, None if there is no such directory. ``latest``: only the newest so many parts are read.

    Once all is read that is wanted, ``torn`` tells that the newest line was cut off (it is left out then), and ``unread`` how
    many bytes before the others are not read, because there are more than ``files.read_at_most``. Raises ``OSError`` while it is
    read.
    """

    def __init__(self, files: LogFiles, folder: Callable[[], int | None], name: str, *, latest: int | None = None) -> None:
        self._files = files
        self._folder = folder
        self._name = name
        self._latest = latest
        self._left = 0
        self.torn = False
        self.unread = 0

    def __iter__(self) -> Generator[bytes, None, None]:
        self._left, self.torn, self.unread = self._files.read_at_most, False, 0
        folder = self._folder()
        if folder is None:
            return
        with closing(self._opened(folder)) as opened:
            for name, fd, size in opened:
                if self.unread:
                    self.unread += size
                    continue
                start = self.unread = max(0, size - self._left)
                self._left -= size - start
                with closing(self._backwards(fd, start, size)) as lines:
                    last = next(lines, b"")
                    if name == self._name:
                        self.torn = bool(last)
                    elif last:
                        yield last  # cut off before the next part began: a bad line
                    yield from filter(None, lines)

    def _opened(self, folder: int) -> Generator[tuple[str, int, int], None, None]:
        """Opens the files of the log one by one, the newest first: name, descriptor, size."""
        files = self._files
        names = [self._name]
        while names:
            name = names.pop(0)
            try:
                fd = files.open_read(name, folder)
            except FileNotFoundError:
                if name == self._name:
                    names = self._older(folder, None)
                continue  # a part was dropped meanwhile
            try:
                found = plain_but_for_draft(files, fd, folder, name)
                if name == self._name:
                    names = self._older(folder, found.st_ino)
                yield name, fd, found.st_size
            finally:
                files.close(fd)

    def _older(self, folder: int, newest: int | None) -> list[str]:
        """The parts before the file with the inode ``newest``, which may have become a part itself since it was opened. The
        newest comes first."""
        parts = parts_of(self._files, folder, self._name)[::-1]
        for place, part in enumerate(parts):
            if newest is not None and is_inode(self._files, part, folder, newest):
                parts = parts[place + 1 :]
                break
        return parts if self._latest is None else parts[: self._latest - 1]

    def _backwards(self, fd: int, start: int, end: int) -> Generator[bytes, None, None]:
        """Yields what is between the newlines from byte ``start`` to ``end`` of a file, the last first, which is empty where the
        file ends with a newline. A line that begins before ``start`` is left out."""
        parts: list[bytes] = []
        length = 0
        while end > start:
            begin = max(start, end - _BLOCK)
            block = self._files.read_at(fd, end - begin, begin)
            end, until = begin, len(block)
            while (newline := block.rfind(b"\n", 0, until)) >= 0:
                parts.append(block[newline + 1 : until])
                yield parts[0] if len(parts) == 1 else b"".join(reversed(parts))
                parts, length, until = [], 0, newline
            parts.append(block[:until])
            length += until
            if length > _LONGEST:
                start = end
        self.unread = start
        if not start:
            yield b"".join(reversed(parts))

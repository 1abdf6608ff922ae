"""The bytes of a message: of its file, or of the files of its directory, where a program keeps a file for each part, as dirq does
in a normal queue."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from spooltop.engine.system.files import read_small
from spooltop.model.text import escape

from .inside import DIRECTORY

__all__ = ["MessageBytes", "read_message", "size_of_directory"]

_PARTS_AT_MOST = 100
"""Files of one message that are read. A directory with more is not measured: somebody may have filled it to hang a look."""


class MessageBytes(NamedTuple):
    """The beginning of a message, the bytes that the whole has, and the names of its files where it is a directory."""

    data: bytes
    size: int
    parts: str


def size_of_directory(folder: int, name: str) -> int | None:
    """The bytes of all files of a message; None where they are too many. Raises ``OSError``."""
    with _opened(folder, name) as directory:
        parts, complete = _parts(directory)
    return sum(size for _, size in parts) if complete else None


def read_message(folder: int, name: str, limit: int) -> MessageBytes:
    """Reads the first ``limit`` bytes. Several files follow one another, each below a line with its name, which does not count.
    Only regular files are read, and no link is followed. Raises ``OSError``."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode):
        return MessageBytes(read_small(name, folder, limit=limit).data, found.st_size, "")
    data, left = b"", limit
    with _opened(folder, name) as directory:
        parts, complete = _parts(directory)
        for part, size in parts:
            if left <= 0:
                break
            heading = b"" if len(parts) == 1 else b"\n" * (data != b"") + b"[" + os.fsencode(part) + b"]\n"
            content = read_small(part, directory, limit=min(left, size)).data
            data += heading + content
            left -= len(content)
    words = ", ".join(f"{escape(part)} {size:,}B" for part, size in parts) or "no file"
    return MessageBytes(data, sum(size for _, size in parts), words if complete else f"{words}, and more")


@contextmanager
def _opened(folder: int, name: str) -> Iterator[int]:
    directory = os.open(name, DIRECTORY, dir_fd=folder)
    try:
        yield directory
    finally:
        os.close(directory)


def _parts(directory: int) -> tuple[Sequence[tuple[str, int]], bool]:
    """Regular files in it with their sizes, by name, and true where these are all. Raises ``OSError``."""
    with os.scandir(directory) as entries:
        files = [(entry.name, entry.stat(follow_symlinks=False)) for entry in islice(entries, _PARTS_AT_MOST + 1)]
    regular = sorted((part, found.st_size) for part, found in files[:_PARTS_AT_MOST] if stat.S_ISREG(found.st_mode))
    return regular, len(files) <= _PARTS_AT_MOST

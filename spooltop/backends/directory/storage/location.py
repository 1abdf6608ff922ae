"""Place of a message in a directory spool, and the identity by which a plan pins it."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from os import stat_result
from typing import NamedTuple, Self

from spooltop.engine.dirs import STAGE
from spooltop.model.text import escape, unescape
from spooltop.model.vocabulary import ASIDE, Box, Json

from ...journal.log_files import OPERATION

__all__ = [
    "FileStatus",
    "Found",
    "Place",
    "Ref",
    "folders_dir",
    "in_folder",
    "is_pinned",
    "kind_of",
    "safe_name",
    "seconds",
]

def folders_dir(box: Box) -> str:
    """Returns the name below ``.spooltop`` of the directory with the folders of ``box``."""
    return STAGE if box is Box.TMP else box.value


def in_folder(name: str, folder: str) -> str:
    """Returns the part of a key that follows the box: the name, and before it the folder that the file is in, if any."""
    return f"{folder}/{name}" if folder else name


def safe_name(name: str) -> bool:
    """True if ``name`` can be a single name in a directory."""
    return bool(name) and name not in (".", "..") and "/" not in name and "\0" not in name


class _Place(NamedTuple):
    box: Box
    name: str
    folder: str


class Place(_Place):
    """The location of ``name`` in ``box``. A set-aside message is in a ``folder``, named like the operation that moved it. A file
    of ``tmp`` may be in a staging directory, which is its ``folder``.

    The constructor checks the values. ``_make`` does not, and is only for values that were a place before.
    """

    __slots__ = ()

    def __new__(cls, box: Box, name: str, folder: str = "") -> Self:
        good_folder = OPERATION.match(folder) if box in ASIDE or (folder and box is Box.TMP) else not folder
        if not safe_name(name) or not good_folder:
            raise ValueError(f"not a place in a spool: {box}/{escape(folder)}/{escape(name)}")
        return super().__new__(cls, box, name, folder)

    def __str__(self) -> str:
        """Returns the form that the journal writes: ``cur/NAME`` or ``trash/OPERATION/NAME``, the name escaped."""
        middle = f"{self.folder}/" if self.folder else ""
        return f"{self.box}/{middle}{escape(self.name)}"

    @staticmethod
    def parse(text: str) -> Place:
        """Reverses ``str``. Raises ``ValueError`` for anything that is not a place in a spool."""
        parts = text.split("/")
        if len(parts) not in (2, 3):
            raise ValueError(f"not a place in a spool: {text[:300]}")
        return Place(Box(parts[0]), unescape(parts[-1]), parts[1] if len(parts) == 3 else "")


class Ref(NamedTuple):
    """A message pinned by identity. ``folder_id`` is (device, inode) of the directory that holds it; ``size`` bytes.

    An inode alone does not identify a file: ext4 reuses a freed inode at once.
    """

    place: Place
    ino: int
    size: int
    ctime_ns: int
    folder_id: tuple[int, int]
    token: str | None = None
    target: Place | None = None
    """Exact destination; None leaves the folder to the operation, and the box too where ``box`` is None."""
    meta: Mapping[str, Json] | None = None
    """Metadata written beside it there; None: the metadata that the action supplies."""
    box: Box | None = None


class FileStatus(NamedTuple):
    """The part of lstat(2) that pins and rows are made of, named as in ``os.stat_result``."""

    st_mode: int
    st_nlink: int
    st_ino: int
    st_size: int
    st_mtime_ns: int
    st_ctime_ns: int

    @property
    def st_mtime(self) -> float:
        return seconds(self.st_mtime_ns)

    @property
    def st_ctime(self) -> float:
        return seconds(self.st_ctime_ns)


Found = stat_result | FileStatus
"""The status of a file."""


def seconds(ns: int) -> float:
    """Turns nanoseconds into seconds, exactly as a ``stat_result`` does."""
    return ns // 10**9 + 1e-9 * (ns % 10**9)


def is_pinned(found: stat_result, ino: int, size: int, ctime_ns: int) -> bool:
    """True where ``found`` is the file that was pinned by inode, size (bytes) and ctime (ns), unchanged since."""
    return found.st_ino == ino and found.st_ctime_ns == ctime_ns and found.st_size == size


def kind_of(found: Found) -> str:
    """Describes a file that is not a message, in words; empty for a regular file."""
    mode = found.st_mode
    if stat.S_ISREG(mode):
        return ""
    for test, word in (
        (stat.S_ISDIR, "a directory"), (stat.S_ISLNK, "a symbolic link"), (stat.S_ISFIFO, "a fifo"),
        (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
    ):  # fmt: skip
        if test(mode):
            return word
    return "not a regular file"

"""Place of a message in a directory spool, and the identity by which a plan pins it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from os import stat_result
from typing import NamedTuple, Protocol, Self

from msgspec import Struct

from spooltop.engine import set_aside
from spooltop.engine.dirs import STAGE, SpoolDirs
from spooltop.engine.system.files import REAL_FILES, Files
from spooltop.model import ASIDE, Box, Frozen, Json, escape, finite

from ...log_store import OPERATION

# Reads the metadata beside a message that was set aside. It is untrusted, because anybody may have written it.

_LATEST = float(1 << 36)
"""Latest valid time: no clock shows more."""
_TEXT_AT_MOST = 500
"""Characters of a text that are kept."""


def plain_meta(found: Mapping[str, object]) -> dict[str, Json]:
    """Extracts the fields that ``Folders.metadata_of`` returns from ``found``, which anybody may have written."""
    was = found.get("was")
    return {**_plain(found), "was": _plain(was)} if isinstance(was, dict) else _plain(found)


def time_of(metadata: Mapping[str, object]) -> float | None:
    """Returns when a message was set aside (epoch seconds), according to its metadata; None where that is not a time."""
    at = finite(metadata.get("at"))
    return at if at is not None and abs(at) < _LATEST else None


def _plain(found: Mapping[str, object]) -> dict[str, Json]:
    return {
        name: value[:_TEXT_AT_MOST] if isinstance(value, str) else value
        for name in ("origin", "reason", "at", "who", "operation", "ended")
        if isinstance(value := found.get(name), str) or (isinstance(value, (int, float)) and abs(value) < 1 << 64)
    }


# Identity of a file beside the messages: a lock, a pause. It tells if the file is still the one that was seen.

Pin = tuple[int, int, int, int]
"""Identifies a file with its content: inode, size, mtime and ctime in ns."""


def pinned(found: os.stat_result) -> Pin:
    """The pin of a file with this status."""
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


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


class Found(Protocol):
    """The status of a file, named as in ``os.stat_result``."""

    @property
    def st_mode(self) -> int: ...
    @property
    def st_nlink(self) -> int: ...
    @property
    def st_ino(self) -> int: ...
    @property
    def st_size(self) -> int: ...
    @property
    def st_mtime(self) -> float: ...
    @property
    def st_ctime(self) -> float: ...


def seconds(ns: int) -> float:
    """Turns nanoseconds into seconds, exactly as a ``stat_result`` does."""
    return ns // 10**9 + 1e-9 * (ns % 10**9)


def is_pinned(found: stat_result, ino: int, size: int, ctime_ns: int) -> bool:
    """True where ``found`` is the file that was pinned by inode, size (bytes) and ctime (ns), unchanged since."""
    return found.st_ino == ino and found.st_ctime_ns == ctime_ns and found.st_size == size


_KINDS = {
    stat.S_IFREG: "", stat.S_IFDIR: "a directory", stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a fifo",
    stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip


def kind_of(found: Found) -> str:
    """Describes a file that is not a message, in words; empty for a regular file."""
    return _KINDS.get(stat.S_IFMT(found.st_mode), "not a regular file")


# Opens the directories of message places, each once, and never too many folders of operations at a time.

_KEPT = 128
"""Folders that are kept open. There may be more folders than a process may have descriptors."""
_LISTED = 10_000
"""Names of metadata in one folder up to which they are kept."""


def drop_folder(dirs: SpoolDirs, box: Box, folder: str) -> None:
    """Removes the folder of an operation if it is empty. Only for the trash: a running consumer may be setting aside into the
    folders of other boxes."""
    try:
        above = dirs.private_dir(box.value)
        if above is not None:
            dirs.forget(box.value, folder)
            with suppress(FileNotFoundError):  # a removal was interrupted
                dirs.files.rmdir(folder, above)
            dirs.files.unlink(set_aside.meta_name(folder), above)  # the shared metadata, if there are any
    except OSError:
        return  # it has content, or is gone, or stays: an empty folder does no harm


class Folder(Frozen):
    """A descriptor, kept by the ``SpoolDirs``, and the (device, inode) of the directory."""

    fd: int
    id: tuple[int, int]


class Folders(Struct):
    """Folders of operations and staging directories. ``before_closing`` is called before any of them is closed to make room."""

    _dirs: SpoolDirs
    _before_closing: Callable[[], None] = lambda: None
    _boxes: dict[Box, Folder] = {}
    _aside: dict[tuple[Box, str], Folder] = {}
    _shared: dict[tuple[Box, str], dict[str, Json]] = {}
    _own: dict[tuple[Box, str], frozenset[str] | None] = {}

    @property
    def files(self) -> Files:
        return self._dirs.files

    def of(self, box: Box, folder: str, *, create: bool = False) -> Folder:
        """Returns the directory ``folder`` of ``box`` (``Place``). Raises ``FileNotFoundError`` if there is none and ``create``
        is False, and ``OSError``."""
        if not folder:
            found = self._boxes.get(box)
            if found is None:
                found = self._boxes[box] = self._opened(self._dirs.box(box))
            return found
        found = self._aside.get((box, folder))
        if found is None:
            if len(self._aside) >= _KEPT:
                self.close()
            fd = self._dirs.private_dir(folders_dir(box), folder, create=create)
            if fd is None:
                raise FileNotFoundError(f"{box}/{folder}")
            found = self._aside[box, folder] = self._opened(fd)
        return found

    def status(self, place: Place) -> os.stat_result | None:
        """Returns the status of the file at ``place``, None where there is none. Raises any other ``OSError``."""
        try:
            return self.files.stat(place.name, self.of(place.box, place.folder).fd)
        except FileNotFoundError:
            return None

    def metadata_of(self, place: Place) -> dict[str, Json]:
        """Reads the metadata of a message that was set aside: ``origin``, ``reason``, ``at``, ``who``, ``operation`` and
        ``ended``, each a plain value of limited length. ``was`` holds the metadata that it had if it had been set aside before.
        Empty where nothing can be read. Raises ``OSError`` only for a descriptor that cannot be closed.
        """
        try:
            folder = self.of(place.box, place.folder)
        except OSError:
            return {}
        own = set_aside.read_metadata(self.files, place.name, folder.fd)
        return self.shared(place.box, place.folder) if own is None else plain_meta(own)

    def shared(self, box: Box, folder: str) -> dict[str, Json]:
        """Returns the shared metadata of a folder through ``plain_meta``. They are read once."""
        found = self._shared.get((box, folder))
        if found is None:
            found = plain_meta(set_aside.read_shared(self._dirs, box, folder))
            if found:
                if len(self._shared) >= _KEPT:
                    self._shared.clear()
                self._shared[box, folder] = found
        return found

    def own_metadata(self, box: Box, folder: str) -> frozenset[str] | None:
        """Returns the names of the metadata of single messages in a folder, listed once; None where they are too many to keep, or
        cannot be listed."""
        if (box, folder) not in self._own:
            if len(self._own) >= _KEPT:
                return None
            try:
                names = self.files.scan(self.of(box, folder).fd)
                found = frozenset(islice((name for name in names if name.startswith(".")), _LISTED))
            except OSError:
                found = None
            self._own[box, folder] = None if found is None or len(found) == _LISTED else found
        return self._own[box, folder]

    def close(self) -> None:
        """Closes all folders. Raises ``OSError``."""
        self._before_closing()
        while self._aside:
            (box, folder), _ = self._aside.popitem()
            self._dirs.forget(folders_dir(box), folder)

    def _opened(self, fd: int) -> Folder:
        found = self.files.fstat(fd)
        return Folder(fd, (found.st_dev, found.st_ino))


# Opens folders that may be replaced at any time.

@contextmanager
def opened_below(folder: int, path: str, files: Files = REAL_FILES) -> Iterator[int]:
    """Opens the directory ``path`` below ``folder`` without following a link; gives ``folder`` itself for "". Raises
    ``OSError``."""
    with ExitStack() as opened:
        at = folder
        for part in path.split("/") if path else ():
            at = files.open_dir(part, at)
            opened.callback(files.close, at)
        yield at


def folder_in(path: str, folders: Iterable[tuple[str, int]]) -> tuple[int, str] | None:
    """Finds the directory of the lock or cursor file ``path``: which of the open ``folders``, (path as shown, descriptor), and
    its path below that; None where it is neither in one of them nor in ``cursors/`` below one."""
    above, name = os.path.split(path)
    for folder, fd in folders:
        below = "." if above in (folder, folder.rstrip("/")) else "cursors" if above == os.path.join(folder, "cursors") else None
        if below is not None and safe_name(name):
            return fd, below
    return None


# Looks up names as they are now. A name that cannot be seen is a result, not an error.

class NameLookup(Struct):
    """Lookups that never raise ``OSError``."""

    _files: Files
    _ordered: dict[int, bool] = {}

    def status(self, name: str, dir_fd: int) -> os.stat_result | None:
        """Returns the status of the file under that name; None where it is not there or not visible."""
        try:
            return self._files.stat(name, dir_fd)
        except OSError:
            return None

    def there(self, name: str, dir_fd: int) -> bool | None:
        """Returns whether anything exists under that name; None where that cannot be seen."""
        try:
            self._files.stat(name, dir_fd)
        except FileNotFoundError:
            return False
        except OSError:
            return None
        return True

    def inode(self, name: str, dir_fd: int) -> int | None:
        found = self.status(name, dir_fd)
        return None if found is None else found.st_ino

    def ctime_ns(self, name: str, dir_fd: int, ino: int) -> int:
        """Returns the ctime (ns) of the file ``ino`` under that name; 0 where a consumer was quicker and the file has already
        moved on."""
        found = self.status(name, dir_fd)
        return found.st_ctime_ns if found is not None and found.st_ino == ino else 0

    def ordered(self, folder: Folder) -> bool:
        """Returns whether a sync of this directory makes earlier changes of names durable in the others of its device."""
        device = folder.id[0]
        if device not in self._ordered:
            try:
                self._ordered[device] = self._files.ordered(folder.fd)
            except OSError:
                return False  # not known, so the order is not relied on
        return self._ordered[device]

"""The directory of a spool: the system around it and its options, its file system, its folders kept open, the places of messages
in them, the identity by which a plan pins one, and its row, made from its name and lstat(2). Judges nothing."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from itertools import islice
from os import stat_result
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, Self

from msgspec import Struct, field

from spooltop.engine import host, set_aside
from spooltop.engine.dirs import OWN, STAGE, SpoolDirs
from spooltop.engine.files import REAL_FILES, Files
from spooltop.engine.names import Name, claimable, is_own_id, parse
from spooltop.engine.pausing import PAUSED
from spooltop.model import (
    ASIDE,
    LIVE,
    Action,
    Box,
    Capabilities,
    Clock,
    Disk,
    Frozen,
    Json,
    JsonObject,
    Mount,
    OpenSettings,
    Owner,
    Row,
    Tried,
    Viewer,
    escape,
    finite,
    parse_mounts,
)

from ..access import closed_words, group_name, user_name, why_closed
from ..log_store import OPERATION, LogFiles
from .processes import LockTable, Processes, read_table

# Options with which a directory is opened, the same for its reader and its operators.


class OpenOptions(OpenSettings, kw_only=True):
    """Options of a directory besides the settings of every target.

    ``layout`` is the kind of the target; ``as_spool``: a mail folder was taken for a job spool. ``cursor_files`` are cursor
    files, or folders of them, in place of those in the spool or beside it. A box is listed at most every ``least`` seconds, and
    at most ``judged_at_most`` claims and files in ``tmp`` are judged.
    """

    layout: str = "spool"
    as_spool: bool = False
    cursor_files: tuple[str, ...] = ()
    least: float = 0.1
    judged_at_most: int = 20_000

    @property
    def shows_above(self) -> bool:
        """True if the cursors and locks in the directory above are shown too."""
        return self.layout not in ("cursors", "locks")


_LOCKS_FOR = 1.0
"""Seconds for which a table of locks is kept."""


class System(Struct):
    """File operations, the wall clock (epoch seconds), a clock that only runs forward, and the process table."""

    files: LogFiles = field(default_factory=LogFiles)
    clock: Clock = time.time
    monotonic: Clock = time.monotonic
    processes: Processes = field(default_factory=Processes)
    _locks: tuple[float, LockTable] | None = None

    def lock_table(self) -> LockTable:
        """Returns all locks of this machine that can be seen, read at most once a second."""
        at = self.monotonic()
        if self._locks is None or at - self._locks[0] >= _LOCKS_FOR:
            self._locks = (at, read_table(self.processes))
        return self._locks[1]


OpenFolder = tuple[str, int]
"""A folder: its path, and a descriptor."""

# Finds the file system of a descriptor: type, device, read-only. Source: ``/proc/self/mountinfo`` and fdinfo, proc(5).


def mount_of(fd: int) -> Mount | None:
    """Returns the mount of the open ``fd``; None if the kernel does not report it (no ``/proc``)."""
    try:
        number = host.mount_number(fd)
        return next((mount for mount in mounts() if mount.number == number), None)
    except OSError:
        return None


def mounts() -> Iterator[Mount]:
    """Yields the mounts that this process sees; none if the kernel does not report them (no ``/proc``)."""
    with suppress(OSError), open(f"{host.PROC}/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        yield from parse_mounts(file)


def is_local(mount: Mount | None) -> bool:
    """True if, by its type, only this machine can have the file system mounted."""
    return mount is not None and not host.is_network(mount.fs_type)


def sends_no_events(mount: Mount | None) -> bool:
    """True if changes by other machines cause no inotify event: network and FUSE file systems."""
    return mount is not None and host.is_network(mount.fs_type)


def changes_unseen(mount: Mount | None) -> bool:
    """True if a directory may change without an event and without a new mtime: if other machines change it, if a FUSE program
    keeps no times, and in an overlay, whose times are those of the upper layer, for names in a lower one."""
    return sends_no_events(mount) or (mount is not None and mount.fs_type == "overlay")


_CHANGES = (Action.REQUEUE, Action.PURGE, Action.INJECT)
_REMOVABLE = {"tickets": "tickets", "locks": "stale locks"}
"""Objects that can be removed where nothing else can, by layout."""


def disk_of(fd: int, mount: Mount | None, dirs: SpoolDirs | None = None) -> Disk:
    """Reads statvfs(3) of the file system of ``fd``: f_bavail and f_favail count for users, root has a little more."""
    kind = mount.fs_type if mount is not None else "?"
    try:
        free = os.fstatvfs(fd)
    except OSError:
        return Disk(fs_type=kind)
    readonly = bool(free.f_flag & os.ST_RDONLY)
    unit = free.f_frsize or free.f_bsize
    inodes = free.f_files > 0  # btrfs has no inode table and says 0
    return Disk(
        fs_type=kind,
        bytes_free=free.f_bavail * unit,
        bytes_total=free.f_blocks * unit,
        inodes_free=free.f_favail if inodes else None,
        inodes_total=free.f_files if inodes else None,
        readonly=readonly,
        readonly_here=readonly and mount is not None and not mount.readonly,
        root_bytes_free=free.f_bfree * unit,
        apart=() if dirs is None else dirs.apart,
    )


def _closed(dirs: SpoolDirs | None) -> str:
    """Names a box that this user may not change, with its owner and mode; empty where there is none."""
    for box, fd in ((Box.CUR, dirs.cur), (Box.NEW, dirs.new)) if dirs is not None else ():
        if fd is not None and not os.access(".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=True):
            found = os.fstat(fd)
            owner = f"{user_name(found.st_uid)}:{group_name(found.st_gid)}"
            return f"{box} is {escape(owner)} {stat.S_IMODE(found.st_mode):04o}"
    return ""


def who_am_i(capabilities: Capabilities, *, read_only: str | None, dirs: SpoolDirs | None = None, layout: str = "") -> Viewer:
    """Returns the user who runs this and their rights in words: "read-write", "read-only: cur is memex:memex 0750"."""
    uid = os.geteuid()
    if read_only:
        words = "READ-ONLY"
    elif not any(action in capabilities.refusals for action in _CHANGES):
        words = "read-write"
    elif capabilities.change:
        words = "read-write" if layout == "layout" else "read-write in part"
    elif dirs is None and capabilities.why_not(Action.SET_CURSOR) is None:
        words = "read-write: cursors can be set"
    elif layout in _REMOVABLE and capabilities.why_not(Action.UNLOCK) is None:
        words = f"read-write: {_REMOVABLE[layout]} can be removed"
    else:
        why = _closed(dirs)
        words = f"read-only: {why}" if why else "read-only"
    return Viewer(user_name(uid), uid, words)


# The rights of this user on a spool, and where one is missing, why and what would help.

_LOOKED_AT = 64
"""Messages whose owners are looked at in a sticky box."""


def can_change(dirs: SpoolDirs) -> Capabilities:
    """Asks the kernel about each directory that an action writes. Root may do everything that the file system allows."""
    why = _refusal(dirs, dirs.root, ".", "the spool", None)
    own = _refusal(dirs, dirs.root, OWN, OWN, why and f"{OWN}, which holds the journal, cannot be made: {why}")
    tmp, new, cur = (_why_not(dirs, box) for box in (Box.TMP, Box.NEW, Box.CUR))
    new_sticks, cur_sticks = (_sticky(dirs, box) for box in (Box.NEW, Box.CUR))
    held, trash = (None if own else _why_not_aside(dirs, box) for box in (Box.HELD, Box.TRASH))
    # What writes nothing into new; but without it nothing here is a spool any more.
    spool = new if Box.NEW in dirs.errors else None
    needed: dict[Action, tuple[str | None, ...]] = {
        Action.REQUEUE: (new, cur, cur_sticks),
        Action.PURGE: (new, cur, cur_sticks, new_sticks, trash),
        Action.HOLD: (new, cur, cur_sticks, new_sticks, held),
        Action.RELEASE: (new, held),
        Action.RESTORE: (new,),
        Action.EMPTY: (spool, trash),
        Action.INJECT: (new, tmp),
        Action.UNDO: (new,),
        Action.PAUSE: (spool,),
        Action.RESUME: (spool, None if own else _why_not_resume(dirs)),
    }
    # The rights on locks are checked for each: some lie beside the spool.
    others = [action for action in Action if action not in (*needed, Action.UNLOCK)]
    refusals: dict[Action, str] = dict.fromkeys(others, "this version has no such action for a directory spool")
    for action, reasons in needed.items():
        if reason := next(filter(None, (*reasons, own)), None):
            refusals[action] = reason
    return Capabilities(refusals)


def _why_not(dirs: SpoolDirs, box: Box) -> str | None:
    if box in dirs.errors:
        error = dirs.errors[box]
        return f"{box} is missing" if isinstance(error, FileNotFoundError) else f"{box} cannot be opened: {error.strerror}"
    return _refusal(dirs, dirs.root, box.value, box.value, f"{box} is missing")


def _sticky(dirs: SpoolDirs, box: Box) -> str | None:
    """Why this user may not move messages out of ``box``, or None."""
    fd = dirs.new if box is Box.NEW else dirs.cur
    if fd is None:
        return None
    found = _not_ours(dirs, fd, (name for name, _ in islice(dirs.files.inodes(fd), _LOOKED_AT)))
    what = f"{box} is sticky, so that only its owner moves the messages of others; it"
    return None if found is None else closed_words(what, dirs.files.fstat(fd), dirs.path)


def _why_not_resume(dirs: SpoolDirs) -> str | None:
    """Why this user may not remove the pause, or None; None also if there is none."""
    own = dirs.private_dir()
    found = None if own is None else _not_ours(dirs, own, (PAUSED,))
    what = f"{OWN} is sticky, so that only its owner removes the files of others; {PAUSED}"
    return None if found is None else closed_words(what, found, dirs.path)


def _not_ours(dirs: SpoolDirs, folder: int, names: Iterable[str]) -> os.stat_result | None:
    """The status of the first of ``names`` in a sticky directory from which this user may move none of them, else None."""
    above, user = dirs.files.fstat(folder), os.geteuid()
    if not above.st_mode & stat.S_ISVTX or user in (0, above.st_uid):
        return None
    there = [found for name in names if (found := dirs.files.status(name, folder)) is not None]
    return None if not there or user in (found.st_uid for found in there) else there[0]


def _why_not_aside(dirs: SpoolDirs, box: Box) -> str | None:
    """Why this user may not write the folders of ``box``, or None; None also where nothing was ever set aside there: then it
    can be made, or there is nothing to take from."""
    try:
        own = dirs.private_dir()
    except OSError as error:
        return f"{OWN}/{box.value} cannot be accessed: {error.strerror}"
    return None if own is None else _refusal(dirs, own, box.value, f"{OWN}/{box.value}", None)


def _refusal(dirs: SpoolDirs, above: int, name: str, shown: str, missing: str | None) -> str | None:
    """Why this user may not write the directory ``name`` in the directory ``above``, called ``shown``, or None; ``missing`` where
    there is none."""
    try:
        if not stat.S_ISDIR(dirs.files.stat(name, above).st_mode):
            return f"{shown} is not a directory; find out who created it"
        return why_closed(above, name, shown, dirs.path)
    except FileNotFoundError:
        return missing
    except OSError as error:
        return f"{shown} cannot be accessed: {error.strerror}"


# Keeps the directories of a spool open as long as their names lead to them, and reopens them when they lead elsewhere.

_MOUNT_FOR = 5.0


class OpenSpool(Struct):
    """Descriptors of one spool and of its parent directory, and its mount, None where the kernel does not report it."""

    path: str
    _world: System
    dirs: SpoolDirs | None = None
    mount: Mount | None = None
    _mount_at: float = float("-inf")
    _parent: int = -1

    def open(self) -> tuple[SpoolDirs, bool]:
        """Returns the open directories, and True if they were opened just now. The mount is looked up every few seconds, because
        it may become read-only. Raises ``OSError`` if the spool is gone or closed."""
        dirs = self.dirs
        fresh = dirs is None or not _same(dirs)
        if dirs is None or fresh:
            self.close()
            self.dirs = dirs = SpoolDirs(self.path, self._world.files)
            parent = os.path.dirname(self.path)
            with suppress(OSError):  # the parent may be closed to us; then no locks or cursors beside the spool are shown
                if parent != self.path:
                    self._parent = self._world.files.open_dir(parent, follow=True)
        at = self._world.monotonic()
        if fresh or at - self._mount_at >= _MOUNT_FOR:
            self._mount_at, self.mount = at, mount_of(dirs.root)
        return dirs, fresh

    def folders(self, dirs: SpoolDirs) -> list[OpenFolder]:
        """Returns (path, descriptor) of the spool and of its parent directory, where locks and cursors are looked for."""
        found = [(self.path, dirs.root)]
        if self._parent >= 0:
            found.append((os.path.dirname(self.path), self._parent))
        return found

    def boxes(self, dirs: SpoolDirs) -> dict[Box, OpenFolder]:
        """Returns (path, descriptor) of each box that is open."""
        return {box: (os.path.join(self.path, box), dirs.box(box)) for box in LIVE if box not in dirs.errors}

    def status(self, box: Box, name: str) -> os.stat_result | None:
        """Returns the lstat(2) of a name in a box; None if it is not there or cannot be seen."""
        try:
            return None if self.dirs is None else os.lstat(name, dir_fd=self.dirs.box(box))
        except OSError:
            return None

    def close(self) -> None:
        with ExitStack() as both:
            if self._parent >= 0:
                both.callback(os.close, self._parent)
            if self.dirs is not None:
                both.callback(self.dirs.close)
            self._parent, self.dirs = -1, None


def _same(dirs: SpoolDirs) -> bool:
    """True if every name still leads to the open directory, and what was missing is still missing."""
    if dirs.moved() or not all(_still_closed(dirs, box) for box in dirs.swapped()):
        return False
    try:
        own = dirs.private_dir()
    except OSError:
        return True  # something beside the boxes is not of the engine
    return own is None or os.fstat(own).st_nlink > 0


def _still_closed(dirs: SpoolDirs, box: Box) -> bool:
    """True where a box could not be opened before and could not be now for the same reason."""
    error = dirs.errors.get(box)
    if error is None:
        return False
    try:
        fd = dirs.files.open_dir(box.value, dirs.root)
    except OSError as problem:
        return problem.errno == error.errno
    dirs.files.close(fd)
    return False


# Reads the metadata beside a message that was set aside. It is untrusted, because anybody may have written it.

_LATEST = float(1 << 36)
"""Latest valid time: no clock shows more."""
_TEXT_AT_MOST = 500
"""Characters of a text that are kept."""


_NO_METADATA: JsonObject = MappingProxyType({})


def plain_meta(found: Mapping[str, object]) -> dict[str, Json]:
    """Extracts the fields that ``Folders.beside`` returns from ``found``, which anybody may have written."""
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

    def beside(
        self, box: Box, folder: str, name: str, own: Collection[str] | None, *, read: bool = True
    ) -> tuple[JsonObject, bool]:
        """Reads the metadata of a message that was set aside: ``origin``, ``reason``, ``at``, ``who``, ``operation`` and
        ``ended``, each a plain value of limited length. ``was`` holds the metadata that it had if it had been set aside before.
        Empty where nothing can be or is to be ``read``, or it was not set aside. Also True if it may have a file of its own for
        them; ``own`` has the names of such files in its folder, None where they are not known. A file is written before its
        message arrives. Raises ``OSError`` only for a descriptor that cannot be closed.
        """
        if box not in ASIDE:
            return _NO_METADATA, False
        if own is None or (own and set_aside.meta_name(name) in own):
            try:
                found = set_aside.read_metadata(self.files, name, self.of(box, folder).fd) if read else {}
            except OSError:
                found = {}
            if found is not None:
                return plain_meta(found), True
        return self.shared(box, folder) if read else _NO_METADATA, False

    def shared(self, box: Box, folder: str) -> dict[str, Json]:
        """Returns the shared metadata of a folder through ``plain_meta``. They are read once; where there were none, or none
        could be read, again after ``close``."""
        found = self._shared.get((box, folder))
        if found is None:
            if len(self._shared) >= _KEPT:
                self._shared.clear()
            found = self._shared[box, folder] = plain_meta(set_aside.read_shared(self._dirs, box, folder))
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
        self._shared = {folder: found for folder, found in self._shared.items() if found}
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


# Parses the names of messages by columns. Most names of a thousand differ only in their ids and in the time of their claim, so
# that each form of a name is parsed once, and not each name.

_FORM = re.compile(
    r"(?<![^/])([0-9]{16}+\.P[0-9]{1,10}+R[0-9a-f]{16}+\.[A-Za-z0-9._-]++)((?:,(?!c=)[a-z]=[A-Za-z0-9._%-]++)*)"
    r"(,c=[0-9a-f]{32}\.[0-9]{1,17}+:2,P[0-9]{1,10}+|:(?:2,)?+P[0-9]{1,10}+|)(?=/|\Z)"
)
"""Captures the id, the attributes and the tail of a name with an id of our own."""
_TAIL = re.compile(r",c=[0-9a-f]{32}\.[0-9]{1,17}:2,P[0-9]{1,10}\Z")
TOKEN = slice(3, 35)
"""Place of the token in a tail that has one."""
_START = 34
"""Characters of an id of our own up to the end of its random part, at the least."""
FORMS_AT_MOST = 10_000


class NameForm(NamedTuple):
    """A row of ``NameForms``, after its name."""

    name: str
    id_end: int
    attributes: str
    tail: str


class NameForms(NamedTuple):
    """Columns of names: the length of the id, the attributes with their comma, and the tail of a claim. A name without an id of
    our own has the length 0: it is to be parsed by itself."""

    id_ends: Sequence[int]
    attributes: Sequence[str]
    tails: Sequence[str]

    @classmethod
    def of(cls, names: Sequence[str], *, claimed: bool) -> NameForms:
        """Parses ``names``; ``claimed`` as for ``engine.names.parse``."""
        found: list[tuple[str, str, str]] = _FORM.findall("/".join(names))
        if len(found) != len(names):
            found = [_foreign(name) if (one := _FORM.fullmatch(name)) is None else (one[1], one[2], one[3]) for name in names]
        ids, attributes, tails = zip(*found, strict=True) if found else ((), (), ())
        good = {one: named_like(one) is not None for one in set(attributes)}
        if all(good.values()) and (claimed or not any(tails)):
            return cls(list(map(len, ids)), attributes, tails)
        ours = [good[one] and (claimed or not tail) for one, tail in zip(attributes, tails, strict=True)]
        ends = [len(id) if own else 0 for id, own in zip(ids, ours, strict=True)]
        return cls(ends, attributes, tails)


def tokens_of(tails: Sequence[str]) -> list[str]:
    """The tokens in the tails of claims, "" where there is none."""
    return [tail[TOKEN] if tail[:1] == "," else "" for tail in tails]


def tokens_of_claims(names: Sequence[str]) -> list[str]:
    """The tokens in the names of claims, "" where there is none."""
    return tokens_of(NameForms.of(names, claimed=True).tails)


def _foreign(name: str) -> tuple[str, str, str]:
    tail = _TAIL.search(name)
    return "", "", "" if tail is None or not tail.start() else tail[0]


@lru_cache(FORMS_AT_MOST)  # each delayed message has attributes of its own
def named_like(attributes: str) -> Name | None:
    """Parses a name with an id of our own and these attributes; None where they are not attributes."""
    name = parse(_EXAMPLE + attributes, claimed=False)
    return name if name.own and name.id == _EXAMPLE else None


_EXAMPLE = "0" * 16 + ".P1R" + "0" * 16 + ".x"


def id_starts(names: Sequence[str], *, claimed: bool) -> list[str]:
    """The beginning of each id, up to its first comma or colon. Equal ids begin in the same way, and nearly all others differ."""
    found = [name[:_START] for name in names]
    joined = "".join(found)
    if not any(end in joined for end in ",:%"):
        return found
    whole = (parse(name, claimed=claimed).id if "%" in start else name for start, name in zip(found, names, strict=True))
    return [name[:_START].partition(",")[0].partition(":")[0] for name in whole]


def kind_of_file(found: Found) -> str:
    """Describes something that is not a regular file, in words."""
    return f"{kind_of(found)}, not a message"


def _note_of(found: Found | None) -> str:
    """Says what is special about a file; ``found`` None: it has gone since."""
    if found is None:
        return "gone since"
    if not stat.S_ISREG(found.st_mode):
        return kind_of_file(found)
    return f"has {found.st_nlink} names" if found.st_nlink > 1 else ""


def claim_row(name: Name, found: Found | None) -> Row:
    """Returns the row of a name in ``cur``, not judged; ``found`` None: it has gone since. chmod and restores change ctime, so it
    is only a bound for the time of the claim."""
    claimed_at = epoch(name.claimed_us)
    return _row(
        Box.CUR, name, found, claimed_at if claimed_at is not None or found is None else found.st_ctime,
        since_is_bound=claimed_at is None,
        attempt=None if name.attempts is None else name.attempts + 1,
        owner=None if name.pid is None else Owner(pid=name.pid),
        note=_note_of(found),
        not_before=epoch(name.not_before),
        ended=name.ended,
    )  # fmt: skip


def epoch(us: int | None) -> float | None:
    """Turns microseconds into seconds."""
    return None if us is None else us / 1e6


def _row(box: Box, name: Name, found: Found | None, since: float | None, *, key: str = "", **more: Any) -> Row:
    """Makes a row of a name, with what its file tells; without a time in the name it was put when it was last written."""
    put_at = epoch(name.enqueued_us)
    if found is not None:
        more |= {"size": found.st_size, "written_at": found.st_mtime}
        put_at = found.st_mtime if put_at is None else put_at
    return Row(
        (box.value, key or name.raw), box, name.id, name.raw, source=name.source, canary=name.canary, in_box_since=since,
        **{"enqueued_at": put_at} | more,
    )  # fmt: skip


def new_row(raw: str, found: Found | None) -> Row:
    """Returns the row of a message in ``new``; ``found`` None: it has gone since."""
    name = parse(raw, claimed=False)
    too_long = found is not None and stat.S_ISREG(found.st_mode) and not claimable(raw)
    since = epoch(name.enqueued_us)
    if found is not None and (name.attempts or since is None):  # its last move if it was in work before
        since = found.st_ctime if name.attempts else found.st_mtime
    return _row(
        Box.NEW, name, found, since,
        attempt=name.attempts,
        note="its name is too long to be claimed" if too_long else _note_of(found),
        not_before=epoch(name.not_before),
        ended=name.ended,
    )  # fmt: skip


def tmp_row(raw: str, found: Found) -> Row:
    """Returns the row of a file in ``tmp``, not judged; ``raw`` is ``FOLDER/NAME`` in a staging directory. The number at the
    front of a foreign name is not a time, so its mtime counts."""
    name = parse(raw.rpartition("/")[2], claimed=False)
    began = name.enqueued_us / 1e6 if name.enqueued_us is not None and is_own_id(name.id) else found.st_mtime
    return _row(Box.TMP, name, found, began, key=raw, enqueued_at=began, note=_note_of(found))


def mail_row(raw: str, found: Found | None) -> Row:
    """Returns the row of a message in ``cur`` of a mail folder, where nobody claims."""
    return claim_row(parse(raw, claimed=True), found).replace(since_is_bound=True)


def tried_of(waiting: Iterable[str], claims: Iterable[Row]) -> tuple[Tried, ...]:
    """Collects the earlier attempts recorded in the names ``waiting`` in ``new`` and in the names of ``claims``."""
    found = []
    for raw in waiting:
        name = parse(raw, claimed=False)
        if name.attempts and not name.canary:
            found.append(Tried(name.ended, name.not_before is not None, name.id, Box.NEW, name.attempts))
    found += [
        Tried(row.ended, row.not_before is not None, row.id, Box.CUR, row.attempt - 1)
        for row in claims
        if row.attempt is not None and row.attempt > 1 and not row.canary
    ]
    return tuple(found)


def aside_row(box: Box, operation: str, raw: str, *, reason: str = "") -> Row:
    """Returns the row of a name that ``operation`` set aside in ``box``, for ``reason``. Its key is (box,
    ``OPERATION/NAME``)."""
    name = parse(raw, claimed=True)
    return _row(
        box, name, None, None,
        key=f"{operation}/{raw}",
        attempt=name.attempts if name.attempts is None or name.token is None else name.attempts + 1,
        owner=None if name.pid is None else Owner(pid=name.pid),
        reason=reason,
        ended=name.ended if name.token is None else None,  # with the suffix of a claim it is about the attempt before
    )  # fmt: skip

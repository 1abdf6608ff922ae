"""The directory of a queue and the one of spooltop's own beside its messages, as descriptors.

A location is a path relative to the queue; one that begins with ``//`` is relative to spooltop's own directory, in which the
journal and what was set aside lie: ``//trash/OPERATION/0/queue/7.msg``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import islice

from spooltop.engine.atomic import publish
from spooltop.engine.dirs import make_dir
from spooltop.engine.files import REAL_FILES, Files, open_regular, read_small
from spooltop.model import Closing, Frozen, escape

from .definition import Layout

_KEPT_AT_MOST = 32
"""Maximum number of directories that stay open: more than one change of a message needs."""

# Access to what lies in the directory of a queue, by descriptors: no link is followed and no path leads out of it.

MOST = 200_000
"""Maximum number of names of one walk."""
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""Flags that open a directory for reading its names, and nothing else."""
_LOOK_UP: int = getattr(os, "O_PATH", os.O_RDONLY)


class QueueFolder(Frozen):
    """A directory of the queue and its ``names`` in order. ``prefix`` begins their paths; ``directories`` are those of them that
    are one. ``fd`` is its descriptor, which is open until the next directory is asked for."""

    prefix: str
    fd: int
    names: Sequence[str]
    directories: Collection[str]


@contextmanager
def parent(root: int, path: str) -> Iterator[tuple[int, str]]:
    """The descriptor of the directory in which ``path`` lies, and its last name. Raises ``OSError``, also for a link on the
    way."""
    *folders, name = path.removesuffix("/").split("/")
    at = root
    try:
        for folder in folders:
            above, at = at, os.open(folder, _LOOK_UP | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            if above != root:
                os.close(above)
        yield at, name
    finally:
        if at != root:
            os.close(at)


def status(root: int, path: str) -> os.stat_result:
    """The status of ``path``, of a link itself. Raises ``OSError``."""
    with parent(root, path) as (at, name):
        return os.stat(name, dir_fd=at, follow_symlinks=False)


def find(root: int, path: str) -> os.stat_result | None:
    """The status of ``path``; None where nothing has that name, or it cannot be known."""
    try:
        return status(root, path)
    except OSError:
        return None


def read(root: int, path: str, limit: int) -> bytes:
    """The first ``limit`` bytes of a regular file. Raises ``OSError``."""
    with parent(root, path) as (at, name):
        return read_small(name, at, limit=limit).data


def read_end(root: int, path: str, limit: int) -> bytes:
    """The last ``limit`` bytes of a regular file. Raises ``OSError``."""
    with parent(root, path) as (at, name):
        fd, found = open_regular(name, at)
        try:
            return os.pread(fd, limit, max(0, found.st_size - limit))
        finally:
            os.close(fd)


def walk(
    root: int, depth: int, most: int = MOST, *, without: str = "", unread: Callable[[str, OSError], object] = lambda *_: None
) -> Iterator[QueueFolder]:
    """Yields the directories of the first ``depth`` levels with at most ``most`` names, each before those in it, and leaves out
    the name ``without`` in the root. A directory that cannot be read is passed over and given to ``unread``, one that has gone
    is not; the root raises ``OSError``."""
    waiting: list[tuple[str, int]] = [("", depth)]
    while waiting and most > 0:
        path, levels = waiting.pop()
        prefix = f"{path}/" if path else ""
        names: list[str] = []
        directories: set[str] = set()
        try:
            with parent(root, path or ".") as (above, name), opened(above, name) as fd:
                with os.scandir(fd) as entries:
                    for entry in islice(entries, most):
                        if path or entry.name != without:
                            names.append(entry.name)
                            if entry.is_dir(follow_symlinks=False):
                                directories.add(entry.name)
                names.sort()
                yield QueueFolder(prefix, fd, names, directories)
        except OSError as error:
            if not path:
                raise
            if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
                unread(path, error)
            continue
        most -= len(names)
        if levels > 1:
            waiting += [(prefix + name, levels - 1) for name in reversed(names) if name in directories]


# The bytes of a message: of its file, or of the files of its directory, where a program keeps a file for each part, as dirq
# does in a normal queue.

_PARTS_AT_MOST = 100
"""Files of one message that are read. A directory with more is not measured: somebody may have filled it to hang a look."""


class MessageBytes(Frozen):
    """The beginning of a message, the bytes that the whole has, and the names of its files where it is a directory."""

    data: bytes
    size: int
    parts: str


def size_of_directory(folder: int, name: str) -> int | None:
    """The bytes of all files of a message; None where they are too many. Raises ``OSError``."""
    with opened(folder, name) as directory:
        parts, complete = _parts(directory)
    return sum(size for _, size in parts) if complete else None


def read_message(folder: int, name: str, limit: int) -> MessageBytes:
    """Reads the first ``limit`` bytes. Several files follow one another, each below a line with its name, which does not count.
    Only regular files are read, and no link is followed. Raises ``OSError``."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode):
        return MessageBytes(read_small(name, folder, limit=limit).data, found.st_size, "")
    data, left = b"", limit
    with opened(folder, name) as directory:
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
def opened(folder: int, name: str) -> Iterator[int]:
    """Opens a directory for the ``with`` block. Raises ``OSError``, also for a link."""
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


ASIDE = "//"
"""Beginning of a location in spooltop's own directory."""


def aside(*parts: str) -> str:
    """The location of a path in spooltop's own directory."""
    return ASIDE + "/".join(parts)


def is_aside(location: str) -> bool:
    """True for what lies in spooltop's own directory."""
    return location.startswith(ASIDE)


def in_queue(location: str) -> str:
    """The path in the queue from which the file at ``location`` was set aside, or at which it lies."""
    return location if not is_aside(location) else location.removeprefix(ASIDE).split("/", 3)[-1]


def own_name(side_dir: str, path: str) -> str:
    """The path of spooltop's own directory, relative to the queue at ``path``: a name in it, or ``../`` and one beside it."""
    return side_dir.replace("{root}", os.path.basename(os.path.realpath(path)))


def shown_location(location: str, own: str) -> str:
    """The location as a path that is relative to the queue, as ``own`` is, the path of spooltop's own directory:
    ``.spooltop/trash/OPERATION/0/queue/7.msg``."""
    return f"{own}/{location.removeprefix(ASIDE)}" if is_aside(location) else location


class QueueDirs(Closing):
    """Open descriptors of a queue: a ``LogPlace``. No link is followed below ``path``. Raises ``OSError`` where the queue cannot
    be opened. Close it."""

    def __init__(self, path: str, side_dir: str, files: Files) -> None:
        self.path = path
        self.files = files
        self.own_name = own_name(side_dir, path)
        self._name = self.own_name.removeprefix("../")
        self._own: int | None = None
        self._above: int | None = None
        self._kept: dict[str, tuple[int, os.stat_result]] = {}
        """Descriptors of directories and what they are, by location, that of the latest lookup last."""
        self._touched: dict[str, bool] = {}
        """Directories by location, in which a name was made (False) or lost since they were synced, the latest last."""
        self.root = files.open_dir(path, follow=True)
        try:
            self.owner_model = files.fstat(self.root)
            """Owner, group and mode of new directories: those of the queue's own."""
        except BaseException:
            self.close()
            raise

    @property
    def identity(self) -> tuple[int, int]:
        """The device and inode of the queue's directory."""
        return self.owner_model.st_dev, self.owner_model.st_ino

    def above(self) -> int:
        """The descriptor of the directory in which spooltop's own lies, which must not be closed."""
        if self._name == self.own_name:
            return self.root
        if self._above is None:
            self._above = self.files.open_dir("..", self.root)
        return self._above

    def private_dir(self, *, create: bool = False) -> int | None:
        """Opens spooltop's own directory, which must not be closed; None if it is missing and ``create`` is False. A new one
        gets owner, group and mode of the queue. Raises ``OSError``, also where it is a link."""
        if self._own is None:
            try:
                self._own = self.files.open_dir(self._name, self.above())
            except FileNotFoundError:
                if not create:
                    return None
                make_dir(self.files, self._name, self.above(), self.owner_model)
                self._own = self.files.open_dir(self._name, self.above())
        return self._own

    def parent(self, location: str, *, create: bool = False) -> tuple[int, str]:
        """The descriptor of the directory in which ``location`` lies, which must not be closed, and its last name. ``create``
        makes the directories on the way. Raises ``OSError``, also for a link on the way."""
        folder, _, name = location.rpartition("/")
        return self._folder(folder, create), name

    def _folder(self, location: str, create: bool = False) -> int:
        """Opens the directory at ``location``, and keeps it among the last that were asked for."""
        if location == "":
            return self.root
        if location == "/":
            if (own := self.private_dir(create=create)) is None:
                raise FileNotFoundError(2, os.strerror(2), self._name)
            return own
        kept = self._kept.pop(location, None)
        if kept is None:
            at, name = self.parent(location, create=create)
            try:
                fd = self.files.open_dir(name, at)
            except FileNotFoundError:
                if not create:
                    raise
                make_dir(self.files, name, at, self.files.fstat(at), durable=False)
                self.touched(location)
                fd = self.files.open_dir(name, at)
            try:
                kept = fd, self.files.fstat(fd)
            except BaseException:
                self.files.close(fd)
                raise
            if kept[1].st_dev != self.owner_model.st_dev:
                self.keeps_order = False
        self._kept[location] = kept
        if len(self._kept) > _KEPT_AT_MOST:
            self.files.close(self._kept.pop(next(iter(self._kept)))[0])
        return kept[0]

    def renew(self, location: str) -> None:
        """Closes the directories on the way to ``location`` in the queue that its program, or somebody else, has moved or removed
        since they were opened: what is done there would not be done in the queue. Raises ``OSError``."""
        folder = location.rpartition("/")[0]
        if folder == "" or is_aside(location):
            return
        self.renew(folder)
        if (kept := self._kept.get(folder)) is not None:
            found = self.status(folder)
            if found is None or not os.path.samestat(found, kept[1]):
                self.forget(folder)

    def forget(self, location: str) -> None:
        """Closes the directory at ``location`` and those in it: it was moved or removed, and another may come there."""
        inside = [folder for folder in self._kept if f"{folder}/".startswith(f"{location}/")]
        self.files.close_all([self._kept.pop(folder)[0] for folder in inside])

    def touched(self, location: str, *, lost: bool = False) -> None:
        """Notes for ``sync_touched`` that a name was made at ``location``, or ``lost`` there."""
        folder = location.rpartition("/")[0]
        self._touched[folder] = self._touched.pop(folder, True) and lost

    @cached_property
    def keeps_order(self) -> bool:
        """True where a sync of one directory includes all changes before: one file system, which keeps their order, has all."""
        return self.files.ordered(self.root) and not self.files.reuses_inodes_late(self.root)

    def sync_touched(self) -> None:
        """Syncs the directories in which names were made, then those that lost some, as far as they still exist; only the last
        one where that includes the others. Raises ``OSError``."""
        latest_first = reversed(self._touched)
        for folder in latest_first if self.keeps_order else sorted(self._touched, key=lambda one: self._touched[one]):
            with suppress(FileNotFoundError):  # removed since, with all that was in it
                self.files.sync_dir(self._folder(folder))
                if self.keeps_order:
                    break
        self._touched.clear()

    def status(self, location: str) -> os.stat_result | None:
        """The status of what lies there, of a link itself; None where nothing does. Raises ``OSError``."""
        try:
            at, name = self.parent(location)
            return self.files.stat(name, at)
        except FileNotFoundError:
            return None

    def close(self) -> None:
        """Closes all descriptors; a second call does nothing."""
        kept = (fd for fd, _ in self._kept.values())
        fds = [fd for fd in (*kept, self._own, self._above, self.root) if fd is not None and fd >= 0]
        self._own = self._above = None
        self._kept.clear()
        self.root = -1
        self.files.close_all(fds)


# The name of its layout, kept in spooltop's own directory beside a queue: a drained queue has no file left to be known by.
# Whoever may write the queue may have written the name. So it is only compared with the names of known layouts.

KEPT = "layout"
_LIMIT = 1024


def keep_name(dirs: QueueDirs, name: str) -> None:
    """Writes the name of the layout by which the queue is changed, unless it stands there. Raises ``OSError``."""
    if _kept_name(dirs) == name:
        return
    own, file = dirs.parent(aside(KEPT), create=True)
    publish(dirs.files, own, file, f"{name}\n".encode(), dirs.files.fstat(own))


def kept_layout(path: str, layouts: Iterable[Layout], *, by_owner: bool = False) -> Layout | None:
    """Returns the layout whose name is kept beside the queue at ``path``; None for a name that none of ``layouts`` has, and
    with ``by_owner`` for one that neither its owner wrote, nor root or this user. Raises ``OSError`` where the queue cannot be
    opened."""
    names: dict[str, str | None] = {}
    for layout in layouts:
        if layout.side_dir not in names:
            with QueueDirs(path, layout.side_dir, REAL_FILES) as dirs:
                names[layout.side_dir] = _kept_name(dirs, by_owner=by_owner)
        if names[layout.side_dir] == layout.name:
            return layout
    return None


def _kept_name(dirs: QueueDirs, *, by_owner: bool = False) -> str | None:
    try:
        own, file = dirs.parent(aside(KEPT))
        found = read_small(file, own, limit=_LIMIT, whole=True)
        if by_owner and found.status.st_uid not in (0, os.geteuid(), dirs.owner_model.st_uid):
            return None
        return found.data.decode().removesuffix("\n")
    except (OSError, UnicodeDecodeError):
        return None  # what cannot be read names no layout: the files may still show which it is

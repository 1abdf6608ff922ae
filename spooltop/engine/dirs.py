"""The directories of a spool, as descriptors that are opened once and kept.

Replacing a box by a symbolic link at run time redirects no operation: all of them use these descriptors.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence

from spooltop.model import LIVE, Box, Closing, Refused

from .atomic import write_new
from .files import Files, read_small
from .host import file_system, mount_number

OWN = ".spooltop"
"""The directory beside the boxes."""
STAGE = "stage"
"""Name of the directory below ``.spooltop`` that holds the staging directories."""
_FORMAT_FILE = "format"
FORMAT = b"2\n"
"""Content of ``.spooltop/format``: the number of the form in which names are written."""


class SpoolDirs(Closing):
    """Open descriptors of a spool. They are closed by ``close``, or when nothing refers to this object any more: every user of a
    descriptor refers to the object, so that no number is used after it was closed and assigned to another file.

    ``tmp``, ``new`` and ``cur`` are None if the box is missing, is not a directory, or may not be opened; ``errors`` says why.
    Opening the root raises ``OSError``. The path itself may contain links; below it, none are followed.
    """

    tmp: int | None = None
    new: int | None = None
    cur: int | None = None
    root = -1

    def __init__(self, path: str | os.PathLike[str], files: Files | None = None) -> None:
        self.path = os.path.abspath(os.fsdecode(path))
        self.files = files or Files()
        self.errors: dict[Box, OSError] = {}
        self._own: dict[tuple[str, ...], int] = {}
        self._removed: list[int] = []
        self._like: os.stat_result | None = None
        self._format_checked = False
        self._kind: str | None = None
        self._apart: tuple[Box, ...] | None = None
        self.root = self.files.open_dir(self.path, follow=True)
        for box in LIVE:
            try:
                setattr(self, box, self.files.open_dir(box.value, self.root))
            except OSError as error:
                self.errors[box] = error

    @property
    def missing(self) -> tuple[Box, ...]:
        """The boxes that are not there, or are no directories."""
        return tuple(box for box in LIVE if isinstance(self.errors.get(box), (FileNotFoundError, NotADirectoryError)))

    def box(self, box: Box) -> int:
        """The descriptor of ``tmp``, ``new`` or ``cur``. If there is none, raises the error that opening it gave."""
        fd: int | None = getattr(self, box)
        if fd is None:
            raise self.errors[box]
        return fd

    @property
    def kind(self) -> str:
        """Kind of file system that the spool is on ("ext4", "nfs4"), "?" if unknown."""
        if self._kind is None:
            self._kind = file_system(self.root)
        return self._kind

    @property
    def apart(self) -> tuple[Box, ...]:
        """The boxes on another mount than ``new``: rename(2) between the two fails, even within a file system."""
        if self._apart is None:
            others = ((Box.TMP, self.tmp), (Box.CUR, self.cur))
            new = None if self.new is None else self._mount_of(self.new)
            self._apart = () if new is None else tuple(box for box, fd in others if fd is not None and self._mount_of(fd) != new)
        return self._apart

    def _mount_of(self, fd: int) -> tuple[int, int | None]:
        return self.files.fstat(fd).st_dev, mount_number(fd)

    @property
    def owner_model(self) -> os.stat_result:
        """Owner, group and mode of new files and directories: owner, group and setgid of ``cur``, permission bits and sticky bit
        of ``new``. If either box is missing, those of the other box are used; if both are, those of the root."""
        if self._like is None:
            like = self.files.fstat(next(fd for fd in (self.cur, self.new, self.root) if fd is not None))
            if self.new is not None:
                rights = 0o777 | stat.S_ISVTX
                mode = like.st_mode & ~rights | self.files.fstat(self.new).st_mode & rights
                like = os.stat_result((mode, *tuple(like)[1:]))
            self._like = like
        return self._like

    def private_dir(self, *parts: str, create: bool = False) -> int | None:
        """Opens a directory below ``.spooltop``; the descriptor is kept open and must not be closed by the caller. None if the
        directory is missing and ``create`` is False. A new directory gets the owner, group, mode and setgid of ``cur``. One that
        was removed since it was opened is opened or made anew. Raises ``OSError`` if a component is a link or not a directory,
        and, before the first change, ``Refused`` if a newer spooltop has changed the format."""
        if create and not self._format_checked:
            self._check_format()
            self._format_checked = True
        known = self._own.get(parts)
        if known is not None:
            if self.files.is_linked(known):
                return known
            self._forget_removed()
        parent = self.private_dir(*parts[:-1], create=create) if parts else self.root
        if parent is None:
            return None
        name = parts[-1] if parts else OWN
        if "/" in name or name in ("", ".", ".."):
            raise ValueError(f"not the name of a directory: {name!r}")
        try:
            fd = self.files.open_dir(name, parent)
        except FileNotFoundError:
            if not create:
                return None
            make_dir(self.files, name, parent, self.owner_model, with_format=not parts)
            fd = self.files.open_dir(name, parent)
        kept = self._own.setdefault(parts, fd)
        if kept != fd:
            self.files.close(fd)  # another thread was quicker
        return kept

    def own_dir(self, *parts: str) -> int:
        """Opens a directory below ``.spooltop`` as ``private_dir`` does, and makes it where it is missing."""
        opened = self.private_dir(*parts, create=True)
        assert opened is not None
        return opened

    def _check_format(self) -> None:
        """Raises ``Refused`` if the number in ``format`` is higher than that of this version."""
        own = self.private_dir()
        if own is None:
            return  # it is made with the number
        try:
            found = read_small(_FORMAT_FILE, own, files=self.files, limit=16).data.strip()
        except OSError:
            return  # names are readable without the number, so that acks and the emptying of the trash go on
        if found.isdigit() and int(found) > int(FORMAT):
            raise Refused(
                f"its format is {int(found)}, this spooltop knows up to {int(FORMAT)}",
                "update spooltop; looking goes on",
                path=self.path,
            )  # fmt: skip

    def forget(self, *parts: str) -> None:
        """Closes the descriptor that ``private_dir`` keeps for ``parts``, for directories that come and go, as those of
        operations do."""
        fd = self._own.pop(parts, None)
        if fd is not None:
            self.files.close(fd)

    def _forget_removed(self) -> None:
        """Forgets the directories below ``.spooltop`` that were removed. Their descriptors stay open until the end, as another
        thread may be using them."""
        for parts, fd in list(self._own.items()):
            if not self.files.is_linked(fd) and self._own.pop(parts, None) is not None:
                self._removed.append(fd)

    def swapped(self) -> Sequence[Box]:
        """The boxes whose name now leads to another directory than the one that is open, or that appeared since."""
        out = []
        for box in LIVE:
            fd: int | None = getattr(self, box)
            try:
                now = self.files.stat(box.value, self.root)
            except OSError:
                if fd is not None:
                    out.append(box)
                continue
            if fd is None or not os.path.samestat(now, self.files.fstat(fd)):
                out.append(box)
        return out

    def moved(self) -> bool:
        """True if the path of the spool now leads to another directory, or to none."""
        try:
            return not os.path.samestat(os.stat(self.path), self.files.fstat(self.root))
        except OSError:
            return True

    def stamps(self) -> tuple[int, ...]:
        """The times of the last change of all directories that are open."""
        fds = (self.root, self.tmp, self.new, self.cur, *self._own.values())
        return tuple(self.files.fstat(fd).st_ctime_ns for fd in fds if fd is not None)

    def close(self) -> None:
        """Closes all descriptors; a second call does nothing. One that fails to close keeps no other from being closed."""
        own = (*self._own.values(), *self._removed)
        fds = [fd for fd in (self.tmp, self.new, self.cur, *own, self.root) if fd is not None and fd >= 0]
        self.tmp = self.new = self.cur = None
        self.root = -1
        self._own.clear()
        self._removed.clear()
        self.files.close_all(fds)

    def __del__(self) -> None:
        try:
            self.close()
        except OSError:
            return  # directories are only read: a close that reports an error loses nothing, and here nobody hears of it


def make_dir(
    files: Files, name: str, parent: int, like: os.stat_result, *, with_format: bool = False, durable: bool = True
) -> None:
    """Makes a directory with the owner and mode of ``like``, unless somebody else makes it meanwhile. ``with_format``: the file
    ``format`` lies in it from the beginning. ``durable``: it survives power loss. Raises ``OSError``."""
    # Under another name until it has its owner: cut off in between, root would leave a directory that locks others out.
    draft = f".{name.lstrip('.')[:200]}.{os.urandom(8).hex()}"
    files.mkdir(draft, parent, 0o700)
    with files.closing(files.open_dir(draft, parent)) as fd:
        if with_format:
            write_new(files, fd, _FORMAT_FILE, FORMAT, like)
            files.sync_dir(fd)
        files.copy_owner(fd, like)
    try:
        files.move(draft, parent, name, parent)
    except OSError as error:
        # link(2) takes no directories, so without renameat2 a plain rename does it; it replaces an empty directory at most.
        if error.errno == errno.EPERM:
            files.rename(draft, parent, name, parent)
        elif isinstance(error, FileExistsError):
            if with_format:  # somebody else made it meanwhile
                with files.closing(files.open_dir(draft, parent)) as fd:
                    files.unlink(_FORMAT_FILE, fd)
            files.rmdir(draft, parent)
        else:
            raise
    if durable:
        files.sync_dir(parent)


class OpenBoxes:
    """The descriptors that a consumer works on. Whatever uses one refers to this object meanwhile, and so keeps it open."""

    __slots__ = ("cur", "dirs", "files", "new")

    def __init__(self, dirs: SpoolDirs) -> None:
        self.dirs = dirs
        self.files = dirs.files
        self.new = dirs.box(Box.NEW)
        self.cur = dirs.box(Box.CUR)

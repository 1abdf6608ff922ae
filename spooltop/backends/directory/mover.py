"""Moves single messages between boxes, each pinned by identity, none ever replaced; and syncs what a batch has touched."""

from __future__ import annotations

import os
from functools import partial
from json.encoder import encode_basestring_ascii as quoted
from stat import S_IMODE, S_ISREG

from ...engine import aside
from ...engine.dirs import SpoolDirs
from ...engine.files import mode_like
from ...model.plan import Outcome
from ...model.text import escape
from ...model.words import LIVE, Box
from .errands import Errand, Errands
from .folders import Folder, Folders, drop_folder
from .holder import LastLook
from .journal import Moved
from .repair import Repaired

__all__ = ["Mover"]


_DONE = Outcome.DONE
_moved = partial(tuple.__new__, Moved)


class Mover:
    """For one operation. ``sync`` once a batch."""

    def __init__(self, dirs: SpoolDirs, look: LastLook, repaired: Repaired) -> None:
        self._dirs = dirs
        self._files = dirs.files
        self._look = look
        self._repaired = repaired
        self.folders = Folders(dirs, self._sync_all)
        self._touched: dict[Folder, bool] = {}
        """In the order of the last change, and whether as a target."""
        self._noted: tuple[Folder | None, Folder | None] = (None, None)
        self._fit: set[int] = set()
        self._beside: dict[tuple[int, str], str] = {}
        self._trouble = ""
        self._emptied: set[str] = set()

    def prepare(self, errands: Errands) -> None:
        """To be called just before the moves of a batch."""
        self._look.prepare(errands.to_look_at())

    def move(self, errand: Errand) -> Moved:
        """What came of it; never raises ``OSError``."""
        try:
            return self._move(errand)
        except OSError as error:
            return Moved(Outcome.FAILED, _words(error))

    def _move(self, errand: Errand) -> Moved:
        box, name, folder, ino, size, ctime_ns, folder_id, token, to_box, to_name, to_folder, planned, way, _ = errand
        files, folders = self._files, self.folders
        try:
            source = folders.of(box, folder)
            found = files.stat(name, source.fd)
        except FileNotFoundError:
            return self._gone(errand)
        if source.id != folder_id:
            return Moved(Outcome.SKIPPED, f"{box} is another directory than in the plan")
        same = found.st_ino == ino and found.st_size == size and found.st_ctime_ns == ctime_ns
        if not S_ISREG(found.st_mode) or not (same or self._mended(errand, found)):
            return Moved(Outcome.SKIPPED, "changed since the plan")
        half_moved = False
        if found.st_nlink != 1:
            half_moved = found.st_nlink == 2 and self._half_moved(errand)
            if not half_moved:
                return Moved(Outcome.SKIPPED, "has a second name (a hard link)")
        if not way.forced:
            why = self._look.why_not(box, name, token, planned)
            if why is not None:
                return Moved(Outcome.SKIPPED, why)
        if to_box is None:
            return self._delete(errand, source)
        to = folders.of(to_box, to_folder, create=True)
        if folder:
            source = folders.of(box, folder)  # it may have been closed to make room
        try:
            if half_moved:
                files.sync_dir(to.fd)
                files.unlink(name, source.fd)
            elif to_folder:
                self._set_aside(errand, source, to)
            else:
                # Not told its inode: another operator's move to the same name would pass for ours.
                files.move(name, source.fd, to_name, to.fd)
        except FileNotFoundError as error:
            if self._inode(name, source.fd) == ino:
                return Moved(Outcome.FAILED, _words(error))  # where it was to go is gone, not the message
            return self._gone(errand)
        except FileExistsError:
            return Moved(Outcome.FAILED, f"{to_box} already has a file of that name; it stays in {box}")
        except OSError as error:
            if self._inode(name, source.fd) == ino or self._inode(to_name, to.fd) != ino:
                return Moved(Outcome.FAILED, _words(error))
            self._note(source, to)
            return Moved(Outcome.FAILED, f"moved, but: {_words(error)}", True, ino)
        self._note(source, to)
        if folder:
            self._drop_meta(name, source.fd)
        # Only where others take from does it matter whether it went on and came back.
        return _moved((_DONE, "", True, ino, self._ctime(to_name, to.fd, ino) if to_box in LIVE else 0))

    def _delete(self, errand: Errand, source: Folder) -> Moved:
        """The message first: while it stands there, what is known of it does too."""
        name, ino = errand.name, errand.ino
        try:
            self._files.unlink(name, source.fd)
        except FileNotFoundError:
            return self._gone(errand)
        except OSError as error:
            if self._there(name, source.fd) is not False:
                return Moved(Outcome.FAILED, _words(error))
            self._note(source, None)
            return Moved(Outcome.FAILED, f"deleted, but: {_words(error)}", True, ino)
        self._note(source, None)
        if errand.folder:
            self._drop_meta(name, source.fd)
            if errand.box is Box.TRASH:
                self._emptied.add(errand.folder)
        return Moved(Outcome.DONE, "", True, ino)

    def sync(self) -> str:
        """Syncs the targets, then the sources, of all moves since the last time. Empty, or in words what went wrong."""
        try:
            self.folders.close()
        except OSError as error:
            self._trouble = self._trouble or f"moved, but: {_words(error)}"
        for folder in self._emptied:
            drop_folder(self._dirs, Box.TRASH, folder)
        self._emptied.clear()
        trouble, self._trouble = self._trouble, ""
        return trouble

    def _sync_all(self) -> None:
        last = {folder.id[0]: folder for folder in self._touched}
        # Where changes of names keep their order the directory that was changed last stands for all of its device; one that was
        # changed before that may have been synced by somebody since, and then its sync does nothing.
        enough = {device for device, folder in last.items() if self._ordered(folder)}
        for folder in sorted(self._touched, key=self._touched.__getitem__, reverse=True):  # the targets first
            if folder.id[0] in enough and last[folder.id[0]] is not folder:
                continue
            try:
                self._files.sync_dir(folder.fd)
            except OSError as error:
                self._trouble = self._trouble or f"moved, but a power cut may take it back: {_words(error)}"
        self._touched.clear()
        self._noted = None, None
        self._fit.clear()
        self._beside.clear()

    def _ordered(self, folder: Folder) -> bool:
        try:
            return self._files.ordered(folder.fd)
        except OSError:
            return False  # not known: then each is synced, and tells what is wrong

    def _set_aside(self, errand: Errand, source: Folder, to: Folder) -> None:
        """The metadata first: a message is never aside without it."""
        ino, name = errand.ino, errand.to_name
        beside = aside.meta_name(name)
        before = self._beside.get((to.fd, errand.way.meta)) if name in beside else None
        if before is None or not self._linked(before, beside, to):
            self._write_meta(errand, name, beside, to)
        try:
            self._files.move(errand.name, source.fd, name, to.fd, inode=ino if errand.way.alone else None)
        except OSError:
            if self._inode(name, to.fd) != ino:
                self._drop_meta(name, to.fd)
            raise

    def _linked(self, before: str, beside: str, to: Folder) -> bool:
        """Gives the metadata ``before``, which says the same, the name ``beside`` too: a third of the time of a file."""
        try:
            self._files.link(before, to.fd, beside, to.fd)
        except OSError:
            return False  # what is wrong is told by writing them: no links here, too many of them, or that one is gone
        return True

    def _write_meta(self, errand: Errand, name: str, beside: str, to: Folder) -> None:
        try:
            fd = self._files.create(beside, to.fd)
        except FileExistsError:
            if self._inode(name, to.fd) is not None:
                raise
            self._files.unlink(beside, to.fd)  # left by one that was cut off
            fd = self._files.create(beside, to.fd)
        shared = name in beside  # else the name is too long to stand there, and stands inside
        inside = "" if shared else f', "name": {quoted(name)}'
        try:
            try:
                self._files.write_all(fd, f"{errand.way.meta}{inside}}}\n".encode())
                if to.fd not in self._fit:
                    self._make_fit(fd, to)
            finally:
                self._files.close(fd)
        except OSError:
            self._drop_meta(name, to.fd)
            raise
        if shared:
            self._beside[to.fd, errand.way.meta] = beside

    def _make_fit(self, fd: int, to: Folder) -> None:
        """Gives the metadata to whom it belongs, and finds out whether all in this folder are born so."""
        like, born = self._dirs.like, self._files.fstat(fd)
        self._files.own_as(fd, like)
        if (born.st_uid, born.st_gid, S_IMODE(born.st_mode)) == (like.st_uid, like.st_gid, mode_like(like, False)):
            self._fit.add(to.fd)

    def _note(self, source: Folder, to: Folder | None) -> None:
        if self._noted[0] is source and self._noted[1] is to:
            return  # as for nearly all of a batch: they are the last that were changed
        for folder in (source, to):
            if folder is not None:
                self._touched[folder] = self._touched.pop(folder, False) or folder is to
        self._noted = source, to

    def _mended(self, errand: Errand, found: os.stat_result) -> bool:
        return found.st_ino in self._repaired.inodes and (found.st_ino, found.st_size) == (errand.ino, errand.size)

    def _gone(self, errand: Errand) -> Moved:
        became = self._repaired.in_cur.get((errand.name, errand.ino)) if errand.box is Box.CUR else None
        if became is not None and errand.to_box is Box.NEW:
            return Moved(Outcome.DONE, "an interrupted move was finished", True, errand.ino)
        return Moved(Outcome.SKIPPED, errand.way.gone)

    def _drop_meta(self, name: str, dir_fd: int) -> None:
        try:
            self._files.unlink(aside.meta_name(name), dir_fd)
        except OSError:
            return  # metadata without a message are never shown; where the message stands is what counts

    def _half_moved(self, errand: Errand) -> bool:
        """True where an interrupted link and unlink has left the same file at the target already."""
        if errand.to_box is None:
            return False
        try:
            return self._inode(errand.to_name, self.folders.of(errand.to_box, errand.to_folder).fd) == errand.ino
        except FileNotFoundError:
            return False

    def _there(self, name: str, dir_fd: int) -> bool | None:
        """Whether there is anything under that name; None where it is not to be seen."""
        try:
            self._files.stat(name, dir_fd)
        except FileNotFoundError:
            return False
        except OSError:
            return None
        return True

    def _inode(self, name: str, dir_fd: int) -> int | None:
        try:
            return self._files.stat(name, dir_fd).st_ino
        except OSError:
            return None  # not there, or not to be seen: then it is not known to be there

    def _ctime(self, name: str, dir_fd: int, ino: int) -> int:
        """Where a consumer was quicker the file has gone on already: 0."""
        try:
            found = self._files.stat(name, dir_fd)
        except OSError:
            return 0
        return found.st_ctime_ns if found.st_ino == ino else 0


def _words(error: OSError) -> str:
    name = f" ({escape(os.fsdecode(error.filename))})" if isinstance(error.filename, (str, bytes)) else ""
    return f"{error.strerror or error}{name}"

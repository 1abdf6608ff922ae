"""Moves single messages between boxes, each pinned by identity, none ever replaced; and syncs what a batch has touched."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...engine import aside
from ...engine.dirs import SpoolDirs
from ...model.plan import Outcome
from ...model.text import escape
from ...model.words import ASIDE, Box, Json, Verdict
from .holder import LastLook
from .journal import Moved
from .places import Place, Ref, kind_of
from .repair import Repaired

__all__ = ["Errand", "Mover", "fd_of"]


def fd_of(dirs: SpoolDirs, place: Place, *, create: bool = False) -> int:
    """The descriptor of the directory of ``place``, kept by ``dirs``. ``FileNotFoundError`` where there is none."""
    if place.box not in ASIDE:
        return dirs.box(place.box)
    fd = aside.folder(dirs, place.box, place.folder, create=create)
    if fd is None:
        raise FileNotFoundError(f"{place.box}/{place.folder}")
    return fd


@dataclass(frozen=True, slots=True)
class Errand:
    """One message to move. ``meta`` goes beside it where it is set aside. ``gone`` says what it means that it is not there."""

    ref: Ref
    target: Place
    planned: Verdict | None
    forced: bool
    meta: Mapping[str, Json]
    gone: str


class Mover:
    """For one operation. ``sync`` once a batch."""

    def __init__(self, dirs: SpoolDirs, look: LastLook, repaired: Repaired) -> None:
        self._dirs = dirs
        self._files = dirs.files
        self._look = look
        self._repaired = repaired
        self._sources: set[int] = set()
        self._targets: set[int] = set()
        self._folders: set[tuple[Box, str]] = set()

    def prepare(self, errands: Sequence[Errand]) -> None:
        """To be called just before the moves of a batch."""
        self._look.prepare(
            (errand.ref.place.box, errand.ref.place.name, errand.ref.token) for errand in errands if not errand.forced
        )

    def move(self, errand: Errand) -> Moved:
        """What came of it; never raises ``OSError``."""
        try:
            return self._move(errand)
        except OSError as error:
            return Moved(Outcome.FAILED, _words(error))

    def _move(self, errand: Errand) -> Moved:
        ref, target = errand.ref, errand.target
        place = ref.place
        self._folders |= {(one.box, one.folder) for one in (place, target) if one.folder}
        try:
            source_fd = fd_of(self._dirs, place)
            found = self._files.stat(place.name, source_fd)
        except FileNotFoundError:
            return self._gone(errand)
        folder = self._files.fstat(source_fd)
        if (folder.st_dev, folder.st_ino) != ref.folder_id:
            return Moved(Outcome.SKIPPED, f"{place.box} is another directory than in the plan")
        mended = found.st_ino in self._repaired.inodes and (found.st_ino, found.st_size) == (ref.ino, ref.size)
        if kind_of(found) or not (ref.same(found) or mended):
            return Moved(Outcome.SKIPPED, "changed since the plan")
        half_moved = found.st_nlink == 2 and self._half_moved(ref, target)
        if found.st_nlink != 1 and not half_moved:
            return Moved(Outcome.SKIPPED, "has a second name (a hard link)")
        if not errand.forced:
            why = self._look.why_not(place.box, place.name, ref.token, errand.planned)
            if why is not None:
                return Moved(Outcome.SKIPPED, why)
        target_fd = fd_of(self._dirs, target, create=True)
        try:
            if half_moved:
                self._files.sync_dir(target_fd)
                self._files.unlink(place.name, source_fd)
            elif target.box in ASIDE and target.name != place.name:
                self._back_aside(errand, source_fd, target_fd)
            elif target.box in ASIDE:
                aside.set_aside(self._dirs, target.box, target.folder, target.name, source_fd, errand.meta, inode=ref.ino)
            else:
                # Not told its inode: another operator's move to the same name would pass for ours.
                self._files.move(place.name, source_fd, target.name, target_fd)
        except FileNotFoundError:
            return self._gone(errand)
        except FileExistsError:
            return Moved(Outcome.FAILED, f"{target.box} already has a file of that name; it stays in {place.box}")
        except OSError as error:
            if self._inode(place.name, source_fd) == ref.ino or self._inode(target.name, target_fd) != ref.ino:
                return Moved(Outcome.FAILED, _words(error))
            self._note(source_fd, target_fd)
            return Moved(Outcome.FAILED, f"moved, but: {_words(error)}", True, ref.ino)
        self._note(source_fd, target_fd)
        if place.box in ASIDE:
            self._forget_meta(place)
        return Moved(Outcome.DONE, "", True, ref.ino, self._ctime(target.name, target_fd, ref.ino))

    def sync(self) -> str:
        """Syncs the targets, then the sources, of all moves since the last time. Empty, or in words what went wrong."""
        trouble = ""
        for fds in (self._targets, self._sources):
            for fd in fds:
                try:
                    self._files.sync_dir(fd)
                except OSError as error:
                    trouble = trouble or f"moved, but a power cut may take it back: {_words(error)}"
            fds.clear()
        for box, folder in self._folders:
            try:  # an operation may take from more folders than there are descriptors
                self._dirs.forget(box.value, folder)
            except OSError as error:
                trouble = trouble or f"moved, but: {_words(error)}"
        self._folders.clear()
        return trouble

    def _back_aside(self, errand: Errand, source_fd: int, target_fd: int) -> None:
        """Back to the side under the name that it had there: the metadata first, as for everything that is set aside."""
        name, beside = errand.target.name, aside.meta_name(errand.target.name)
        fd = self._files.create(beside, target_fd)
        try:
            self._files.write_all(fd, json.dumps({**errand.meta, "name": name}).encode() + b"\n")
            self._files.own_as(fd, self._dirs.like)
        finally:
            self._files.close(fd)
        try:
            self._files.move(errand.ref.place.name, source_fd, name, target_fd)
        except OSError:
            self._forget_meta(errand.target)
            raise

    def _note(self, source_fd: int, target_fd: int) -> None:
        self._sources.add(source_fd)
        self._targets.add(target_fd)

    def _gone(self, errand: Errand) -> Moved:
        place = errand.ref.place
        became = self._repaired.in_cur.get((place.name, errand.ref.ino)) if place.box is Box.CUR else None
        if became is not None and errand.target.box is Box.NEW:
            return Moved(Outcome.DONE, "an interrupted move was finished", True, errand.ref.ino)
        return Moved(Outcome.SKIPPED, errand.gone)

    def _forget_meta(self, place: Place) -> None:
        try:
            aside.remove_meta(self._dirs, aside.Entry(place.box, place.folder, place.name))
        except OSError:
            return  # metadata without a message are never shown; the message itself has moved

    def _half_moved(self, ref: Ref, target: Place) -> bool:
        """True where an interrupted link and unlink has left the same file at the target already."""
        try:
            return self._inode(target.name, fd_of(self._dirs, target)) == ref.ino
        except FileNotFoundError:
            return False

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

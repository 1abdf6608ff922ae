"""Finishes what a crash left half done, at the first change and never by a viewer.

Where a move had to be link and unlink, a crash between the two leaves two names of one file. A second name in ``cur`` whose
holder is dead is removed when ``new`` holds the same inode. A second name that an interrupted operation set aside is removed
while the message is still in a box, or where it had been set aside before, and so is the one in ``tmp`` of an injected message.
Two inodes under one id are no half move: they are left alone. The metadata of a message that was deleted are removed after it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager
from itertools import chain, islice

from spooltop.engine import names, set_aside
from spooltop.engine.atomic import make_file
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.system.files import is_inode
from spooltop.model.vocabulary import ASIDE, Box, Verdict
from spooltop.records import dataclass, field

from ....journal.log_files import LogFiles, plain_now
from ...journal.journal import MoveOperation, unsure_moves
from ...storage.folders import Folders, drop_folder
from ...storage.location import Place
from .recheck import Recheck

__all__ = ["Repaired", "finish_half_moves", "half_moved"]

_FEW = 64
"""Claims that are looked at one by one, rather than listing the inodes of all waiting messages."""
_MANY = 200_000
_LOCK = "repair.lock"
"""The lock file stays when the lock is released: removing it would allow two of them."""


@dataclass(slots=True)
class Repaired:
    """The names that were removed. ``in_cur``: (name in ``cur``, inode) → the name in ``new`` that stays. ``inodes``: other
    files that lost a second name, which has changed their ctime."""

    in_cur: dict[tuple[str, int], str] = field(default_factory=dict)
    inodes: set[int] = field(default_factory=set)


def half_moved(operations: Iterable[MoveOperation]) -> frozenset[int]:
    """The inodes that an interrupted operation was setting aside or putting back, so that they may have two names."""
    return frozenset(
        move.ino
        for operation in operations
        if operation.open
        for move in unsure_moves(operation)
        if any(place is not None and place.box in ASIDE for place in (move.source, move.target))
    )


def finish_half_moves(dirs: SpoolDirs, files: LogFiles, recheck: Recheck, operations: Sequence[MoveOperation]) -> Repaired:
    """Removes the second names, unless somebody else is doing it. Raises ``OSError``."""
    doubled = _doubled(dirs)
    if not doubled and not any(_second_names(dirs, operations)) and not any(_left_behind(dirs, operations)):
        return Repaired()
    with _alone(dirs, files) as alone:
        if not alone:
            return Repaired()
        for place in list(_left_behind(dirs, operations)):
            set_aside.remove_meta(dirs, set_aside.Entry(place.box, place.folder, place.name))
            if place.box is Box.TRASH:
                drop_folder(dirs, place.box, place.folder)
        return Repaired(_drop_linked_claims(dirs, recheck, doubled), _drop_second_names(dirs, operations))


@contextmanager
def _alone(dirs: SpoolDirs, files: LogFiles) -> Iterator[bool]:
    """Holds the lock on ``repair.lock`` beside the boxes. False where somebody else has it, or where there are no such locks."""
    own = dirs.private_dir(create=True)
    assert own is not None  # create=True makes it or raises
    try:
        files.stat(_LOCK, own)
    except FileNotFoundError:
        make_file(files, own, _LOCK, dirs.owner_model)
    fd = files.open_lasting(_LOCK, own)
    try:
        plain_now(files, fd, own, _LOCK)
        try:
            alone = files.lock_coarse(fd)
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
                raise
            alone = False
        yield alone
    finally:
        files.close(fd)


def _doubled(dirs: SpoolDirs) -> dict[int, str]:
    """The files with two names, one of them in ``cur``, that may have the other in ``new``: inode → name in ``cur``."""
    doubled: dict[int, str] = {}
    files, cur = dirs.files, dirs.cur
    if cur is None:
        return doubled
    with closing(files.inodes(cur)) as claims:
        first = list(islice(claims, _FEW))
        waiting = _waiting(dirs) if len(first) == _FEW else None
        if waiting is not None and not waiting:
            return doubled
        for name, ino in chain(first, claims):
            if waiting is not None and ino not in waiting:
                continue
            try:
                found = files.stat(name, cur)
            except FileNotFoundError:
                continue
            if found.st_nlink == 2:
                doubled[found.st_ino] = name
    return doubled


def _waiting(dirs: SpoolDirs) -> Set[int] | None:
    """The inodes in ``new``; None where they are too many to keep."""
    if dirs.new is None:
        return frozenset()
    with closing(dirs.files.inodes(dirs.new)) as entries:
        found = {ino for _, ino in islice(entries, _MANY)}
    return found if len(found) < _MANY else None


def _drop_linked_claims(dirs: SpoolDirs, recheck: Recheck, doubled: Mapping[int, str]) -> dict[tuple[str, int], str]:
    files, cur, new = dirs.files, dirs.cur, dirs.new
    gone: dict[tuple[str, int], str] = {}
    if not doubled or cur is None or new is None:
        return gone
    linked: list[tuple[str, int, str, str | None]] = []
    for waiting in files.list(new):
        try:
            ino = files.stat(waiting, new).st_ino
        except FileNotFoundError:
            continue
        if ino in doubled:
            linked.append((doubled[ino], ino, waiting, names.parse(doubled[ino], claimed=True).token))
    recheck.prepare([(Box.CUR, name, token) for name, _, _, token in linked])
    for name, ino, waiting, token in linked:
        if recheck.blocked_by(Box.CUR, name, token, Verdict.DEAD) is not None:
            continue
        try:
            if is_inode(files, name, cur, ino) and is_inode(files, waiting, new, ino):
                files.unlink(name, cur)
                gone[name, ino] = waiting
        except FileNotFoundError:
            continue  # a consumer or another operator was quicker
    if gone:
        files.sync_dir(cur)
    return gone


def _second_names(dirs: SpoolDirs, operations: Iterable[MoveOperation]) -> Iterator[tuple[Place, int]]:
    """The second names of messages that interrupted operations were moving, each with its inode: a name set aside of a message
    that is still in a box, and a name in ``tmp`` of an injected one."""
    folders = Folders(dirs)
    for operation in operations:
        for move in unsure_moves(operation):
            if move.target is None:
                continue
            if move.source is None:
                drafted = Place(Box.TMP, move.target.name)
                if (ino := _doubled_inode(dirs, folders, drafted)) is not None:
                    yield drafted, ino
                continue
            if move.source.folder and move.target.folder:
                if move.ino == _doubled_inode(dirs, folders, move.target) == _doubled_inode(dirs, folders, move.source):
                    yield move.target, move.ino
                continue
            for place in (move.source, move.target):
                if place.folder and _doubled_inode(dirs, folders, place) == move.ino and _in_a_box(dirs, move.ino):
                    yield place, move.ino


def _left_behind(dirs: SpoolDirs, operations: Iterable[MoveOperation]) -> Iterator[Place]:
    """The places from which interrupted operations have deleted a message that had been set aside, while its metadata are still
    there, or beside the folder, which is empty."""
    folders = Folders(dirs)
    looked_at: set[str] = set()
    for operation in operations:
        for move in unsure_moves(operation):
            place = move.source
            if move.target is not None or place is None or not place.folder:
                continue
            metadata = Place(place.box, set_aside.meta_name(place.name), place.folder)
            if _there(dirs, folders, metadata) and not _there(dirs, folders, place):
                yield place
            elif place.box is Box.TRASH and place.folder not in looked_at:
                looked_at.add(place.folder)
                if _emptied(dirs, folders, place):
                    yield place


def _drop_second_names(dirs: SpoolDirs, operations: Iterable[MoveOperation]) -> set[int]:
    files = dirs.files
    inodes: set[int] = set()
    for place, ino in list(_second_names(dirs, operations)):
        inodes.add(ino)
        try:
            fd = Folders(dirs).of(place.box, place.folder).fd
            files.unlink(place.name, fd)
            files.sync_dir(fd)
            if place.folder:
                set_aside.remove_meta(dirs, set_aside.Entry(place.box, place.folder, place.name))
        except FileNotFoundError:
            continue  # another operator was quicker
    return inodes


def _emptied(dirs: SpoolDirs, folders: Folders, place: Place) -> bool:
    """True where the folder is empty or gone, and the common metadata still lie beside it."""
    if not folders.shared(place.box, place.folder):
        return False
    try:
        fd = folders.of(place.box, place.folder).fd
    except FileNotFoundError:
        return True
    return next(iter(dirs.files.scan(fd)), None) is None


def _there(dirs: SpoolDirs, folders: Folders, place: Place) -> bool:
    try:
        dirs.files.stat(place.name, folders.of(place.box, place.folder).fd)
    except FileNotFoundError:
        return False
    return True


def _doubled_inode(dirs: SpoolDirs, folders: Folders, place: Place) -> int | None:
    """The inode at ``place`` where it has two names."""
    try:
        found = dirs.files.stat(place.name, folders.of(place.box, place.folder).fd)
    except FileNotFoundError:
        return None
    return found.st_ino if found.st_nlink == 2 else None


def _in_a_box(dirs: SpoolDirs, ino: int) -> bool:
    files = dirs.files
    for fd in (dirs.tmp, dirs.new, dirs.cur):
        if fd is None:
            continue
        if any(is_inode(files, name, fd, ino) for name in files.list(fd)):
            return True
    return False

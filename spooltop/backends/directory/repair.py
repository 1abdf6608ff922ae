"""Finishes what a crash left half done, at the first change and never by a viewer.

Where a move had to be link and unlink, a crash between the two leaves two names of one file. A second name in ``cur`` whose
holder is dead goes when ``new`` holds the same inode. A second name that an interrupted operation set aside goes while the
message still stands in a box, and so does the one in ``tmp`` of an injected message. Two inodes under one id are nobody's half
move: they are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...engine import aside, names
from ...engine.dirs import SpoolDirs
from ...model.words import ASIDE, LIVE, Box, Verdict
from .holder import LastLook
from .journal import Operation
from .places import Place

__all__ = ["Repaired", "finish_half_moves", "half_moved"]


@dataclass(slots=True)
class Repaired:
    """What was taken away. ``in_cur``: (name in ``cur``, inode) → the name in ``new`` that stays. ``inodes``: other files
    that lost a second name, which has changed their ctime."""

    in_cur: dict[tuple[str, int], str] = field(default_factory=dict)
    inodes: set[int] = field(default_factory=set)


def half_moved(operations: Iterable[Operation]) -> frozenset[int]:
    """The inodes that an interrupted operation was setting aside or putting back, so that they may have two names."""
    return frozenset(
        move.ino
        for operation in operations
        if operation.open
        for move, result in operation.steps()
        if result is None and any(place is not None and place.box in ASIDE for place in (move.source, move.target))
    )


def finish_half_moves(dirs: SpoolDirs, look: LastLook, operations: Iterable[Operation]) -> Repaired:
    """Takes the second names away. Raises ``OSError``."""
    interrupted = [operation for operation in operations if operation.open]
    return Repaired(_twins_in_cur(dirs, look), _twins_aside(dirs, interrupted) | _twins_in_tmp(dirs, interrupted))


def _twins_in_cur(dirs: SpoolDirs, look: LastLook) -> dict[tuple[str, int], str]:
    files, cur, new = dirs.files, dirs.cur, dirs.new
    if cur is None or new is None:
        return {}
    doubled: dict[int, str] = {}
    for name in files.scan(cur):
        try:
            found = files.stat(name, cur)
        except FileNotFoundError:
            continue
        if found.st_nlink == 2:
            doubled[found.st_ino] = name
    gone: dict[tuple[str, int], str] = {}
    if not doubled:
        return gone
    for waiting in files.list(new):
        try:
            ino = files.stat(waiting, new).st_ino
        except FileNotFoundError:
            continue
        name = doubled.get(ino, "")
        token = names.parse(name, claimed=True).token if name else None
        if not name:
            continue
        look.prepare([(Box.CUR, name, token)])
        if look.why_not(Box.CUR, name, token, Verdict.DEAD) is not None:
            continue
        try:
            if files.stat(name, cur).st_ino == ino and files.stat(waiting, new).st_ino == ino:
                files.unlink(name, cur)
                gone[name, ino] = waiting
        except FileNotFoundError:
            continue  # a consumer or another operator was quicker
    if gone:
        files.sync_dir(cur)
    return gone


def _twins_aside(dirs: SpoolDirs, operations: Iterable[Operation]) -> set[int]:
    files = dirs.files
    inodes: set[int] = set()
    for operation in operations:
        for move, result in operation.steps():
            for place in (move.source, move.target):
                if result is None and place is not None and place.box in ASIDE and _second_name(dirs, place, move.ino):
                    fd = aside.folder(dirs, place.box, place.folder)
                    if fd is None:
                        continue
                    inodes.add(move.ino)
                    try:
                        files.unlink(place.name, fd)
                        files.sync_dir(fd)
                        aside.remove_meta(dirs, aside.Entry(place.box, place.folder, place.name))
                    except FileNotFoundError:
                        continue  # another operator was quicker
    return inodes


def _twins_in_tmp(dirs: SpoolDirs, operations: Iterable[Operation]) -> set[int]:
    """A message that was put under a name of ours, and still has that name in ``tmp`` too."""
    files, tmp = dirs.files, dirs.tmp
    inodes: set[int] = set()
    for operation in operations:
        for move, result in operation.steps():
            if tmp is None or move.source is not None or result is not None:
                continue
            try:
                found = files.stat(move.target.name, tmp)
                if found.st_nlink == 2:
                    files.unlink(move.target.name, tmp)
                    inodes.add(found.st_ino)
            except FileNotFoundError:
                continue  # it never got that far, or it was moved as it should be
    return inodes


def _second_name(dirs: SpoolDirs, place: Place, ino: int) -> bool:
    """True where ``place`` is the inode ``ino`` with two names, and the other one stands in a box."""
    files = dirs.files
    try:
        fd = aside.folder(dirs, place.box, place.folder)
        if fd is None:
            return False
        found = files.stat(place.name, fd)
    except FileNotFoundError:
        return False
    if found.st_ino != ino or found.st_nlink != 2:
        return False
    for box in LIVE:
        box_fd = {Box.TMP: dirs.tmp, Box.NEW: dirs.new, Box.CUR: dirs.cur}[box]
        if box_fd is None:
            continue
        for name in files.list(box_fd):
            try:
                if files.stat(name, box_fd).st_ino == ino:
                    return True
            except FileNotFoundError:
                continue
    return False

"""Finishes what a crash left half done, at the first change and never by a viewer.

Where a move had to be link and unlink, a crash between the two leaves two names of one file. A second name in ``cur`` whose
holder is dead goes when ``new`` holds the same inode; a second name that an interrupted operation set aside goes while the
message still stands in a box. Two inodes under one id are nobody's half move: they are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...engine import aside, names
from ...engine.dirs import SpoolDirs
from ...model.words import ASIDE, LIVE, Box, Verdict
from .holder import LastLook
from .journal import Operation
from .places import Place

__all__ = ["finish_half_moves"]


def finish_half_moves(dirs: SpoolDirs, look: LastLook, operations: Iterable[Operation]) -> dict[tuple[str, int], str]:
    """Takes the second names away. Returns (name in ``cur``, inode) → the name in ``new`` that stays. Raises ``OSError``."""
    gone = _twins_in_cur(dirs, look)
    _twins_aside(dirs, (operation for operation in operations if operation.open))
    return gone


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


def _twins_aside(dirs: SpoolDirs, operations: Iterable[Operation]) -> None:
    files = dirs.files
    for operation in operations:
        for move, result in operation.steps():
            for place in (move.source, move.target):
                if result is None and place is not None and place.box in ASIDE and _second_name(dirs, place, move.ino):
                    fd = aside.folder(dirs, place.box, place.folder)
                    if fd is None:
                        continue
                    try:
                        files.unlink(place.name, fd)
                        files.sync_dir(fd)
                        aside.remove_meta(dirs, aside.Entry(place.box, place.folder, place.name))
                    except FileNotFoundError:
                        continue  # another operator was quicker


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

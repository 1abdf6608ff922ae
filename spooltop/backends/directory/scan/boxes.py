"""The three boxes of a spool, looked at together: their scans, the ids that are in two of them, and irregular files."""

from __future__ import annotations

import os
from collections.abc import Iterable

from spooltop.engine import names
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.row import Row
from spooltop.model.vocabulary import LIVE, Box, Key
from spooltop.records import dataclass, replace

from ..storage.name_forms import NameForms
from ..storage.rows import claim_row, new_row
from ..world import World
from .scan import BoxScan, generation_of
from .scheduler import BoxScanner
from .staging import StagingScanner

__all__ = ["Boxes", "DuplicateIds", "irregular_rows", "why_closed"]

_IDS_AT_MOST = 50_000


@dataclass(frozen=True, slots=True)
class DuplicateIds:
    """Ids that are in both ``new`` and ``cur``: as one file with two names (a move cut off), or as two files (a conflict)."""

    conflicts: tuple[Key, ...] = ()
    linked: tuple[Row, ...] = ()


class Boxes:
    """Scanners of ``tmp`` with its staging directories, ``new`` and ``cur``."""

    def __init__(self, world: World, least: float) -> None:
        self._scanners = {box: BoxScanner(world, least=least, sizes=box is Box.NEW) for box in LIVE}
        self._staging = StagingScanner(world)
        self._ids: frozenset[str] = frozenset()
        self._ids_of = -1
        self._claims: dict[str, list[str]] = {}
        self.doing = ""
        """Current step of the scan, in words; read from other threads when it hangs."""

    @property
    def due(self) -> float | None:
        """Earliest time at which a change already seen is listed, monotonic seconds."""
        return min((s.due for s in self._scanners.values() if s.due is not None), default=None)

    @property
    def period(self) -> float:
        """Seconds from one listing to the next where only time tells when to list."""
        return max(1.0, *(scanner.period for scanner in self._scanners.values()))

    def times(self, box: Box) -> dict[str, int]:
        """Returns the mtime in µs of the names that hold no time."""
        return self._scanners[box].times

    def is_current(self, box: Box, fd: int) -> bool:
        """True if the box has not changed since its last scan."""
        last = self._scanners[box].last
        try:
            return last is not None and generation_of(fd) == last.generation
        except OSError:
            return False

    def stamps(self, dirs: SpoolDirs) -> tuple[int, ...]:
        """The times of the last change of all directories of the spool that are looked at; empty where one is gone."""
        try:
            return (*dirs.stamps(), *self._staging.stamps(dirs))
        except OSError:
            return ()

    def scan(self, dirs: SpoolDirs, *, force: bool, unseen: bool = False) -> dict[Box, BoxScan]:
        """Returns the scans of all three, new ones where they are due. ``cur`` is listed before ``new``, to look for its ids
        there. ``unseen``: the file system does not report all changes."""
        scans = {}
        for box, fd in ((Box.CUR, dirs.cur), (Box.NEW, dirs.new), (Box.TMP, dirs.tmp)):
            missing = why_closed(dirs, box)
            ids = self._ids if box is Box.NEW else frozenset[str]()
            self.doing = f"readdir of {box}"
            scans[box] = self._scanners[box].look(fd, force=force, ids=ids, missing=missing, unseen=unseen)
            if box is Box.CUR and scans[box].number != self._ids_of:
                self._learn(scans[box])
        self.doing = "readdir of the staging directories"
        scans[Box.TMP] = self._staging.add_to(scans[Box.TMP], dirs, unseen=unseen)
        self.doing = ""
        return scans

    def _learn(self, scan: BoxScan) -> None:
        self._ids_of = scan.number
        self._claims = {}
        if len(scan.names) <= _IDS_AT_MOST:
            for _, chunk in scan.names.chunks():
                claims = os.fsdecode(chunk).split("/")
                for raw, base in zip(claims, NameForms.of(claims, claimed=True).bases(claims), strict=True):
                    self._claims.setdefault(base, []).append(raw)
        self._ids = frozenset(base.partition(",")[0] for base in self._claims) | frozenset(self._claims)

    def duplicates(self, dirs: SpoolDirs, scan: BoxScan) -> DuplicateIds:
        """Returns the ids that are in both boxes now. ``scan`` is the scan of ``new``; a message that moves in the meantime is
        not a duplicate."""
        if not scan.duplicates or dirs.new is None or dirs.cur is None:
            return DuplicateIds()
        by_id: dict[str, list[str]] = {}
        for claims in self._claims.values():
            for raw in claims:
                by_id.setdefault(names.parse(raw, claimed=True).id, []).append(raw)
        conflicts: list[Key] = []
        linked: list[Row] = []
        for waiting in scan.duplicates:
            for claimed in by_id.get(names.parse(waiting, claimed=False).id, ()):
                try:
                    here = os.stat(waiting, dir_fd=dirs.new, follow_symlinks=False)
                    there = os.stat(claimed, dir_fd=dirs.cur, follow_symlinks=False)
                    again = os.stat(waiting, dir_fd=dirs.new, follow_symlinks=False)
                except OSError:
                    continue  # it was on its way
                if here.st_ino != again.st_ino:
                    continue
                if here.st_ino == there.st_ino:
                    linked.append(replace(claim_row(names.parse(claimed, claimed=True), there), note="is in new as well"))
                    linked.append(replace(new_row(waiting, here), note="is in cur as well"))
                else:
                    conflicts += [(Box.NEW.value, waiting), (Box.CUR.value, claimed)]
        return DuplicateIds(tuple(dict.fromkeys(conflicts)), tuple(linked))


def irregular_rows(dirs: SpoolDirs, new: BoxScan, judged: Iterable[Row], duplicates: DuplicateIds) -> tuple[Row, ...]:
    """Collects the rows of everything that is no message or has a second name: in ``new``, among the ``judged`` rows of ``cur``
    and ``tmp``, and the messages that are in two boxes."""
    rows: list[Row] = []
    for raw in new.irregular if dirs.new is not None else ():
        try:
            rows.append(new_row(raw, os.stat(raw, dir_fd=dirs.new, follow_symlinks=False)))
        except OSError:
            continue  # gone since it was listed
    return tuple({row.key: row for row in (*rows, *judged, *duplicates.linked)}.values())


def why_closed(dirs: SpoolDirs, box: Box) -> str:
    """Says why a box is not open."""
    error = dirs.errors.get(box)
    if error is None or isinstance(error, FileNotFoundError):
        return f"{box} is missing"
    if isinstance(error, PermissionError):
        return "permission denied"
    if isinstance(error, NotADirectoryError):
        return f"{box} is not a directory of its own"
    return f"{box} cannot be opened ({error.strerror})"

"""Tracks set-aside messages: count, age and ids. Each operation's folder is listed again only after it has changed."""

from __future__ import annotations

import os
import stat
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from spooltop.engine import names as grammar
from spooltop.engine import set_aside as shelf
from spooltop.engine.dirs import STAGE, SpoolDirs
from spooltop.model.look.observation import BoxState
from spooltop.model.row import Row
from spooltop.model.vocabulary import ASIDE, Box

from ...journal.log_store import OPERATION
from ..storage.location import in_folder, time_of
from ..storage.rows import aside_row, kind_of_file
from ..world import System
from .scan import BoxScan

# Lists the staging directories of a spool: their files count as ``tmp``. Nearly all of them are empty at nearly all times, so
# that a look costs one ``lstat`` for each that has not changed.

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STAGING_AT_MOST = 4_096
_COARSE = 0.02
"""Seconds after a change in which another may leave the same mtime: kernels before 6.13 stamp directories by the tick."""


class _Listed(NamedTuple):
    """The names in a directory when it had this inode and mtime (ns)."""

    generation: tuple[int, int]
    names: tuple[str, ...]


class StagingScanner:
    """Keeps what it has listed until the directory changes."""

    def __init__(self, world: System) -> None:
        self._clock = world.clock
        self._above: _Listed | None = None
        self._folders: dict[str, _Listed] = {}

    def add_to(self, scan: BoxScan, dirs: SpoolDirs, *, unseen: bool) -> BoxScan:
        """Returns the scan of ``tmp`` with the files in staging directories, not ``complete`` where one could not be listed.
        ``unseen``: the file system does not report all changes."""
        if scan.error:
            return scan
        since = float("-inf") if unseen else self._clock() - _COARSE
        try:
            above = dirs.private_dir(STAGE)
            if above is None:
                return scan
            complete = self._look(above, since)
        except OSError:
            self._folders = {}
            complete = False
        staged = tuple(in_folder(name, folder) for folder, listed in self._folders.items() for name in listed.names)
        return replace(scan, staged=staged, complete=scan.complete and complete)

    def stamps(self, dirs: SpoolDirs) -> tuple[int, ...]:
        """The times of the last change of the directories that were there at the last look. Raises ``OSError``."""
        above = dirs.private_dir(STAGE) if self._folders else None
        return tuple(os.stat(folder, dir_fd=above, follow_symlinks=False).st_ctime_ns for folder in self._folders)

    def _look(self, above: int, since: float) -> bool:
        """Lists what has changed, or may have changed ``since``. False where something could not be listed."""
        self._above = _current(self._above, os.fstat(above), since) or _list(".", above)
        folders = [name for name in self._above.names if OPERATION.match(name)]
        complete = len(folders) <= _STAGING_AT_MOST
        listed: dict[str, _Listed] = {}
        for folder in folders[:_STAGING_AT_MOST]:
            try:
                status = os.stat(folder, dir_fd=above, follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):  # anything else is nothing of ours
                    listed[folder] = _current(self._folders.get(folder), status, since) or _list(folder, above)
            except FileNotFoundError:
                continue  # removed meanwhile
            except OSError:
                complete = False
        self._folders = listed
        return complete


def _current(known: _Listed | None, status: os.stat_result, since: float) -> _Listed | None:
    """Returns what is ``known`` of a directory, if it has not changed."""
    same = known is not None and known.generation == _generation(status) and status.st_mtime < since
    return known if same else None


def _list(name: str, above: int) -> _Listed:
    fd = os.open(name, _FLAGS, dir_fd=above)  # a descriptor of its own: the offset of a shared one is moved by whoever lists
    try:
        generation = _generation(os.fstat(fd))
        return _Listed(generation, tuple(sorted(found for found in os.listdir(fd) if not found.startswith("."))))
    finally:
        os.close(fd)


def _generation(status: os.stat_result) -> tuple[int, int]:
    return status.st_ino, status.st_mtime_ns


_FOLDERS_AT_MOST = 5_000
_SIZES_AT_MOST = 10_000
_ROWS_AT_MOST = 20_000
_METAS_AT_MOST = 256
"""Metadata files of one operation that a look reads. A batch has one, but anybody who may write could make one for each
message."""
_SLICE = 256


class _Folder(Struct, frozen=True):
    """Folder of one operation as last listed.

    ``bytes`` None: not summed. ``times``: when the examined messages were set aside, in ascending order. ``changed``: when the
    last message was added or removed.
    """

    generation: tuple[int, int]
    names: tuple[str, ...]
    bytes: int | None
    times: array[float]
    changed: float

    def expired(self, by: float) -> tuple[int, bool]:
        """Returns how many messages were set aside at ``by`` or before, and whether that number is only a lower bound."""
        sampled = len(self.names) > _SIZES_AT_MOST
        if sampled and self.changed <= by:
            return len(self.names), False
        return bisect_right(self.times, by), sampled


class SetAsideBoxes:
    """The boxes ``held``, ``rejected`` and ``trash`` of one spool. Messages in the trash expire after ``retention`` seconds (0:
    never)."""

    def __init__(self, retention: float = 0.0) -> None:
        self._retention = retention
        self._folders: dict[tuple[Box, str], _Folder] = {}
        self._rows: dict[tuple[Box, str, str], Row] = {}
        self._rows_of = -1
        self._whole: dict[Box, bool] = {}
        """Maps each box to True if the last look saw all of it."""
        self.generation = 0
        """Changes whenever something came or went."""

    def look(self, dirs: SpoolDirs, as_of: float) -> dict[Box, BoxState]:
        folders: dict[tuple[Box, str], _Folder] = {}
        states = {}
        for box in ASIDE:
            states[box] = self._look(dirs, box, as_of, folders)
        if folders != self._folders:
            self.generation += 1
        self._folders = folders
        self._whole = {box: state.complete for box, state in states.items()}
        return states

    def _look(self, dirs: SpoolDirs, box: Box, as_of: float, folders: dict[tuple[Box, str], _Folder]) -> BoxState:
        try:
            above = dirs.private_dir(box.value)
            if above is None:
                return BoxState(box, 0, True, 0, False, None, "", as_of)
            operations = sorted(name for name in dirs.files.list(above) if not name.startswith("."))
        except OSError as problem:
            why = "permission denied" if isinstance(problem, PermissionError) else str(problem.strerror)
            return BoxState(box, None, False, None, False, None, why, as_of)
        complete = len(operations) <= _FOLDERS_AT_MOST
        for operation in operations[:_FOLDERS_AT_MOST]:
            try:
                status = os.stat(operation, dir_fd=above, follow_symlinks=False)
                if not stat.S_ISDIR(status.st_mode):
                    continue  # nothing of ours
                generation = (status.st_ino, status.st_mtime_ns)
                known = self._folders.get((box, operation))
                if known is None or known.generation != generation or status.st_mtime > as_of - 0.02:
                    known = _listed(operation, above, generation, _Metas(dirs, box, operation) if box is Box.TRASH else None)
                folders[box, operation] = known
            except FileNotFoundError:
                continue  # emptied and removed meanwhile
            except OSError:
                complete = False
        mine = [folder for (where, _), folder in folders.items() if where is box]
        sizes = [folder.bytes for folder in mine]
        total = None if None in sizes else sum(size for size in sizes if size is not None)
        oldest = min((folder.times[0] for folder in mine if folder.times), default=None)
        state = BoxState(box, sum(len(f.names) for f in mine), complete, total, False, oldest, "", as_of)
        if box is not Box.TRASH or not self._retention:
            return state
        over = [folder.expired(as_of - self._retention) for folder in mine]
        return replace(
            state, retention=self._retention, expired=sum(n for n, _ in over),
            expired_is_bound=not complete or any(bound for _, bound in over),
        )  # fmt: skip

    def items(self, box: Box) -> Iterator[tuple[str, str]]:
        """Yields (operation, name) of everything in ``box`` at the last look."""
        for (where, operation), folder in self._folders.items():
            if where is box:
                for name in folder.names:
                    yield operation, name

    def ids(self) -> set[str]:
        """Returns the ids of everything that is set aside."""
        return {grammar.parse(name, claimed=True).id for folder in self._folders.values() for name in folder.names}

    def rows(self, dirs: SpoolDirs, box: Box, cancelled: Callable[[], bool]) -> tuple[list[Row], bool]:
        """Returns the rows of ``box``, and whether they are all. Rows are looked up once until something changes."""
        if self._rows_of != self.generation:
            self._rows, self._rows_of = {}, self.generation
        rows: list[Row] = []
        for turn, item in enumerate(self.items(box)):
            if turn >= _ROWS_AT_MOST or (turn % _SLICE == 0 and cancelled()):
                return rows, False
            if (box, *item) not in self._rows:
                self._rows[box, *item] = self.row(dirs, box, *item)
            rows.append(self._rows[box, *item])
        return rows, self._whole.get(box, False)

    def row(self, dirs: SpoolDirs, box: Box, operation: str, raw: str) -> Row:
        """Returns the row of one message with its metadata. A message that has gone keeps its row, with a note."""
        row = aside_row(box, operation, raw)
        folder = -1
        try:
            above = dirs.private_dir(box.value)
            if above is None:
                return replace(row, note="gone since")
            folder = os.open(operation, _FLAGS, dir_fd=above)
            found = os.stat(raw, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return replace(row, note="gone since")
        except OSError as problem:
            return replace(row, note=str(problem.strerror))
        finally:
            if folder >= 0:
                os.close(folder)
        metadata = shelf.read_meta(dirs, shelf.Entry(box, operation, raw))
        dirs.forget(box.value, operation)
        reason, since, ended = metadata.get("reason"), time_of(metadata), metadata.get("ended")
        since = found.st_ctime if since is None else since
        return replace(
            row,
            size=found.st_size,
            written_at=found.st_mtime,
            enqueued_at=row.enqueued_at if row.enqueued_at is not None else found.st_mtime,
            in_box_since=since,
            expires_at=since + self._retention if box is Box.TRASH and self._retention else None,
            reason=reason if isinstance(reason, str) else "",
            note="" if stat.S_ISREG(found.st_mode) else kind_of_file(found),
            ended=ended if isinstance(ended, str) else row.ended,
        )


class _Metas:
    """Times at which the messages of one operation were set aside. The metadata of a batch are one file with many names, read
    once, or lie beside the folder. A move changes ctime and nothing else, so ctime is the time where the metadata hold none."""

    def __init__(self, dirs: SpoolDirs, box: Box, operation: str) -> None:
        self._dirs = dirs
        self._box = box
        self._operation = operation
        self._read: dict[int | None, float | None] = {}

    def time(self, name: str, folder: int, otherwise: float) -> float:
        try:
            inode = os.stat(shelf.meta_name(name), dir_fd=folder, follow_symlinks=False).st_ino
        except FileNotFoundError:
            inode = None  # what all in the folder have in common
        except OSError:
            return otherwise
        if inode not in self._read and len(self._read) >= _METAS_AT_MOST:
            return otherwise
        if inode not in self._read:
            self._read[inode] = time_of(shelf.read_meta(self._dirs, shelf.Entry(self._box, self._operation, name)))
        at = self._read[inode]
        return otherwise if at is None else at


def _listed(operation: str, above: int, generation: tuple[int, int], metas: _Metas | None) -> _Folder:
    fd = os.open(operation, _FLAGS, dir_fd=above)
    try:
        names = tuple(name for name in os.listdir(fd) if not name.startswith("."))
        total: int | None = 0 if len(names) <= _SIZES_AT_MOST else None
        times = array("d")
        for name in names[:_SIZES_AT_MOST]:
            try:
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except OSError:
                continue  # put back meanwhile
            times.append(found.st_ctime if metas is None else metas.time(name, fd, found.st_ctime))
            if total is not None and stat.S_ISREG(found.st_mode):
                total += found.st_size
    finally:
        os.close(fd)
    return _Folder(generation, names, total, array("d", sorted(times)), generation[1] / 1e9)

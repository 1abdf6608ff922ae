"""Moves single messages between boxes, each pinned by identity, none ever replaced."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from stat import S_ISREG
from time import time_ns

from spooltop.engine.dirs import SpoolDirs
from spooltop.model.plan import Outcome
from spooltop.model.vocabulary import ASIDE, LIVE, Box

from ..journal.outcomes import BatchOutcome, MoveOutcome
from ..storage.folders import Folder, Folders
from ..storage.location import in_folder, is_pinned
from ..storage.name_lookup import NameLookup
from .batches import Move, MoveBatch, MoveMode, UniformBatch
from .changed_folders import ChangedFolders
from .metadata import MetaWriter
from .move_errors import describe, outcome_of_delete_error, outcome_of_move_error
from .recheck import Recheck
from .repair import Repaired

__all__ = ["Mover"]


_SHORT_NS = 100_000_000
"""Nanoseconds for which the clock says when the messages of a batch were moved; after that each is looked at."""
_TICK_NS = 20_000_000
"""Nanoseconds by which the times of a file system can be behind the clock: they advance in ticks of 10 ms at most."""
_DONE = Outcome.DONE
_PLAIN = MoveOutcome(_DONE, "", True)
_moved = partial(tuple.__new__, MoveOutcome)


class Mover:
    """Moves the messages of one operation; ``large`` where their common metadata are written once."""

    def __init__(self, dirs: SpoolDirs, recheck: Recheck, repaired: Repaired, *, large: bool = False) -> None:
        self._files = dirs.files
        self._recheck = recheck
        self._repaired = repaired
        self.folders = Folders(dirs, self._before_closing)
        self._lookup = NameLookup(dirs.files)
        self._metas = MetaWriter(dirs, large=large)
        self._changed = ChangedFolders(dirs, self._lookup)

    def run(self, batch: MoveBatch, stop: Callable[[], bool]) -> BatchOutcome:
        """Moves one message after the other, until ``stop`` says so after one, and syncs what was changed. Never raises
        ``OSError``: each message has its outcome."""
        self._recheck.prepare(batch.to_recheck())
        if batch.removes_claims():
            self._changed.sync_claims(self.folders)
        outcome = self._run(batch, stop)
        problem = self._sync()
        return outcome.failed_with(problem) if problem else outcome

    def _run(self, batch: MoveBatch, stop: Callable[[], bool]) -> BatchOutcome:
        moved: list[MoveOutcome] = []
        for move in batch:
            if moved and stop():
                break
            if batch.uniform is not None and (folders := self._both(batch.uniform)) is not None:
                return self._run_uniform(batch, batch.uniform, *folders, moved, stop)
            moved.append(self._move_one(move))
        return BatchOutcome(len(moved), dict(enumerate(moved)))

    def _sync(self) -> str:
        """Syncs all moves since the last call. Returns "" or what went wrong, in words."""
        try:
            self.folders.close()
            self._metas.settle()
        except OSError as error:
            self._changed.report(f"moved, but: {describe(error)}")
        self._changed.drop_emptied()
        return self._changed.take_problem()

    def _before_closing(self) -> None:
        self._changed.sync()
        self._metas.forget()

    def _both(self, uniform: UniformBatch) -> tuple[Folder, Folder] | None:
        """Opens the source and the target; None where the source is not the planned one, which each message reports, or the
        target does not exist before a message goes into it."""
        try:
            source = self.folders.of(uniform.box, "")
            if source.id != uniform.folder_id:
                return None
            return source, self.folders.of(uniform.to_box, uniform.to_folder)
        except OSError:
            return None

    def _run_uniform(
        self, batch: MoveBatch, uniform: UniformBatch, source: Folder, to: Folder, begun: Sequence[MoveOutcome],
        stop: Callable[[], bool],
    ) -> BatchOutcome:  # fmt: skip
        """Fast path of ``_move`` for a batch with one source and one target. ``_move`` gets the messages with anything else to
        report than that they are done. ``begun`` is the outcome of the first ones."""
        files, fd, to_fd, mode = self._files, source.fd, to.fd, uniform.mode
        stat, move, link = files.stat, files.move, self._metas.link
        free, dead = mode.forced or uniform.box is Box.NEW, self._recheck.dead
        live, meta = uniform.to_box in LIVE, (to_fd, mode.meta)
        covered = live or self._covers(uniform.to_box, uniform.to_folder, mode)  # no metadata of its own
        by_clock = live and self._lookup.ordered(to_fd)  # then the times of its files are those of this machine
        columns = [batch.column(field) for field in ("name", "ino", "size", "ctime_ns", "token", "to_name")]
        others = {place: one for place, one in enumerate(begun) if live or one != _PLAIN._replace(ino=one.ino)}
        changed = False
        place = start = len(begun)
        from_ns = until_ns = time_ns()
        rest = enumerate(islice(zip(*columns, strict=True), start, None), start)
        for place, (name, ino, size, ctime_ns, token, to_name) in rest:
            if place > start and stop():
                break
            try:
                found = stat(name, fd) if free or token in dead else None
            except OSError:
                found = None
            if (
                found is None
                or not is_pinned(found, ino, size, ctime_ns)
                or found.st_nlink != 1
                or not S_ISREG(found.st_mode)
                or not (covered or link(to_name, meta))
            ):
                one = self._move_one(batch[place])
                if live or one != _PLAIN._replace(ino=one.ino):
                    others[place] = one
                continue
            try:
                if covered:
                    # Without its inode, in a box: another operator's move to the same name would pass for ours.
                    move(name, fd, to_name, to_fd, None if live else ino)
                else:
                    self._move_aside(name, ino, to_name, mode, source, to)
            except OSError as error:
                others[place] = self._refused(batch[place], source, to, error)
                continue
            changed = True
            if live:
                now = time_ns()
                # A clock that was set, or a pause in which a message can go on and come back: from there on each is looked at.
                by_clock = by_clock and until_ns <= now < from_ns + _SHORT_NS
                if by_clock:
                    until_ns = now
                else:
                    others[place] = _moved((_DONE, "", True, ino, self._lookup.ctime_ns(to_name, to_fd, ino), 0))
        else:
            place = len(batch)
        if changed:
            self._changed.note(source, to)
        return BatchOutcome(place, others, (from_ns - _TICK_NS, until_ns) if live else None)

    def _move_one(self, move: Move) -> MoveOutcome:
        """The outcome of one move; never raises ``OSError``."""
        try:
            return self._move(move)
        except OSError as error:
            return MoveOutcome(Outcome.FAILED, describe(error))

    def _move(self, move: Move) -> MoveOutcome:
        box, name, folder, ino, size, ctime_ns, folder_id, token, to_box, to_name, to_folder, planned, mode, _ = move
        files, folders = self._files, self.folders
        try:
            source = folders.of(box, folder)
            found = files.stat(name, source.fd)
        except FileNotFoundError:
            return self._gone(move)
        if source.id != folder_id:
            return MoveOutcome(Outcome.SKIPPED, f"the directory {box} was replaced since the plan")
        if not S_ISREG(found.st_mode) or not (is_pinned(found, ino, size, ctime_ns) or self._mended(move, found)):
            return MoveOutcome(Outcome.SKIPPED, "changed since the plan")
        half_moved = False
        if found.st_nlink != 1:
            half_moved = found.st_nlink == 2 and self._half_moved(move)
            if not half_moved:
                return MoveOutcome(Outcome.SKIPPED, "has another hard link")
        if not mode.forced:
            why = self._recheck.blocked_by(box, in_folder(name, folder), token, planned)
            if why is not None:
                return MoveOutcome(Outcome.SKIPPED, why)
        if to_box is None:
            return self._delete(move, source)
        to = folders.of(to_box, to_folder, create=True)
        if folder:
            source = folders.of(box, folder)  # it may have been closed to make room
        try:
            if half_moved:
                files.sync_dir(to.fd)
                files.unlink(name, source.fd)
            elif to_box in ASIDE:
                if self._covers(to_box, to_folder, mode):
                    files.move(name, source.fd, to_name, to.fd, ino)
                else:
                    if not self._metas.link(to_name, (to.fd, mode.meta)):
                        self._metas.write(to_name, (to.fd, mode.meta))
                    self._move_aside(name, ino, to_name, mode, source, to)
            else:
                # Without its inode: another operator's move to the same name would pass for ours.
                files.move(name, source.fd, to_name, to.fd)
        except OSError as error:
            return self._refused(move, source, to, error)
        self._changed.note(source, to)
        if folder:
            self._metas.drop(name, source.fd)
        # Only where others take from does it matter whether it went on and came back.
        return _moved((_DONE, "", True, ino, self._lookup.ctime_ns(to_name, to.fd, ino) if to_box in LIVE else 0, 0))

    def _refused(self, move: Move, source: Folder, to: Folder, error: OSError) -> MoveOutcome:
        outcome = outcome_of_move_error(self._lookup, move, source, to, error)
        if outcome is not None and outcome.moved:
            self._changed.note(source, to)
        return outcome or self._gone(move)

    def _delete(self, move: Move, source: Folder) -> MoveOutcome:
        """Deletes the message first: while it exists, its metadata do too."""
        try:
            self._files.unlink(move.name, source.fd)
        except OSError as error:
            outcome = outcome_of_delete_error(self._lookup, move, source, error)
            if outcome is not None and outcome.moved:
                self._changed.note(source, None)
            return outcome or self._gone(move)
        self._changed.note(source, None)
        if move.folder:
            self._metas.drop(move.name, source.fd)
            if move.box is Box.TRASH:
                self._changed.note_emptied(move.folder)
        return MoveOutcome(Outcome.DONE, "", True, move.ino)

    def _move_aside(self, name: str, ino: int, to_name: str, mode: MoveMode, source: Folder, to: Folder) -> None:
        """Moves a message whose metadata are written: a message is never set aside without them."""
        try:
            self._files.move(name, source.fd, to_name, to.fd, ino if mode.alone else None)
        except OSError:
            if self._lookup.inode(to_name, to.fd) != ino:
                self._metas.drop(to_name, to.fd)
            raise

    def _covers(self, box: Box, folder: str, mode: MoveMode) -> bool:
        return mode.alone and self._metas.covers(box, folder, mode.meta)

    def _mended(self, move: Move, found: os.stat_result) -> bool:
        return found.st_ino in self._repaired.inodes and (found.st_ino, found.st_size) == (move.ino, move.size)

    def _gone(self, move: Move) -> MoveOutcome:
        became = self._repaired.in_cur.get((move.name, move.ino)) if move.box is Box.CUR else None
        if became is not None and move.to_box is Box.NEW:
            return MoveOutcome(Outcome.DONE, "an interrupted move was finished", True, move.ino)
        return MoveOutcome(Outcome.SKIPPED, move.mode.gone)

    def _half_moved(self, move: Move) -> bool:
        """True where an interrupted link and unlink has left the same file at the target already."""
        if move.to_box is None:
            return False
        try:
            return self._lookup.inode(move.to_name, self.folders.of(move.to_box, move.to_folder).fd) == move.ino
        except FileNotFoundError:
            return False

"""Moves messages between boxes, each pinned by identity, none ever replaced."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from stat import S_ISREG
from time import time_ns

from spooltop.engine.dirs import SpoolDirs
from spooltop.model.operations.plan import Outcome
from spooltop.model.vocabulary import ASIDE, LIVE, Box
from spooltop.records import dataclass, field

from ...journal.outcomes import BatchOutcome, MoveOutcome
from ...storage.folders import Folder, Folders
from ...storage.location import in_folder, is_pinned
from ...storage.name_lookup import NameLookup
from .batches import Move, MoveBatch, Run
from .changed_folders import ChangedFolders
from .metadata import MetaWriter
from .move_errors import describe, outcome_of_delete_error, outcome_of_move_error
from .recheck import Recheck, forgotten_words
from .repair import Repaired

__all__ = ["Mover"]


_SHORT_NS = 100_000_000
"""Nanoseconds for which the clock says when the messages of a batch were moved; after that each is looked at."""
_FEW = 64
"""Messages in a batch up to which each is looked at: one that goes on and comes back at once is told from one that stayed."""
_TICK_NS = 20_000_000
"""Nanoseconds by which the times of a file system can be behind the clock: they advance in ticks of 10 ms at most."""


@dataclass(slots=True)
class _Tried:
    """The moves of a batch that were tried so far: their number, the outcomes of those that are not done as planned, and the time
    between which the others came to a box, in ns. ``by_clock``: that time says when; the clock has been steady, and it was
    short."""

    count: int = 0
    others: dict[int, MoveOutcome] = field(default_factory=dict)
    from_ns: int = field(default_factory=time_ns)
    until_ns: int = field(default_factory=time_ns)
    by_clock: bool = True


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
        tried, before = _Tried(by_clock=len(batch) > _FEW), 0
        for run in batch.runs:
            before += len(run.names)
            self._move_run(run, tried, stop)
            if tried.count < before:
                break
        live = any(run.to_box in LIVE for run in batch.runs)
        outcome = BatchOutcome(tried.count, tried.others, (tried.from_ns - _TICK_NS, tried.until_ns) if live else None)
        problem = self._sync()
        return outcome.failed_with(problem) if problem else outcome

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

    def _move_run(self, run: Run, tried: _Tried, stop: Callable[[], bool]) -> None:
        """Moves or deletes the messages of ``run``. A message with anything else to say than that it is done has its outcome in
        ``tried.others``."""
        box, to_box, others, first = run.box, run.to_box, tried.others, tried.count
        try:
            source = self.folders.of(box, run.folder)
        except OSError as error:
            others.update({place: self._unseen(run, Move(*row), error) for place, row in enumerate(run.rows(), first)})
            tried.count += len(run.names)
            return
        stat, move, dead, blocked_by = self._files.stat, self._files.move, self._recheck.dead, self._recheck.blocked_by
        fd, free, live, own_metadata = source.fd, not run.held_by_a_lock, to_box in LIVE, run.own_metadata
        by_clock, from_ns, until_ns = tried.by_clock, tried.from_ns, tried.until_ns
        to: Folder | None = None
        opened = changed = plain = False
        to_fd, place = -1, first
        forgotten = self._recheck.forgotten(run.column("to_name")) if to_box is Box.CUR else ()
        for place, row in enumerate(run.rows(), first):
            if place and stop():
                break
            name, ino, size, ctime_ns, token, planned, to_name = row
            if to_name in forgotten:
                others[place] = MoveOutcome(Outcome.SKIPPED, forgotten_words(box))
                continue
            try:
                found = stat(name, fd)
            except OSError as error:
                others[place] = self._unseen(run, Move(*row), error)
                continue
            single = found.st_nlink == 1 and is_pinned(found, ino, size, ctime_ns) and S_ISREG(found.st_mode)
            if not (single and opened and (free or token in dead)):
                why: str | None = ""
                try:
                    if not single or source.id != run.folder_id:
                        why = self._differs(run, Move(*row), source, found)
                    if not why and not free:
                        why = blocked_by(box, in_folder(name, run.folder), token, planned)
                    if not why and not opened:
                        source, to, plain = self._opened(run)
                        fd, to_fd, opened = source.fd, -1 if to is None else to.fd, True
                        by_clock = by_clock and not (live and to and not self._lookup.ordered(to))
                except OSError as error:
                    others[place] = MoveOutcome(Outcome.FAILED, describe(error))
                    continue
                if why:
                    others[place] = MoveOutcome(Outcome.SKIPPED, why)
                    continue
            try:
                if plain and (single or found.st_nlink == 1):
                    # Without its inode, in a box: another operator's move to the same name would pass for ours.
                    move(name, fd, to_name, to_fd, None if live else ino)
                else:
                    self._move_otherwise(run, Move(*row), source, to, half_moved=found.st_nlink != 1)
            except OSError as error:
                others[place] = refused = self._refused(run, Move(*row), source, to, error)
                changed = changed or refused.moved
                continue
            changed = True
            if own_metadata:
                self._metas.drop(name, fd)
            if live:  # only where others take from does it matter whether it went on and came back
                now = time_ns()
                # A clock that was set, or a pause in which a message can go on and come back: from there on each is looked at.
                by_clock = by_clock and until_ns <= now < from_ns + _SHORT_NS
                if by_clock:
                    until_ns = now
                else:
                    others[place] = MoveOutcome(Outcome.DONE, "", True, 0, self._lookup.ctime_ns(to_name, to_fd, ino))
        else:
            place = first + len(run.names)
        tried.count, tried.by_clock, tried.until_ns = place, by_clock, until_ns
        if changed:
            self._changed.note(source, to)
            if to_box is None and box is Box.TRASH:
                self._changed.note_emptied(run.folder)

    def _opened(self, run: Run) -> tuple[Folder, Folder | None, bool]:
        """Opens the source and the target, which is made where it is missing, and says whether the move of a message is all there
        is to do: it needs no metadata of its own. Raises ``OSError``."""
        if run.to_box is None:
            return self.folders.of(run.box, run.folder), None, False
        to = self.folders.of(run.to_box, run.to_folder, create=True)
        source = self.folders.of(run.box, run.folder)  # it may have been closed to make room
        if source.id != run.folder_id:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        covered = run.mode.alone and self._metas.covers(run.to_box, run.to_folder, run.mode.meta)
        return source, to, covered or run.to_box not in ASIDE

    def _differs(self, run: Run, move: Move, source: Folder, found: os.stat_result) -> str:
        """Why a message that is not as it was pinned stays where it is; "" where only our own repair, or a half move, has changed
        it."""
        if source.id != run.folder_id:
            return f"the directory {run.box} was replaced since the plan"
        mended = found.st_ino in self._repaired.inodes and (found.st_ino, found.st_size) == (move.ino, move.size)
        if not S_ISREG(found.st_mode) or not (mended or is_pinned(found, move.ino, move.size, move.ctime_ns)):
            return "changed since the plan"
        if found.st_nlink != 1 and not (found.st_nlink == 2 and self._half_moved(run, move)):
            return "has another hard link"
        return ""

    def _half_moved(self, run: Run, move: Move) -> bool:
        """True where an interrupted link and unlink has left the same file at the target already."""
        if run.to_box is None:
            return False
        try:
            return self._lookup.inode(move.to_name, self.folders.of(run.to_box, run.to_folder).fd) == move.ino
        except FileNotFoundError:
            return False

    def _move_otherwise(self, run: Run, move: Move, source: Folder, to: Folder | None, *, half_moved: bool) -> None:
        """Deletes a message, before its metadata: while it exists, they do too. Finishes a half move. Or sets a message aside
        with metadata of its own, which are written first and dropped where it does not arrive. Raises ``OSError``."""
        if to is None:
            self._files.unlink(move.name, source.fd)
        elif half_moved:
            self._files.sync_dir(to.fd)
            self._files.unlink(move.name, source.fd)
        else:
            meta = to.fd, run.mode.meta
            if not self._metas.link(move.to_name, meta):
                self._metas.write(move.to_name, meta)
            try:
                self._files.move(move.name, source.fd, move.to_name, to.fd, move.ino if run.mode.alone else None)
            except OSError:
                if self._lookup.inode(move.to_name, to.fd) != move.ino:
                    self._metas.drop(move.to_name, to.fd)
                raise

    def _refused(self, run: Run, move: Move, source: Folder, to: Folder | None, error: OSError) -> MoveOutcome:
        if to is None:
            outcome = outcome_of_delete_error(self._lookup, move, source, error)
        else:
            outcome = outcome_of_move_error(self._lookup, run, move, source, to, error)
        return outcome or self._unseen(run, move, FileNotFoundError())

    def _unseen(self, run: Run, move: Move, error: OSError) -> MoveOutcome:
        """The outcome of a message that is not to be seen in its place."""
        if not isinstance(error, FileNotFoundError):
            return MoveOutcome(Outcome.FAILED, describe(error))
        became = self._repaired.in_cur.get((move.name, move.ino)) if run.box is Box.CUR else None
        if became is not None and run.to_box is Box.NEW:
            return MoveOutcome(Outcome.DONE, "an interrupted move was finished", True)
        return MoveOutcome(Outcome.SKIPPED, run.mode.gone)

"""Reads the moves that operators announced in the journal since the last look. Such a move is not flow.

An intent line is written and synced before its batch is moved, so it is there when the change events of these moves are.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.system.files import open_regular
from spooltop.model.vocabulary import Box

from ...journal.log_files import JOURNAL, STATE_DIR, state_of

if TYPE_CHECKING:
    from ..journal.moves import MoveColumns

__all__ = ["OperatorMoves"]

_AT_MOST = 64 << 20
"""Bytes of the journal that one look reads. Earlier ones are skipped."""
_REMEMBERED = 100_000
"""Moves that are remembered, newest first: their change events come within a look or two."""
Announced = dict[str, int]


class OperatorMoves:
    """Exact names that operators move, each as often as it was announced and not yet seen to happen. ``state_dir`` is where root
    keeps the journals of spools of others.

    ``requeued``: names in ``new`` that were claims; ``put_back``: names in ``new`` that had been set aside; ``out_of_new``: names
    that leave ``new``; ``out_of_cur``: claims that are moved or deleted; ``claims``: names in ``cur`` that an undo puts back.
    """

    def __init__(self, state_dir: str = STATE_DIR) -> None:
        self._state_dir = state_dir
        self._read: dict[str, tuple[int, int]] = {}
        self.requeued: Announced = {}
        self.put_back: Announced = {}
        self.out_of_new: Announced = {}
        self.out_of_cur: Announced = {}
        self.claims: Announced = {}

    @staticmethod
    def take(announced: Announced, name: str, many: int = 1) -> int:
        """Returns how many of the ``many`` observed moves of ``name`` an operator made, and deducts them from ``announced``."""
        left = announced.get(name, 0)
        if not left:
            return 0
        if left > many:
            announced[name] = left - many
            return many
        del announced[name]
        return left

    def look(self, dirs: SpoolDirs) -> None:
        """Reads what was added since the last look; the first look only notes where the journals end."""
        first = not self._read
        try:
            own = dirs.private_dir()
        except OSError:
            own = None  # closed to this user: events and names tell what they can
        if own is not None:
            self._follow("spool", own, first)
        if os.geteuid() == 0 and dirs.owner_model.st_uid != 0:
            try:
                state = os.open(state_of(self._state_dir, dirs.path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError:
                state = None  # root has changed nothing here yet
            if state is not None:
                try:
                    self._follow("root", state, first)
                finally:
                    os.close(state)
        self._read.setdefault("", (0, 0))

    def _follow(self, key: str, dir_fd: int, first: bool) -> None:
        try:
            found = os.stat(JOURNAL, dir_fd=dir_fd, follow_symlinks=False)
        except OSError:
            return  # no journal yet, or none that this user may see
        ino, offset = self._read.get(key, (found.st_ino, found.st_size if first else 0))
        files = [(JOURNAL, found)]
        if ino != found.st_ino:  # the journal continues in a new part
            files = [*_parts_since(ino, dir_fd), *files]
        if files[0][1].st_ino != ino or offset > files[0][1].st_size:
            offset = 0
        for name, found in files:
            self._read[key] = found.st_ino, offset if offset == found.st_size else self._new_lines(name, dir_fd, found, offset)
            offset = 0

    def _new_lines(self, name: str, dir_fd: int, found: os.stat_result, offset: int) -> int:
        """Reads the lines from ``offset`` on, and returns where the last one ends."""
        if not stat.S_ISREG(found.st_mode):
            return offset
        try:
            fd, _ = open_regular(name, dir_fd)
        except OSError:
            return offset  # the same
        try:
            begin = max(offset, found.st_size - _AT_MOST)
            data = os.pread(fd, found.st_size - begin, begin)
        except OSError:
            return offset
        finally:
            os.close(fd)
        end = data.rfind(b"\n") + 1  # a line that is still being written is read when it is whole
        for line in data[:end].split(b"\n"):
            self._add(line)
        return begin + end

    def _add(self, line: bytes) -> None:
        if b'"line":"intent"' not in line[:200]:
            return
        from ...journal.record_log import decode
        from ..journal.journal import MOVES, MoveIntent  # loads all of the journal, which most looks find no line in

        try:
            record = decode(line, MOVES)
        except (ValueError, RecursionError):
            return  # anybody may have written it; who undoes says so
        for run in record.runs if isinstance(record, MoveIntent) else ():
            self._note(run)
        for known in (self.requeued, self.put_back, self.out_of_new, self.out_of_cur, self.claims):
            # All at once: a dict looks for its first name among all that were deleted before it.
            for name in list(islice(known, max(0, len(known) - _REMEMBERED))):
                del known[name]

    def _note(self, run: MoveColumns) -> None:
        box, to_box = (place and place[0] for place in (run.source, run.target))
        if to_box is Box.NEW and box is not None:  # what an operator puts there has arrived
            _announce(self.requeued if box is Box.CUR else self.put_back, run.to_names)
        if box is Box.NEW:
            _announce(self.out_of_new, run.names)
        elif box is Box.CUR:
            _announce(self.out_of_cur, run.names)
        if to_box is Box.CUR:
            _announce(self.claims, run.to_names)


def _parts_since(ino: int, dir_fd: int) -> list[tuple[str, os.stat_result]]:
    """The part of the journal with this inode and those after it; none if it was dropped."""
    from ...journal.log_files import LogFiles  # likewise
    from ...journal.log_parts import parts_of

    try:
        parts = [(part, os.stat(part, dir_fd=dir_fd, follow_symlinks=False)) for part in parts_of(LogFiles(), dir_fd, JOURNAL)]
    except OSError:
        return []  # one was dropped meanwhile
    inodes = [found.st_ino for _, found in parts]
    return parts[inodes.index(ino) :] if ino in inodes else []


def _announce(announced: Announced, names: Iterable[str]) -> None:
    for name in names:
        announced[name] = announced.get(name, 0) + 1

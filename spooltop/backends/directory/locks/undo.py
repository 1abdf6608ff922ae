"""Puts back the locks and tickets that an operation removed, where their place is free."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from spooltop.model.plan import Candidates, Item, Outcome, Refusal
from spooltop.model.row import Row
from spooltop.model.text import escape
from spooltop.model.units import count
from spooltop.model.vocabulary import Action, Box

from ..journal.item_log import BesideBooks
from ..journal.log_files import LogFiles
from ..liveness.processes import Processes
from .pins import LockRef
from .records import Taken, gather
from .removal import below
from .soft_lock_liveness import Judge, soft_lock
from .ticket_queues import members_in

__all__ = ["LockUndo"]


class LockUndo:
    """What can be put back, by the books; ``clock`` is epoch seconds."""

    def __init__(self, books: BesideBooks, files: LogFiles, processes: Processes, clock: Callable[[], float]) -> None:
        self._books = books
        self._files = files
        self._processes = processes
        self._clock = clock

    def candidates(self, undoes: str, folders: list[tuple[str, int]]) -> Candidates:
        """Of the operation ``undoes``, in the open ``folders`` (path, descriptor)."""
        logs, troubles = self._books.read()
        known, bad = gather(self._books.read_own())
        if bad:
            troubles.append(f"{bad} lines of the journal of locks are no journal lines and were left out")
        items = known.get(undoes, [])
        if not items:
            told = any(undoes in gather(lines)[0] for lines in logs)
            why = "its books are not this user's own, and what they tell is not made again" if told else ""
            return Candidates((), (), (why or f"no operation {undoes} in the journal of locks", *troubles))
        again = [one for others in known.values() for one in others if one.undoes == undoes and one.outcome is Outcome.DONE]
        back = {(one.folder, one.below, one.names) for one in again}
        found: list[Item] = []
        refused: list[Refusal] = []
        for one in items:
            row = Row(key=(one.path, one.names), box=Box.CUR, id=one.path, name=one.names[0])
            if one.action is Action.UNDO:
                refused.append(Refusal(row, "it was put back; d in Locks, or spooltop unlock, removes it again"))
            elif one.outcome in (Outcome.DONE, None) and (one.folder, one.below, one.names) not in back:
                item = self._restored(one, row, folders)
                found += [item] if isinstance(item, Item) else []
                refused += [item] if isinstance(item, Refusal) else []
        taken_back = (f"{len(again)} of {len(items)} taken back already.",) if again else ()
        return Candidates(found, refused, (*taken_back, *troubles))

    def _restored(self, one: Taken, row: Row, folders: list[tuple[str, int]]) -> Item | Refusal | None:
        fd = next((fd for path, fd in folders if os.path.realpath(path) == one.folder), None)
        if fd is None:
            return Refusal(row, f"{escape(one.folder)} is no directory of this target now")
        try:
            with below(fd, one.below, self._files) as own:
                why = self.blocked(one, fd, own)
                waiting = len(members_in(self._files.list(own))) if one.is_ticket else 0
        except OSError as error:
            return Refusal(row, f"its directory is not there any more: {error.strerror}")
        if why:
            return Refusal(row, why)
        at = os.fstat(fd)
        words = f"{one.words}, put back"
        wait = "1 waits" if waiting == 1 else f"{count(waiting)} wait"
        warning = f"{wait} in that queue: it goes before them, and blocks them" if waiting else ""
        return Item(row, LockRef(replace(one, words=words), None, (at.st_dev, at.st_ino), None), warning, words)

    def blocked(self, one: Taken, folder: int, own: int) -> str:
        """Why it cannot be put back now, or ""."""
        try:
            self._files.stat(one.names[0], own)
            return "the place is taken: somebody has that lock now"
        except FileNotFoundError:
            pass  # as it should be
        if one.is_ticket:
            try:
                fd = self._files.open_read("seq", own)
            except FileNotFoundError:
                return "the queue has begun anew since, and its number may be another's now"
            try:
                last = self._files.read(fd, 64).strip()
            finally:
                self._files.close(fd)
            if not last.isdigit() or int(last) < int(one.names[0].partition(".")[0]):
                return "the queue has begun anew since, and its number may be another's now"
        elif one.below:
            lock = soft_lock(one.path, os.path.basename(one.path), folder, Judge(self._processes), self._clock())
            if lock is not None and lock.verdict != "free":
                return "the place is taken: somebody has that lock now"
        elif one.element:
            try:
                self._files.stat(one.element, own)
            except FileNotFoundError:
                return f"{escape(one.element)}, which it locked, has gone"
        return ""

"""Plans the undo of an unlock: which locks can be put back, and why one cannot."""

from __future__ import annotations

import os

from spooltop.engine.tickets.file_queue import file_tickets, parse_file_ticket
from spooltop.model.operations.plan import Item, Refusal
from spooltop.model.row import Row
from spooltop.model.text import escape
from spooltop.model.units import count
from spooltop.records import replace

from ...journal.item_operator import folder_id
from ..world import World
from .lock_record import LockRecord
from .pinning import LockRef
from .removal import opened_below
from .soft_lock_liveness import Judge, soft_lock

__all__ = ["LockRestorer"]


class LockRestorer:
    """Pins locks that were removed, to be put back."""

    def __init__(self, world: World) -> None:
        self._files = world.files
        self._clock = world.clock
        self._processes = world.processes

    def pin(self, one: LockRecord, row: Row, folders: list[tuple[str, int]]) -> Item | Refusal | None:
        fd = next((fd for path, fd in folders if os.path.realpath(path) == one.folder), None)
        if fd is None:
            return Refusal(row, f"{escape(one.folder)} no longer belongs to this target")
        try:
            with opened_below(fd, one.below, self._files) as own:
                why = self.blocked(one, fd, own)
                waiting = len(file_tickets(self._files.list(own))) if one.is_ticket else 0
        except OSError as error:
            return Refusal(row, f"its directory no longer exists: {error.strerror}")
        if why:
            return Refusal(row, why)
        words = f"{one.words}, put back"
        wait = "1 waits" if waiting == 1 else f"{count(waiting)} wait"
        warning = f"{wait} in that queue: it goes before them, and blocks them" if waiting else ""
        return Item(row, LockRef(replace(one, words=words), None, folder_id(fd), None), warning, words)

    def blocked(self, one: LockRecord, folder: int, own: int) -> str:
        """Why a lock cannot be put back now, or ""."""
        try:
            self._files.stat(one.names[0], own)
            return "the path is taken: another process has that lock now"
        except FileNotFoundError:
            pass  # as it should be
        if one.is_ticket:
            try:
                fd = self._files.open_read("seq", own)
            except FileNotFoundError:
                return "the queue was started again since, and its number may be another's now"
            try:
                last = self._files.read(fd, 64).strip()
            finally:
                self._files.close(fd)
            ticket = parse_file_ticket(one.names[0])
            if not last.isdigit() or ticket is None or int(last) < ticket.number:
                return "the queue was started again since, and its number may be another's now"
        elif one.below:
            lock = soft_lock(one.path, os.path.basename(one.path), folder, Judge(self._processes), self._clock())
            if lock is not None and lock.verdict != "free":
                return "the path is taken: another process has that lock now"
        elif one.element:
            try:
                self._files.stat(one.element, own)
            except FileNotFoundError:
                return f"{escape(one.element)}, which it locked, has gone"
        return ""

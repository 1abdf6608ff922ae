"""Pins the locks and the tickets that are to be removed."""

from __future__ import annotations

import os
import stat

from spooltop.engine.tickets.file_queue import file_tickets
from spooltop.model.look.locks import Lock
from spooltop.model.operations.plan import Item, Refusal
from spooltop.model.row import Row
from spooltop.model.text import escape
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.records import dataclass, replace

from ...journal.item_operator import folder_id
from ..storage.file_pin import Pin, pinned
from ..world import World
from .lock_record import CONTENT_MAX, LockRecord
from .lock_rules import blocked_by, removal_refused
from .removal import opened_below
from .soft_locks import read_marker

__all__ = ["LockPinner", "LockRef"]


@dataclass(frozen=True, slots=True)
class LockRef:
    """The pin of a lock in a plan: the lock as it was read, what identifies it, its directory (device, inode), and the pid that
    had it. ``pin`` is None for a lock that is to be put back."""

    record: LockRecord
    pin: Pin | None
    folder_id: tuple[int, int]
    pid: int | None


class LockPinner:
    """Pins locks of the target ``path`` for a plan of ``user``. ``stale_after``: seconds that a lock exists after its holder
    exited before it counts as stale."""

    def __init__(self, path: str, user: str, world: World, stale_after: float) -> None:
        self._path = path
        self._user = user
        self._files = world.files
        self._processes = world.processes
        self._stale_after = stale_after

    def pin(
        self, lock: Lock, folders: list[tuple[str, int]], *, force: bool, now: float
    ) -> tuple[list[Item], list[Refusal]]:
        """Pins a lock, or says why it is not removed. ``folders`` are (path, descriptor), that of the target first."""
        row = _row_of(lock)
        why, forceable = blocked_by(lock, now, self._stale_after)
        if why and not (forceable and force):
            return [], [Refusal(row, why, forceable)]
        try:
            if lock.kind == "ticket":
                return self._tickets_of(lock, folders, row, force=forceable)
            folder, fd = next((path, fd) for path, fd in folders if os.path.dirname(lock.path) == path)
            name = os.path.basename(lock.path)
            marker = read_marker(name, fd)
            if marker is None:
                return [], [Refusal(row, "it was removed meanwhile, or is no lock any more")]
            with opened_below(fd, marker.below, self._files) as own:
                refusal = removal_refused(own, marker.names[0] if marker.names else name, row, self._path, self._files)
                if refusal is not None:
                    return [], [refusal]
                ref = self._ref(lock, folder, fd, own, marker.below, marker.names or (name,), marker.element, marker.pid)
        except FileNotFoundError:
            return [], [Refusal(row, "it was removed meanwhile")]
        except OSError as error:
            return [], [Refusal(row, f"it cannot be seen: {error.strerror}")]
        return [Item(row, ref, lock.evidence if forceable else "", ref.record.words)], []

    def _tickets_of(
        self, lock: Lock, folders: list[tuple[str, int]], row: Row, *, force: bool
    ) -> tuple[list[Item], list[Refusal]]:
        """The tickets of dead processes before the first of a running one: each would be the head next. By force only the head.
        """
        own_queue = lock.path == folders[0][0]
        folder, fd = folders[0] if own_queue else next(one for one in folders if os.path.dirname(lock.path) == one[0])
        path = "" if own_queue else os.path.basename(lock.path)
        items: list[Item] = []
        with opened_below(fd, path, self._files) as own:
            for number, name, pid in file_tickets(self._files.list(own)):
                if not (force and not items) and self._processes.exists(pid) is not False:
                    break
                refusal = removal_refused(own, name, row, self._path, self._files)
                if refusal is not None:
                    return [], [refusal]
                ref = self._ref(lock, folder, fd, own, path, (name,), "", pid)
                ticket = f"{escape(os.path.basename(lock.path))}/{number}"
                items.append(Item(replace(row, id=ticket, name=name), ref, lock.evidence if force else "", ref.record.words))
                if force:
                    break
        return items, [] if items else [Refusal(row, "its head has gone by itself")]

    def _ref(
        self, lock: Lock, folder: str, fd: int, own: int, path: str, names: tuple[str, ...], element: str, pid: int | None
    ) -> LockRef:
        """Pins the files ``names`` in the open directory ``own``, which is ``path`` below ``folder`` (open as ``fd``). Raises
        ``OSError``."""
        found = self._files.stat(names[0], own)
        content, link = b"", ""
        if stat.S_ISLNK(found.st_mode):
            link = os.readlink(names[0], dir_fd=own)
        elif not element:
            opened = self._files.open_read(names[0], own)
            try:
                content = self._files.read(opened, CONTENT_MAX)
            finally:
                self._files.close(opened)
        record = LockRecord(
            "", 0, Action.UNLOCK, 0.0, self._user, None, lock.path, os.path.realpath(folder), path, names, content, link, element,
            stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, found.st_mtime, _words_of(lock, names[0], pid, element),
        )  # fmt: skip
        return LockRef(record, pinned(found), folder_id(fd), pid)


def _row_of(lock: Lock) -> Row:
    verdict = {"stale": Verdict.DEAD, "held": Verdict.ALIVE, "blocked": Verdict.ALIVE}.get(lock.verdict, Verdict.UNKNOWN)
    since = min((one.since for one in lock.holders if one.since is not None), default=None)
    return Row(
        key=lock.path, box=Box.CUR, id=lock.path, name=lock.path, verdict=verdict, evidence=lock.evidence, in_box_since=since
    )


def _words_of(lock: Lock, name: str, pid: int | None, element: str) -> str:
    """The lock in words, in the list of a plan and in the log."""
    if lock.kind == "ticket":
        return f"ticket {int(name.partition('.')[0])} of pid {pid} in {escape(lock.path)}"
    of = f" of pid {pid}" if pid is not None else f" on {escape(element)}" if element else ""
    return f"soft lock {escape(lock.path)}{of}"

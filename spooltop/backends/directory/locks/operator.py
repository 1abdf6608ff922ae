"""Removes stale locks whose existing is the lock, and tickets of the dead at the head of a queue; puts them back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from spooltop.engine.ticket_files import MEMBER
from spooltop.model.capabilities import Can
from spooltop.model.observation import Lock
from spooltop.model.plan import Candidates, Item, ItemResult, OperationRecord, Outcome, Plan, Refusal
from spooltop.model.progress import Progress
from spooltop.model.row import Row
from spooltop.model.selection import Selection
from spooltop.model.text import escape
from spooltop.model.vocabulary import LIVE, Action, Json

from ..journal.item_log import BesideBooks
from ..journal.item_operator import BesideOperator, Step
from ..journal.log_files import LogFiles, with_above
from ..liveness.processes import Processes
from ..storage.filesystem import is_local, mount_of
from .lock_files import LockFiles, read_table
from .message_locks import message_locks
from .pins import LockRef, ref_of, rights
from .records import Taken, gather, intent
from .removal import Changed, below, put_back, same, take_away
from .soft_lock_liveness import Judge
from .soft_locks import read_marker
from .ticket_queues import members_in, orphaned, ticket_queue
from .undo import LockUndo
from .wording import chosen, record, row_of, why_not

__all__ = ["STALE_AFTER", "LockOperator"]

STALE_AFTER = 300.0
"""Seconds that a lock stands after its holder went before it counts as stale."""


class LockOperator(BesideOperator):
    """Implements ``model.kind.Operator`` for the locks in ``path`` and (``above``) in the directory it lies in: those that the
    view shows. With ``tickets`` the path itself is a queue. ``stale_after`` is in seconds."""

    def __init__(
        self,
        path: str,
        books: BesideBooks,
        *,
        tickets: bool = False,
        above: bool = True,
        read_only: str | None = None,
        files: LogFiles | None = None,
        processes: Processes | None = None,
        clock: Callable[[], float] = time.time,
        stale_after: float = STALE_AFTER,
        user: str | None = None,
    ) -> None:
        super().__init__(path, books, "locks", read_only=read_only, files=files, clock=clock, user=user)
        self._tickets = tickets
        self._above = above
        self._processes = processes or Processes()
        self._stale_after = stale_after
        self._undo = LockUndo(books, self._files, self._processes, clock)
        self._ref = partial(ref_of, files=self._files, user=self._user)

    def can(self) -> Can:
        if self._read_only is not None:
            return Can.nothing(self._read_only)
        return Can({action: "there are no messages here" for action in Action if action not in (Action.UNLOCK, Action.UNDO)})

    def candidates(
        self, action: Action, selection: Selection, *, force: bool, options: Mapping[str, Json], now: float, progress: Progress
    ) -> Candidates:
        """Locks are named by their path as shown or their file name, in ``ids`` or ``keys``; ``everything`` are all stale ones.
        Raises ``UsageError`` where none is named."""
        with self._telling(), self._folders() as folders:
            if action is Action.UNDO:
                return self._undo.candidates(str(options.get("undoes", "")), folders)
            locks = self._look(folders)
            wanted, missing = chosen(selection, locks)
            found = [self._pin(lock, folders, force=force, now=now) for lock in wanted]
        items = [item for pinned_items, _ in found for item in pinned_items]
        refused = [refusal for _, refusals in found for refusal in refusals if not selection.everything]
        return Candidates(items, refused, _notes(items), missing)

    def _step(self, plan: Plan, place: int, item: Item, stop: Callable[[], bool]) -> Step:
        ref = item.ref
        if not isinstance(ref, LockRef):
            raise TypeError(f"not a lock that was pinned: {ref!r}")
        one = replace(
            ref.taken, operation=plan.operation, item=place, action=plan.action, at=self._clock(), user=self._user,
            undoes=plan.undoes,
        )  # fmt: skip

        def change() -> ItemResult:
            outcome, reason = self._do(replace(ref, taken=one))
            return ItemResult(item.row.id, item.row.name, outcome, reason, one.path if outcome is Outcome.DONE else "")

        return Step(intent(one), change, {"item": place})

    def operations(self, progress: Progress) -> list[OperationRecord]:
        logs, _ = self._books.read()
        known: dict[str, list[Taken]] = {}
        for lines in logs:
            for operation, items in gather(lines)[0].items():
                known.setdefault(operation, items)
        undone = {
            one.undoes: one.operation for items in known.values() for one in items if one.undoes and one.outcome is Outcome.DONE
        }
        records = [record(items, undone.get(operation)) for operation, items in known.items()]
        records.reverse()
        return sorted(records, key=lambda record: -record.at)

    def knows(self, operation: str) -> bool:
        """True where this operation removed a lock here, or put one back."""
        return any(operation in gather(lines)[0] for lines in self._books.read()[0])

    @contextmanager
    def _folders(self) -> Iterator[list[tuple[str, int]]]:
        """(path, descriptor): the path itself first, then where else its locks are."""
        with with_above(self._path, self._files, above=self._above) as folders:
            opened: list[tuple[str, int]] = []
            try:
                for box in LIVE if not self._tickets else ():
                    try:
                        opened.append((os.path.join(self._path, box.value), self._files.open_dir(box.value, folders[0][1])))
                    except OSError:
                        continue  # no box, or closed to us: the view shows nothing of it either
                yield [*folders, *opened]
            finally:
                for _, fd in opened:
                    self._files.close(fd)

    # What is meant, and whether it may go

    def _look(self, folders: list[tuple[str, int]]) -> tuple[Lock, ...]:
        """All locks by a fresh look, as the view shows them."""
        known = [(path, fd, mount.device if (mount := mount_of(fd)) is not None else None) for path, fd in folders]
        names = {path: self._files.list(fd) for path, fd in folders if os.path.dirname(path) == self._path}
        boxes = {path: message_locks([b"/".join(map(os.fsencode, found))]) for path, found in names.items()}
        table = read_table(self._processes)
        locks = LockFiles(self._processes, clock=self._clock).look(known, lambda: table, boxes)
        if self._tickets and not any(lock.path == self._path for lock in locks):
            path, fd = folders[0]
            queue = ticket_queue(path, ".", fd, Judge(self._processes), local=is_local(mount_of(fd)))
            return orphaned([*([queue] if queue is not None else []), *locks])
        return locks

    def _pin(
        self, lock: Lock, folders: list[tuple[str, int]], *, force: bool, now: float
    ) -> tuple[list[Item], list[Refusal]]:
        row = row_of(lock)
        why, forceable = why_not(lock, now, self._stale_after)
        if why and not (forceable and force):
            return [], [Refusal(row, why, forceable)]
        try:
            if lock.kind == "ticket":
                return self._tickets_of(lock, folders, row, force=forceable)
            folder, fd = next((path, fd) for path, fd in folders if os.path.dirname(lock.path) == path)
            name = os.path.basename(lock.path)
            marker = read_marker(name, fd)
            if marker is None:
                return [], [Refusal(row, "it has gone by itself, or is no lock any more")]
            with below(fd, marker.below, self._files) as own:
                refusal = rights(own, marker.names[0] if marker.names else name, row, self._path, self._files)
                if refusal is not None:
                    return [], [refusal]
                ref = self._ref(lock, folder, fd, own, marker.below, marker.names or (name,), marker.element, marker.pid)
        except FileNotFoundError:
            return [], [Refusal(row, "it has gone by itself")]
        except OSError as error:
            return [], [Refusal(row, f"it cannot be seen: {error.strerror}")]
        return [Item(row, ref, lock.evidence if forceable else "", ref.taken.words)], []

    def _tickets_of(
        self, lock: Lock, folders: list[tuple[str, int]], row: Row, *, force: bool
    ) -> tuple[list[Item], list[Refusal]]:
        """The tickets of the dead before the first of a living one: each would be at the head next. By force the head alone."""
        own_queue = lock.path == folders[0][0]
        folder, fd = folders[0] if own_queue else next(one for one in folders if os.path.dirname(lock.path) == one[0])
        path = "" if own_queue else os.path.basename(lock.path)
        items: list[Item] = []
        with below(fd, path, self._files) as own:
            for name in members_in(self._files.list(own)):
                found = MEMBER.match(name)
                pid = int(found["pid"]) if found is not None else 0
                if not (force and not items) and self._processes.exists(pid) is not False:
                    break
                refusal = rights(own, name, row, self._path, self._files)
                if refusal is not None:
                    return [], [refusal]
                ref = self._ref(lock, folder, fd, own, path, (name,), "", pid)
                ticket = f"{escape(os.path.basename(lock.path))}/{int(name.partition('.')[0])}"
                items.append(Item(replace(row, id=ticket, name=name), ref, lock.evidence if force else "", ref.taken.words))
                if force:
                    break
        return items, [] if items else [Refusal(row, "its head has gone by itself")]

    # One lock

    def _do(self, ref: LockRef) -> tuple[Outcome, str]:
        one = ref.taken
        try:
            with self._folders() as folders:
                fd = next((fd for path, fd in folders if os.path.realpath(path) == one.folder), None)
                if fd is None or (os.fstat(fd).st_dev, os.fstat(fd).st_ino) != ref.folder_id:
                    return Outcome.SKIPPED, "another directory stands there since the list was made"
                with below(fd, one.below, self._files) as own:
                    if ref.pin is None:
                        why = self._undo.blocked(one, fd, own)
                        if why:
                            return Outcome.SKIPPED, why
                        put_back(one, own, self._files)
                    else:
                        same(one, own, ref.pin, self._files)
                        if ref.pid is not None and self._processes.exists(ref.pid):
                            return Outcome.SKIPPED, f"pid {ref.pid} lives"
                        if one.is_ticket:
                            self._freshen(own, one.names[0])
                        who = f"{os.getpid()}\n{self._processes.host()}\n".encode()
                        take_away(one, own, ref.pin, who, self._files)
        except Changed as error:
            return Outcome.SKIPPED, str(error)
        except FileNotFoundError:
            return Outcome.SKIPPED, "its directory has gone"
        except OSError as error:
            return Outcome.FAILED, f"{error.strerror or error}"
        return Outcome.DONE, ""

    def _freshen(self, queue: int, head: str) -> None:
        """Who comes next is as old as its becoming the head: who waited long is not stale for it."""
        members = members_in(self._files.list(queue))
        if members[:1] == [head] and len(members) > 1:
            try:
                os.utime(members[1], (self._clock(), self._clock()), dir_fd=queue, follow_symlinks=False)
            except OSError:
                return  # it left, or belongs to another user: its file tells when it came, as before


def _notes(items: list[Item]) -> tuple[str, ...]:
    tickets = sum(isinstance(item.ref, LockRef) and item.ref.taken.is_ticket for item in items)
    if tickets and tickets == len(items):
        return ("Who waits next has the turn then.",)
    return ("The next one who asks for it has it then.",) if items else ()

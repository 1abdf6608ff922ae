"""Removes stale locks whose existence is the lock, and tickets of dead processes at the head of a queue. Undo restores them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from spooltop.engine.tickets.file_queue import file_tickets, freshen_next
from spooltop.model.capabilities import Capabilities
from spooltop.model.filters.selection import Selection
from spooltop.model.look.locks import Lock
from spooltop.model.operations.plan import Candidates, Item, ItemResult, OperationRecord, Outcome, Plan, Progress, Refusal
from spooltop.model.row import Row
from spooltop.model.vocabulary import LIVE, Action, Box, Json
from spooltop.records import replace

from ...journal.item_operator import ItemOperator, Skipped, changed, check_folder, outcome_of
from ...journal.log_files import with_above
from ...journal.log_store import LogStore
from ...journal.operation_list import operation_record, why_not_undo
from ...journal.record_log import ItemOutcome, LoggedOperation
from ..options import OpenOptions
from ..storage.filesystem import is_local, mount_of
from ..world import World
from .lock_files import LockFiles, message_locks, read_table
from .lock_record import LOCKS, LockRecord
from .lock_rules import chosen_locks
from .pinning import LockPinner, LockRef
from .removal import check_same, opened_below, put_back, take_away
from .restoring import LockRestorer
from .soft_lock_liveness import Judge
from .ticket_queues import orphaned, ticket_queue

__all__ = ["LockOperator"]


class LockOperator(ItemOperator[LockRecord]):
    """Implements ``model.protocols.Operator`` for the locks in ``path`` and (``above``) in its parent directory: those that the
    view shows. With ``tickets`` the path itself is a queue."""

    def __init__(
        self,
        path: str,
        store: LogStore,
        options: OpenOptions | None = None,
        world: World | None = None,
        *,
        tickets: bool = False,
        above: bool = True,
        user: str | None = None,
    ) -> None:
        options, world = options or OpenOptions(), world or World()
        super().__init__(os.path.abspath(path), store, LOCKS, clock=world.clock, read_only=options.read_only, user=user)
        self._world = world
        self._files = world.files
        self._tickets = tickets
        self._above = above
        self._processes = world.processes
        self._pinner = LockPinner(self._path, self._user, world, options.stale_after)
        self._restorer = LockRestorer(world)

    def capabilities(self) -> Capabilities:
        if self._read_only is not None:
            return Capabilities.nothing(self._read_only)
        offered = (Action.UNLOCK, Action.UNDO)
        return Capabilities({action: "there are no messages here" for action in Action if action not in offered})

    def candidates(
        self, action: Action, selection: Selection, *, force: bool, options: Mapping[str, Json], now: float, progress: Progress
    ) -> Candidates:
        """Pins the named locks. They are named by their path as shown or their file name, in ``ids`` or ``keys``;
        ``everything`` means all stale ones. Raises ``UsageError`` where none is named."""
        with self._translate_errors(), self._folders() as folders:
            if action is Action.UNDO:
                return self._undo(str(options.get("undoes", "")), folders)
            locks = self._look(folders)
            wanted, missing = chosen_locks(selection, locks)
            found = [self._pinner.pin(lock, folders, force=force, now=now) for lock in wanted]
        items = [item for pinned_items, _ in found for item in pinned_items]
        refused = [refusal for _, refusals in found for refusal in refusals if not selection.everything]
        return Candidates(items, refused, _notes(items), missing)

    def _intent(self, plan: Plan, place: int, item: Item) -> LockRecord:
        return replace(
            _ref_of(item).record, operation=plan.operation, step=place, action=plan.action, at=self._clock(), user=self._user,
            undoes=plan.undoes,
        )  # fmt: skip

    def _apply(self, item: Item, intent: LockRecord, stop: Callable[[], bool]) -> ItemResult:
        outcome, reason = outcome_of(lambda: self._change(intent, _ref_of(item)))
        return ItemResult(item.row.id, item.row.name, outcome, reason, intent.path if outcome is Outcome.DONE else "")

    def _records(
        self, operations: Mapping[str, LoggedOperation[LockRecord, ItemOutcome]], undone_by: Mapping[str, str]
    ) -> list[OperationRecord]:
        records = []
        for logged in operations.values():
            items = [record for record, _ in logged.steps.values()]
            outcomes = [outcome.outcome for _, outcome in logged.steps.values() if outcome is not None]
            undone = undone_by.get(logged.operation)
            if logged.first.action is Action.UNDO:
                why_not: str | None = "unlock removes it again"
            else:
                why_not = why_not_undo(changed=logged.open or changed(logged), undone=undone, other=None)
            words = "; ".join(one.words for one in items[:3]) + (f" and {len(items) - 3} more" if len(items) > 3 else "")
            if logged.open:
                words += "; cut short: spooltop locks shows if it was removed"
            records.append(
                operation_record(
                    logged, outcomes, count=len(items), unfinished=logged.open, undone=undone, why_not=why_not, words=words
                )
            )
        return records

    @contextmanager
    def _folders(self) -> Iterator[list[tuple[str, int]]]:
        """Opens the path and the other directories with its locks, as (path, descriptor); the path itself comes first."""
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

    def _look(self, folders: list[tuple[str, int]]) -> tuple[Lock, ...]:
        """Looks for all locks, as the view shows them."""
        known = [(path, fd, mount.device if (mount := mount_of(fd)) is not None else None) for path, fd in folders]
        names = {path: self._files.list(fd) for path, fd in folders if os.path.dirname(path) == self._path}
        boxes = {path: message_locks([b"/".join(map(os.fsencode, found))]) for path, found in names.items()}
        table = read_table(self._processes)
        locks = LockFiles(self._world).look(known, lambda: table, boxes)
        if self._tickets and not any(lock.path == self._path for lock in locks):
            path, fd = folders[0]
            queue = ticket_queue(path, ".", fd, Judge(self._processes), local=is_local(mount_of(fd)))
            return orphaned([*([queue] if queue is not None else []), *locks])
        return locks

    def _change(self, one: LockRecord, ref: LockRef) -> None:
        """Removes a lock or puts it back. Raises ``Skipped``, ``OSError``."""
        with self._folders() as folders:
            fd = check_folder(next((fd for path, fd in folders if os.path.realpath(path) == one.folder), None), ref.folder_id)
            with opened_below(fd, one.below, self._files) as own:
                if ref.pin is None:
                    if why := self._restorer.blocked(one, fd, own):
                        raise Skipped(why)
                    put_back(one, own, self._files)
                    return
                check_same(one, own, ref.pin, self._files)
                if ref.pid is not None and self._processes.exists(ref.pid):
                    raise Skipped(f"pid {ref.pid} is running")
                if one.is_ticket:
                    freshen_next(file_tickets(self._files.list(own)), one.names[0], own, self._clock())
                who = f"{os.getpid()}\n{self._processes.host()}\n".encode()
                take_away(one, own, ref.pin, who, self._files)

    def _undo(self, undoes: str, folders: list[tuple[str, int]]) -> Candidates:
        """The locks that ``undoes`` removed, according to the user's own log, in the open ``folders`` (path, descriptor)."""
        logged, undos, problems = self._logged(undoes)
        if logged is None:
            return Candidates((), (), problems)
        if not logged.trusted:
            why = "its journal may have been written by another user, so nothing is restored from it"
            return Candidates((), (), (why, *problems))
        again = [
            record
            for undo in undos
            for record, outcome in undo.steps.values()
            if undo.trusted and outcome is not None and outcome.outcome is Outcome.DONE
        ]
        back = {(one.folder, one.below, one.names) for one in again}
        found: list[Item] = []
        refused: list[Refusal] = []
        for one, outcome in logged.steps.values():
            row = Row(key=(one.path, one.names), box=Box.CUR, id=one.path, name=one.names[0])
            if one.action is Action.UNDO:
                refused.append(Refusal(row, "it was put back; d in Locks, or spooltop unlock, removes it again"))
            elif (outcome is None or outcome.outcome is Outcome.DONE) and (one.folder, one.below, one.names) not in back:
                item = self._restorer.pin(one, row, folders)
                found += [item] if isinstance(item, Item) else []
                refused += [item] if isinstance(item, Refusal) else []
        taken_back = (f"{len(again)} of {len(logged.steps)} undone already.",) if again else ()
        return Candidates(found, refused, (*taken_back, *problems))


def _ref_of(item: Item) -> LockRef:
    if not isinstance(item.ref, LockRef):
        raise TypeError(f"not a lock that was pinned: {item.ref!r}")
    return item.ref


def _notes(items: list[Item]) -> tuple[str, ...]:
    tickets = sum(_ref_of(item).record.is_ticket for item in items)
    if tickets and tickets == len(items):
        return ("The next waiter then gets the lock.",)
    return ("The next process that asks for it then gets it.",) if items else ()

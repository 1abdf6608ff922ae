"""Removes stale locks whose existence is the lock, and tickets of dead processes at the head of a queue. Undo restores them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from spooltop.engine.tickets.names import file_tickets, parse_file_ticket
from spooltop.errors import UsageError
from spooltop.model.capabilities import Capabilities
from spooltop.model.locks import Lock
from spooltop.model.plan import Candidates, Item, ItemResult, OperationRecord, Outcome, Plan, Refusal
from spooltop.model.progress import Progress
from spooltop.model.row import Row
from spooltop.model.selection import Selection
from spooltop.model.text import escape
from spooltop.model.units import age, count, duration
from spooltop.model.vocabulary import LIVE, Action, Box, Json, Verdict

from ..journal.item_operator import ItemOperator
from ..journal.log_files import LogFiles, with_above
from ..journal.log_store import LogStore
from ..journal.record_log import (  # fmt: skip
    ItemOutcome,
    LoggedOperation,
    operation_record,
    undone_by,
    undos_of,
    why_not_undo,
)
from ..options import OpenOptions
from ..storage.access import closed_words, quoted
from ..storage.filesystem import is_local, mount_of
from ..world import World
from .lock_files import LockFiles, message_locks, read_table
from .removal import CONTENT_MAX, LOCKS, Changed, LockRecord, Pin, check_same, opened_below, pinned, put_back, take_away
from .soft_lock_liveness import Judge, soft_lock
from .soft_locks import read_marker
from .ticket_queues import orphaned, ticket_queue

__all__ = ["LockOperator"]

_NEVER = "a kernel lock ends with its holder, and a file that merely exists is not held; removing it would let two hold it"


@dataclass(frozen=True, slots=True)
class _LockRef:
    """The pin of a lock in a plan: the lock as it was read, what identifies it, its directory (device, inode), and the pid that
    had it. ``pin`` is None for a lock that is to be put back."""

    record: LockRecord
    pin: Pin | None
    folder_id: tuple[int, int]
    pid: int | None


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
        super().__init__(path, store, LOCKS, options=options, world=world, user=user)
        self._tickets = tickets
        self._above = above
        self._processes = self._world.processes

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
            wanted, missing = _chosen(selection, locks)
            found = [self._pin(lock, folders, force=force, now=now) for lock in wanted]
        items = [item for pinned_items, _ in found for item in pinned_items]
        refused = [refusal for _, refusals in found for refusal in refusals if not selection.everything]
        return Candidates(items, refused, _notes(items), missing)

    def _intent(self, plan: Plan, place: int, item: Item) -> LockRecord:
        return replace(
            _ref_of(item).record, operation=plan.operation, step=place, action=plan.action, at=self._clock(), user=self._user,
            undoes=plan.undoes,
        )  # fmt: skip

    def _apply(self, item: Item, intent: LockRecord, stop: Callable[[], bool]) -> ItemResult:
        outcome, reason = self._change(intent, _ref_of(item))
        return ItemResult(item.row.id, item.row.name, outcome, reason, intent.path if outcome is Outcome.DONE else "")

    def _records(self, operations: Mapping[str, LoggedOperation[LockRecord, ItemOutcome]]) -> list[OperationRecord]:
        undos = undos_of(operations)
        records = []
        for logged in operations.values():
            items = [record for record, _ in logged.steps.values()]
            outcomes = [outcome.outcome for _, outcome in logged.steps.values() if outcome is not None]
            undone = undone_by(undos.get(logged.operation, ()), _changed)
            if logged.first.action is Action.UNDO:
                why_not: str | None = "unlock removes it again"
            else:
                why_not = why_not_undo(changed=logged.open or _changed(logged), undone=undone, other=None)
            words = "; ".join(one.words for one in items[:3]) + (f" and {len(items) - 3} more" if len(items) > 3 else "")
            if logged.open:
                words += "; cut short: whether it was removed spooltop locks shows"
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

    # What is meant, and whether it may go

    def _look(self, folders: list[tuple[str, int]]) -> tuple[Lock, ...]:
        """All locks by a fresh look, as the view shows them."""
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

    def _pin(
        self, lock: Lock, folders: list[tuple[str, int]], *, force: bool, now: float
    ) -> tuple[list[Item], list[Refusal]]:
        row = _row_of(lock)
        why, forceable = _blocked_by(lock, now, self._options.stale_after)
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
            with opened_below(fd, marker.below, self._files) as own:
                refusal = _rights(own, marker.names[0] if marker.names else name, row, self._path, self._files)
                if refusal is not None:
                    return [], [refusal]
                ref = self._ref(lock, folder, fd, own, marker.below, marker.names or (name,), marker.element, marker.pid)
        except FileNotFoundError:
            return [], [Refusal(row, "it has gone by itself")]
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
                refusal = _rights(own, name, row, self._path, self._files)
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
    ) -> _LockRef:
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
        at = os.fstat(fd)
        record = LockRecord(
            "", 0, Action.UNLOCK, 0.0, self._user, None, lock.path, os.path.realpath(folder), path, names, content, link, element,
            stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, found.st_mtime, _words_of(lock, names[0], pid, element),
        )  # fmt: skip
        return _LockRef(record, pinned(found), (at.st_dev, at.st_ino), pid)

    # One lock

    def _change(self, one: LockRecord, ref: _LockRef) -> tuple[Outcome, str]:
        try:
            with self._folders() as folders:
                fd = next((fd for path, fd in folders if os.path.realpath(path) == one.folder), None)
                if fd is None or (os.fstat(fd).st_dev, os.fstat(fd).st_ino) != ref.folder_id:
                    return Outcome.SKIPPED, "another directory stands there since the list was made"
                with opened_below(fd, one.below, self._files) as own:
                    if ref.pin is None:
                        why = self._blocked(one, fd, own)
                        if why:
                            return Outcome.SKIPPED, why
                        put_back(one, own, self._files)
                    else:
                        check_same(one, own, ref.pin, self._files)
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
        """Makes the next ticket as old as its becoming the head: a long wait does not make it stale."""
        tickets = file_tickets(self._files.list(queue))
        if len(tickets) > 1 and tickets[0].name == head:
            try:
                os.utime(tickets[1].name, (self._clock(), self._clock()), dir_fd=queue, follow_symlinks=False)
            except OSError:
                return  # it left, or belongs to another user: its file tells when it came, as before

    # Undo

    def _undo(self, undoes: str, folders: list[tuple[str, int]]) -> Candidates:
        """The locks that ``undoes`` removed, according to the user's own log, in the open ``folders`` (path, descriptor)."""
        operations, troubles = self._log.read()
        logged = operations.get(undoes)
        if logged is None or not logged.trusted:
            why = "its books are not this user's own, and what they tell is not made again" if logged is not None else ""
            return Candidates((), (), (why or f"no operation {undoes} in {LOCKS.what}", *troubles))
        again = [
            record
            for undo in undos_of(operations).get(undoes, ())
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
                item = self._restored(one, row, folders)
                found += [item] if isinstance(item, Item) else []
                refused += [item] if isinstance(item, Refusal) else []
        taken_back = (f"{len(again)} of {len(logged.steps)} taken back already.",) if again else ()
        return Candidates(found, refused, (*taken_back, *troubles))

    def _restored(self, one: LockRecord, row: Row, folders: list[tuple[str, int]]) -> Item | Refusal | None:
        fd = next((fd for path, fd in folders if os.path.realpath(path) == one.folder), None)
        if fd is None:
            return Refusal(row, f"{escape(one.folder)} is no directory of this target now")
        try:
            with opened_below(fd, one.below, self._files) as own:
                why = self._blocked(one, fd, own)
                waiting = len(file_tickets(self._files.list(own))) if one.is_ticket else 0
        except OSError as error:
            return Refusal(row, f"its directory is not there any more: {error.strerror}")
        if why:
            return Refusal(row, why)
        at = os.fstat(fd)
        words = f"{one.words}, put back"
        wait = "1 waits" if waiting == 1 else f"{count(waiting)} wait"
        warning = f"{wait} in that queue: it goes before them, and blocks them" if waiting else ""
        return Item(row, _LockRef(replace(one, words=words), None, (at.st_dev, at.st_ino), None), warning, words)

    def _blocked(self, one: LockRecord, folder: int, own: int) -> str:
        """Why a lock cannot be put back now, or ""."""
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
            ticket = parse_file_ticket(one.names[0])
            if not last.isdigit() or ticket is None or int(last) < ticket.number:
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


def _ref_of(item: Item) -> _LockRef:
    if not isinstance(item.ref, _LockRef):
        raise TypeError(f"not a lock that was pinned: {item.ref!r}")
    return item.ref


def _changed(logged: LoggedOperation[LockRecord, ItemOutcome]) -> bool:
    return any(outcome is not None and outcome.outcome is Outcome.DONE for _, outcome in logged.steps.values())


def _notes(items: list[Item]) -> tuple[str, ...]:
    tickets = sum(_ref_of(item).record.is_ticket for item in items)
    if tickets and tickets == len(items):
        return ("Who waits next has the turn then.",)
    return ("The next one who asks for it has it then.",) if items else ()


def _rights(own: int, name: str, row: Row, target: str, files: LogFiles) -> Refusal | None:
    """Why this user may not take ``name`` out of the directory ``own`` (rename(2), unlink(2)), or None."""
    above = os.fstat(own)
    if os.fstatvfs(own).f_flag & os.ST_RDONLY:
        return Refusal(row, f"the file system is read-only ({os.strerror(errno.EROFS)})")
    file = files.stat(name, own)
    sticky = above.st_mode & stat.S_ISVTX and os.geteuid() not in (0, above.st_uid, file.st_uid)
    if not sticky and os.access(".", os.R_OK | os.W_OK | os.X_OK, dir_fd=own, effective_ids=True):
        return None
    what, found = ("it", file) if sticky else ("its directory", above)
    return Refusal(row, closed_words(what, found, "unlock", target, row.id))


def _chosen(selection: Selection, locks: tuple[Lock, ...]) -> tuple[list[Lock], tuple[str, ...]]:
    """The named locks, and the names that no lock has. Raises ``UsageError``."""
    if selection.everything:
        return [lock for lock in locks if lock.verdict == "stale"], ()
    names = [str(name) for name in (*(selection.ids or ()), *(selection.keys or ()))]
    if not names:
        raise UsageError("unlock: which lock?", advice="name it as spooltop locks lists it, or ALL for all that are stale")
    named: dict[str, Lock] = {}
    missing: list[str] = []
    for name in names:
        found = [lock for lock in locks if name == lock.path or os.path.abspath(name) == lock.path]
        found = found or [lock for lock in locks if name == os.path.basename(lock.path)]
        if len(found) > 1:
            there = ", ".join(escape(lock.path) for lock in found)
            raise UsageError(f"unlock: {escape(name)} stands in several places: {there}", advice="name one by its path")
        if found:
            named[found[0].path] = found[0]
        else:
            missing.append(name)
    return list(named.values()), tuple(missing)


def _blocked_by(lock: Lock, now: float, stale_after: float) -> tuple[str, bool]:
    """Why a lock is not removed ("" where it may be), and whether force removes it anyway."""
    head = lock.holders[0] if lock.holders else None
    who = f"pid {head.pid}" if head is not None and head.pid is not None else "somebody"
    if lock.kind == "mkdir":
        return f"{lock.evidence}; a directory is not removed here: if its holder is gone, rm -r {quoted(lock.path)}", False
    if lock.kind == "none" and lock.verdict == "unknown":
        return f"{lock.evidence}; if so, and its holder is gone, rm {quoted(lock.path)}", False
    if lock.kind not in ("soft", "ticket"):
        return (f"{who} holds it ({lock.kind}); {_NEVER}" if lock.holders else f"nobody holds it; {_NEVER}"), False
    if lock.verdict == "free":
        return f"{lock.evidence}: there is nothing to remove", False
    if lock.verdict == "unknown":
        return f"{lock.evidence}; whether its holder lives nobody here can tell", True
    if lock.verdict != "stale":
        has = "has the first ticket" if lock.kind == "ticket" else "has it"
        return (f"{who} lives and {has}" if head is not None and head.alive else f"somebody has it: {lock.evidence}"), False
    stood = None if head is None or head.since is None else now - head.since
    if lock.kind == "soft" and (stood is None or stood <= stale_after):
        held = "?" if stood is None else age(max(0.0, stood))
        return f"{lock.evidence}, but it is only {held} old; it counts as stale after {duration(stale_after)}", True
    return "", False


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

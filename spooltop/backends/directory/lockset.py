"""Removes stale locks whose existing is the lock, and tickets of the dead at the head of a queue; puts them back."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ...errors import AuditFailed, Refused, Unreadable
from ...model.audit import AuditLog
from ...model.can import Can
from ...model.plan import Candidates, Item, ItemResult, OperationRecord, Outcome, Plan, Refusal
from ...model.row import Row
from ...model.selection import Selection
from ...model.sight import Lock
from ...model.text import escape
from ...model.units import count
from ...model.words import LIVE, Action, Box, Json
from .besidebooks import BesideBooks
from .disk import user_name
from .lockbooks import MOST, Taken, gather, intent, result
from .lockmoves import Changed, Pin, below, pinned, put_back, same, take_away
from .locks import LockFiles, read_table
from .lockwords import chosen, record, row_of, why_not, words_of
from .logfiles import LogFiles, with_above
from .messagelocks import message_locks
from .mounts import is_local, mount_of
from .processes import Processes
from .softjudge import soft_lock
from .softlocks import read_marker
from .ticketqueue import MEMBER, members_in, orphaned, ticket_queue

__all__ = ["STALE_AFTER", "LockOperator", "LockRef"]

STALE_AFTER = 300.0
"""Seconds that a lock stands after its holder went before it counts as stale."""


@dataclass(frozen=True, slots=True)
class LockRef:
    """What a plan pins: the lock as it was read, what it is known by again, its directory (device, inode), and who had it."""

    taken: Taken
    pin: Pin | None
    folder_id: tuple[int, int]
    pid: int | None


class LockOperator:
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
        self._path = os.path.abspath(path)
        self._books = books
        self._tickets = tickets
        self._above = above
        self._read_only = read_only
        self._files = files or LogFiles()
        self._processes = processes or Processes()
        self._clock = clock
        self._stale_after = stale_after
        self._user = user if user is not None else user_name(os.geteuid())
        self._performed: set[str] = set()

    def can(self) -> Can:
        if self._read_only is not None:
            return Can.nothing(self._read_only)
        return Can({action: "there are no messages here" for action in Action if action not in (Action.UNLOCK, Action.UNDO)})

    def candidates(
        self, action: Action, selection: Selection, *, force: bool, options: Mapping[str, Json], now: float
    ) -> Candidates:
        """Locks are named by their path as shown or their file name, in ``ids`` or ``keys``; ``everything`` are all stale ones.
        Raises ``UsageError`` where none is named."""
        with self._telling(), self._folders() as folders:
            if action is Action.UNDO:
                return self._undo(str(options.get("undoes", "")), folders, now)
            locks = self._look(folders)
            wanted, missing = chosen(selection, locks)
            found = [self._pin(lock, folders, force=force, now=now) for lock in wanted]
        items = [item for pinned_items, _ in found for item in pinned_items]
        refused = [refusal for _, refusals in found for refusal in refusals if not selection.everything]
        return Candidates(items, refused, _notes(items), missing)

    def perform(self, plan: Plan, stop: Callable[[], bool] = lambda: False) -> Iterator[list[ItemResult]]:
        """Raises ``Refused`` for what was performed already, ``AuditFailed`` where the journal cannot be written: that item has
        not begun then. All else that goes wrong is in the results."""
        if plan.operation in self._performed:
            raise Refused(f"operation {plan.operation} was performed already", path=self._path, advice="make a new plan")
        self._performed.add(plan.operation)
        undoes = plan.options.get("undoes") if plan.action is Action.UNDO else None
        for place, item in enumerate(plan.items):
            if stop():
                return
            ref = item.ref
            if not isinstance(ref, LockRef):
                raise TypeError(f"not a lock that was pinned: {ref!r}")
            one = replace(
                ref.taken, operation=plan.operation, item=place, action=plan.action, at=self._clock(), user=self._user,
                undoes=undoes if isinstance(undoes, str) else None,
            )  # fmt: skip
            self._books.journal(intent(one))
            outcome, reason = self._do(replace(ref, taken=one))
            done = [ItemResult(item.row.id, item.row.name, outcome, reason, one.path if outcome is Outcome.DONE else "")]
            try:
                self._books.journal(result(plan.operation, place, self._clock(), outcome, reason))
            except AuditFailed:
                yield done
                raise
            yield done

    def audit(self, entry: Mapping[str, Json]) -> None:
        self._books.audit(entry)

    def audit_logs(self) -> list[AuditLog]:
        with self._telling():
            return self._books.audited()

    def operations(self) -> list[OperationRecord]:
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

    def close(self) -> None:
        return

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Unreadable(f"the locks cannot be worked on: {error.strerror or error}", path=self._path) from error

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
            queue = ticket_queue(path, ".", fd, self._processes, local=is_local(mount_of(fd)))
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
                refusal = self._rights(own, marker.names[0] if marker.names else name, row)
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
                pid = int(found[1]) if found is not None else 0
                if not (force and not items) and self._processes.exists(pid) is not False:
                    break
                refusal = self._rights(own, name, row)
                if refusal is not None:
                    return [], [refusal]
                ref = self._ref(lock, folder, fd, own, path, (name,), "", pid)
                ticket = f"{escape(os.path.basename(lock.path))}/{int(name[:20])}"
                items.append(Item(replace(row, id=ticket, name=name), ref, lock.evidence if force else "", ref.taken.words))
                if force:
                    break
        return items, [] if items else [Refusal(row, "its head has gone by itself")]

    def _ref(
        self, lock: Lock, folder: str, fd: int, own: int, path: str, names: tuple[str, ...], element: str, pid: int | None
    ) -> LockRef:
        found = self._files.stat(names[0], own)
        content, link = b"", ""
        if stat.S_ISLNK(found.st_mode):
            link = os.readlink(names[0], dir_fd=own)
        elif not element:
            opened = self._files.open_read(names[0], own)
            try:
                content = self._files.read(opened, MOST)
            finally:
                self._files.close(opened)
        at = os.fstat(fd)
        taken = Taken(
            "", 0, Action.UNLOCK, 0.0, self._user, None, lock.path, os.path.realpath(folder), path, names, content, link, element,
            stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, found.st_mtime, words_of(lock, names[0], pid, element),
        )  # fmt: skip
        return LockRef(taken, pinned(found), (at.st_dev, at.st_ino), pid)

    def _rights(self, own: int, name: str, row: Row) -> Refusal | None:
        """Why this user may not take ``name`` out of the directory ``own`` (rename(2), unlink(2)), or None."""
        above = os.fstat(own)
        if os.fstatvfs(own).f_flag & os.ST_RDONLY:
            return Refusal(row, f"the file system is read-only ({os.strerror(errno.EROFS)})")
        you, me = user_name(os.geteuid()), os.geteuid()
        sticky = above.st_mode & stat.S_ISVTX and me not in (0, above.st_uid, self._files.stat(name, own).st_uid)
        if not sticky and os.access(".", os.R_OK | os.W_OK | os.X_OK, dir_fd=own, effective_ids=True):
            return None
        owner = user_name(self._files.stat(name, own).st_uid if sticky else above.st_uid)
        whose = "it" if sticky else "its directory"
        advice = f"Try: sudo -u {owner} spooltop unlock {escape(self._path)} {escape(row.id)}"
        return Refusal(row, f"you are {you}, {whose} belongs to {owner} {stat.S_IMODE(above.st_mode):04o}. {advice}")

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
                        why = self._blocked(one, fd, own)
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

    # Undo

    def _undo(self, undoes: str, folders: list[tuple[str, int]], now: float) -> Candidates:
        _, troubles = self._books.read()
        known, bad = gather(self._books.read_own())
        if bad:
            troubles.append(f"{bad} lines of the journal of locks are no journal lines and were left out")
        items = known.get(undoes, [])
        if not items:
            why = "its books are not this user's own, and what they tell is not made again" if self.knows(undoes) else ""
            return Candidates((), (), (why or f"no operation {undoes} in the journal of locks", *troubles))
        again = [one for others in known.values() for one in others if one.undoes == undoes and one.outcome is Outcome.DONE]
        back = {(one.below, one.names) for one in again}
        found: list[Item] = []
        refused: list[Refusal] = []
        for one in items:
            row = Row(key=(one.path, one.names), box=Box.CUR, id=one.path, name=one.names[0])
            if one.action is Action.UNDO:
                refused.append(Refusal(row, "it was put back; d in Locks, or spooltop unlock, removes it again"))
            elif one.outcome in (Outcome.DONE, None) and (one.below, one.names) not in back:
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
                why = self._blocked(one, fd, own)
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

    def _blocked(self, one: Taken, folder: int, own: int) -> str:
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
            if not last.isdigit() or int(last) < int(one.names[0][:20]):
                return "the queue has begun anew since, and its number may be another's now"
        elif one.below:
            lock = soft_lock(one.path, os.path.basename(one.path), folder, self._processes, self._clock())
            if lock is not None and lock.verdict != "free":
                return "the place is taken: somebody has that lock now"
        elif one.element:
            try:
                self._files.stat(one.element, own)
            except FileNotFoundError:
                return f"{escape(one.element)}, which it locked, has gone"
        return ""


def _notes(items: list[Item]) -> tuple[str, ...]:
    tickets = sum(isinstance(item.ref, LockRef) and item.ref.taken.is_ticket for item in items)
    if tickets and tickets == len(items):
        return ("Who waits next has the turn then.",)
    return ("The next one who asks for it has it then.",) if items else ()

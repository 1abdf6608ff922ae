"""Removes stale locks whose existence is the lock, and tickets of dead processes at the head of a queue. Undo restores them."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Annotated

from msgspec import Meta

from spooltop.backends.access import quoted
from spooltop.backends.directory.processes import read_table
from spooltop.backends.directory.storage import OpenOptions, Pin, System, opened_below, pinned
from spooltop.backends.journal import (
    PART,
    Account,
    Intent,
    ItemOutcome,
    LoggedOperation,
    Number,
    PinnedChange,
    RecordType,
    SingleOperator,
    Skipped,
    Time,
    Told,
    check_folder,
    folder_id,
    ref_of,
)
from spooltop.backends.log_store import LogStore, OpenFolders, with_above
from spooltop.engine.atomic import publish_new, write_new
from spooltop.engine.files import UNSUPPORTED, Files, read_small
from spooltop.engine.tickets import FileTicket, file_tickets, freshen_next, parse_file_ticket
from spooltop.model import Candidates, Capabilities, Item, Refusal, Request, RowItem, Selection, UsageError
from spooltop.model.vocabulary import LIVE, Action, Box, Lock, Row, Stop, Verdict, age, count, duration, escape

from .lock_files import KIND, LockFiles, LockFolder, Marker, folder_closed, message_locks, read_marker

# The log of locks, which holds all that it takes to put a lock back, one JSON object a line. intent schema line operation item
# action time user undoes path folder below names content link element mode uid gid mtime words result schema line operation
# item time outcome reason An undo reads the user's own log only; records that somebody else may have written are only shown.

CONTENT_MAX = 1_024
"""Bytes of a lock's content that are kept; a lock holds less."""
_Name = Annotated[str, Meta(pattern=rf"\A{PART}\Z")]
_Element = Annotated[str, Meta(pattern=rf"\A(?:{PART})?\Z")]
_Below = Annotated[str, Meta(pattern=rf"\A(?:{PART}(?:/{PART})*)?\Z")]
_Absolute = Annotated[str, Meta(pattern=r"\A/")]


class LockRecord(Intent):
    """The intent to remove one lock or to put it back: ``names`` in the directory ``below`` of ``folder`` (its real path),
    names of one file with ``content``; or a symbolic link with the text ``link``; or a second name of ``element``. ``path`` is
    the lock as it is shown; ``mtime`` is in epoch seconds."""

    path: str
    folder: _Absolute
    below: _Below
    names: Annotated[tuple[_Name, ...], Meta(min_length=1, max_length=2)]
    content: Annotated[bytes, Meta(max_length=CONTENT_MAX)]
    link: str
    element: _Element
    mode: Annotated[int, Meta(ge=0, le=0o777)]
    uid: Number
    gid: Number
    mtime: Time
    words: str

    def told(self) -> Iterator[Told]:
        yield self.path, self.path, self.path

    @property
    def place(self) -> tuple[str, ...]:
        """Equal for two records of one lock."""
        return self.folder, self.below, *self.names

    @property
    def is_ticket(self) -> bool:
        """True for a ticket of a queue, which is not the thing that it queues for."""
        return self.words.startswith("ticket ")


LoggedLocks = LoggedOperation[LockRecord, ItemOutcome]
"""All that the journal holds of one operation on locks."""

LOCKS = RecordType("locks", "the journal of locks", "item", LockRecord, ItemOutcome, (Action.UNLOCK, Action.UNDO))
"""The record type of the log of locks."""


# Selects the locks that an unlock means, and gives the reason why one is not removed.

_NEVER = "a kernel lock ends when its holder exits; without its file, two processes could hold it"


def chosen_locks(selection: Selection, locks: tuple[Lock, ...]) -> tuple[list[Lock], tuple[str, ...]]:
    """The named locks, and the names that no lock has. Raises ``UsageError``."""
    if selection.everything:
        return [lock for lock in locks if lock.verdict == "stale"], ()
    names = [str(name) for name in (*(selection.ids or ()), *(selection.keys or ()))]
    if not names:
        raise UsageError("unlock: which lock?", "name it as spooltop locks lists it, or ALL for all that are stale")
    named: dict[str, Lock] = {}
    missing: list[str] = []
    for name in names:
        found = [lock for lock in locks if name == lock.path or os.path.abspath(name) == lock.path]
        found = found or [lock for lock in locks if name == os.path.basename(lock.path)]
        if len(found) > 1:
            there = ", ".join(escape(lock.path) for lock in found)
            raise UsageError(f"unlock: {escape(name)} stands in several places: {there}", "name one by its path")
        if found:
            named[found[0].path] = found[0]
        else:
            missing.append(name)
    return list(named.values()), tuple(missing)


def blocked_by(lock: Lock, now: float, stale_after: float) -> tuple[str, bool]:
    """Returns the reason why a lock is not removed ("" if it may be), and True if force removes it anyway."""
    head = lock.holders[0] if lock.holders else None
    who = f"pid {head.pid}" if head is not None and head.pid is not None else "somebody"
    if lock.kind == "mkdir":
        return f"{lock.evidence}; a directory is not removed here: if its holder has exited, rm -r {quoted(lock.path)}", False
    if lock.kind == KIND:
        return f"{lock.evidence}: filelock itself evicts a holder whose heartbeat stays away", False
    if lock.kind == "none" and lock.verdict == "unknown":
        return f"{lock.evidence}; if so, and its holder has exited, rm {quoted(lock.path)}", False
    if lock.kind not in ("soft", "ticket"):
        return (f"{who} holds it ({lock.kind}); {_NEVER}" if lock.holders else f"nobody holds it; {_NEVER}"), False
    if lock.verdict == "free":
        return f"{lock.evidence}: there is nothing to remove", False
    if lock.verdict == "unknown":
        return f"{lock.evidence}; its holder cannot be checked from here", True
    if lock.verdict != "stale":
        has = "has the first ticket" if lock.kind == "ticket" else "has it"
        return (f"{who} is running and {has}" if head is not None and head.alive else f"it is held: {lock.evidence}"), False
    stood = None if head is None or head.since is None else now - head.since
    if lock.kind == "soft" and (stood is None or stood <= stale_after):
        held = "?" if stood is None else age(max(0.0, stood))
        return f"{lock.evidence}, but it is only {held} old; it counts as stale after {duration(stale_after)}", True
    return "", False


# Removes a lock and puts it back: each step refuses if the lock is no longer the pinned one.

def check_same(one: LockRecord, folder: int, pin: Pin, files: Files) -> os.stat_result:
    """The status of a lock that is still the pinned one. Raises ``Skipped``. A ticket's name is never used twice, and its file
    may be touched, so only its inode counts."""
    name, own = one.names[0], slice(1 if one.is_ticket else len(pin))
    try:
        found = files.stat(name, folder)
    except FileNotFoundError:
        raise Skipped("it was removed meanwhile") from None
    if pinned(found)[own] != pin[own]:
        raise Skipped("it was taken again since the list was made")
    return found


def take_away(one: LockRecord, folder: int, pin: Pin, who: bytes, files: Files) -> None:
    """Removes the lock in the open directory ``folder`` and syncs it. ``who`` is the content of a lock of this process. Raises
    ``Skipped`` where another lock is there now, and ``OSError``.

    A name that every process uses can be taken again between the last check and the unlink. So the file is exchanged for a lock
    of our own, which excludes others meanwhile, and the file that was got is checked; a wrong one is exchanged back.
    """
    first = one.names[0]
    found = check_same(one, folder, pin, files)
    # A ticket's or a claim's name is never used twice, and a second name of an element is that element's whoever made it.
    if not one.below and not one.element:
        if _exchanged(first, folder, found, who, files):
            files.sync_dir(folder)
            return
        check_same(one, folder, pin, files)  # to try the exchange took time
    for name in reversed(one.names):  # the first one last: while it stands, the lock is seen
        try:
            files.unlink(name, folder)
        except FileNotFoundError:
            if name == first:
                raise Skipped("it was removed meanwhile") from None
    files.sync_dir(folder)


def _exchanged(name: str, folder: int, found: os.stat_result, who: bytes, files: Files) -> bool:
    """Removes the file by an exchange. False if the file system cannot exchange; nothing was done then."""
    draft = f".{name}.{os.urandom(8).hex()}"
    # Synced: if it were empty after a power cut, nothing would show that its holder is gone.
    ours = write_new(files, folder, draft, who, found if stat.S_ISREG(found.st_mode) else None, create_mode=0o600)
    try:
        files.swap(draft, folder, name, folder)
    except OSError as error:
        if files.is_inode(draft, folder, ours):  # else a server has done it all the same
            files.unlink(draft, folder)
            if isinstance(error, FileNotFoundError):
                raise Skipped("it was removed meanwhile") from None
            if error.errno not in UNSUPPORTED:
                raise
            return False
    try:
        if pinned(files.stat(draft, folder))[:-1] != pinned(found)[:-1]:  # but for ctime, which the exchange moves
            raise Skipped("it was taken again since the list was made")
        files.unlink(name, folder)
    except BaseException:
        # Else a lock of this process would stay in its place. Where this fails too both stay: the other may be held by now.
        files.swap(draft, folder, name, folder)
        files.unlink(draft, folder)
        raise
    files.unlink(draft, folder)
    return True


def put_back(one: LockRecord, folder: int, files: Files) -> None:
    """Makes the lock again, complete when it appears, with owner, mode and mtime as before. Raises ``Skipped`` where the name
    is taken, and ``OSError``."""
    first = one.names[0]
    try:
        if one.element:
            files.link(one.element, folder, first, folder)
        elif one.link:
            files.symlink(one.link, first, folder)
        else:
            like = os.stat_result((one.mode, 0, 0, 1, one.uid, one.gid, 0, 0, 0, 0))
            *others, last = one.names
            made = publish_new(files, folder, last, one.content, like, one.mode, mtime=one.mtime)
            # Of a lock with several names, an undo that was cut off has left the last one.
            if not made and (not others or read_small(last, folder, files=files).data != one.content):
                raise FileExistsError(last)
            for other in reversed(others):
                files.link(last, folder, other, folder)
    except FileExistsError:
        raise Skipped("the path is taken: another process has that lock now") from None
    files.sync_dir(folder)


# Pins the locks and the tickets that are to be removed.

class LockRef(PinnedChange[LockRecord]):
    """The pin of a lock in a plan: what identifies it, its directory (device, inode), and the pid that had it. The ``record`` has
    the lock as it was read. ``pin`` is None for a lock that is to be put back."""

    pin: Pin | None
    folder_id: tuple[int, int]
    pid: int | None


def _row_of(lock: Lock) -> Row:
    verdict = {"stale": Verdict.DEAD, "held": Verdict.ALIVE, "blocked": Verdict.ALIVE}.get(lock.verdict, Verdict.UNKNOWN)
    return Row(
        key=lock.path, box=Box.CUR, id=lock.path, name=lock.path, verdict=verdict, evidence=lock.evidence,
        in_box_since=lock.taken_at,
    )  # fmt: skip



class LockOperator(SingleOperator[LockRecord, OpenFolders]):
    """Implements ``model.backend.Operator`` for the locks in ``path`` and, unless they are there alone, in its parent directory:
    those that the view shows. With the layout "tickets" the path itself is a queue."""

    untrusted = "restored from it"

    def __init__(self, path: str, store: LogStore, options: OpenOptions, world: System) -> None:
        super().__init__(os.path.abspath(path), store, LOCKS, clock=world.clock, read_only=options.read_only)
        self._world = world
        self._files = world.files
        self._options = options
        self._processes = world.processes

    def capabilities(self) -> Capabilities:
        return Capabilities.nothing("there are no messages here").replaced(None, Action.UNLOCK, Action.UNDO)

    @contextmanager
    def _state(self) -> Iterator[OpenFolders]:
        with self._translate_errors(), self._folders() as folders:
            yield folders

    def _choose(self, request: Request, state: OpenFolders) -> Candidates:
        """Pins the named locks. They are named by their path as shown or their file name, in ``ids`` or ``keys``;
        ``everything`` means all stale ones. Raises ``UsageError`` where none is named."""
        wanted, missing = chosen_locks(request.selection, self._look(state))
        found = [self._pin(lock, state, request) for lock in wanted]
        items = [item for one in found if isinstance(one, list) for item in one]
        refused = [one for one in found if isinstance(one, Refusal) and not request.selection.everything]
        notes = ("The next process that asks for it then gets it.",) if items else ()
        if items and all(ref_of(item, LockRef).record.is_ticket for item in items):
            notes = ("The next waiter then gets the lock.",)
        return Candidates(items, refused, notes, missing)

    def _pin(self, lock: Lock, folders: OpenFolders, request: Request) -> list[Item] | Refusal:
        """Pins a lock, or says why it is not removed. ``folders`` are (path, descriptor), that of the target first."""
        row = _row_of(lock)
        why, forceable = blocked_by(lock, request.at, self._options.stale_after)
        if why and not (forceable and request.force):
            return Refusal(row, why, forceable)
        above, name = os.path.split(lock.path)
        if lock.kind == "ticket" and lock.path == folders[0][0]:  # the target itself is the queue
            above, name = lock.path, ""
        try:
            folder = next(one for one in folders if one[0] == above)
            if lock.kind == "ticket":
                return [
                    self._item(lock, row, folder, Marker(pid, None, 0, below=name, names=(ticket,)), forced=forceable)
                    for _, ticket, pid in self._tickets_of(folder[1], name, forced=forceable)
                ]
            marker = read_marker(name, folder[1])
            if marker is None:
                raise Skipped("it was removed meanwhile, or is no lock any more")
            item = self._item(lock, row, folder, marker.replace(names=marker.names or (name,)), forced=forceable)
            if read_marker(name, folder[1]) != marker:  # the pid of one holder would be pinned to the file of the next
                raise Skipped("it was taken again meanwhile")
            return [item]
        except Skipped as error:
            why = str(error)
        except FileNotFoundError:
            why = "it was removed meanwhile"
        except OSError as error:
            why = f"it cannot be seen: {error.strerror}"
        return Refusal(row, why)

    def _tickets_of(self, folder: int, path: str, *, forced: bool) -> list[FileTicket]:
        """The tickets of dead processes before the first of a running one: each would be the head next. By force only the head.
        Raises ``Skipped``, ``OSError``."""
        with opened_below(folder, path, self._files) as own:
            tickets = file_tickets(self._files.list(own))
        gone = itertools.takewhile(lambda ticket: self._processes.exists(ticket.pid) is False, tickets)
        found = tickets[:1] if forced else list(gone)
        if not found:
            raise Skipped("its head has gone by itself")
        return found

    def _item(self, lock: Lock, row: Row, folder: tuple[str, int], marker: Marker, *, forced: bool) -> Item:
        """Pins the files of a lock in ``folder`` (path, descriptor), as ``marker`` names them. Raises ``Skipped`` where this user
        may not take them out of it, and ``OSError``."""
        content, link, name = b"", "", marker.names[0]
        with opened_below(folder[1], marker.below, self._files) as own:
            found = self._files.stat(name, own)
            if closed := folder_closed(own, "its directory", "unlock", self._path, lock.path, file=found):
                raise Skipped(closed)
            if stat.S_ISLNK(found.st_mode):
                link = os.readlink(name, dir_fd=own)
            elif not marker.element:
                content = read_small(name, own, files=self._files, limit=CONTENT_MAX).data
        words, pid = f"soft lock {escape(lock.path)}", marker.pid
        if ticket := parse_file_ticket(name) if lock.kind == "ticket" else None:
            words = f"ticket {ticket.number} of pid {pid} in {escape(lock.path)}"
            row = row.replace(id=f"{escape(os.path.basename(lock.path))}/{ticket.number}", name=name)
        elif pid is not None or marker.element:
            words += f" of pid {pid}" if pid is not None else f" on {escape(marker.element)}"
        record = LockRecord(
            lock.path, os.path.realpath(folder[0]), marker.below, marker.names, content, link, marker.element,
            found.st_mode & 0o777, found.st_uid, found.st_gid, found.st_mtime, words,
        )  # fmt: skip
        ref = LockRef(record, pinned(found), folder_id(folder[1]), pid)
        return RowItem(row, ref, lock.evidence if forced else "", words)

    def _became(self, item: Item, intent: LockRecord) -> str:
        return intent.path

    def _fact(self, logged: LoggedLocks) -> Account:
        items = [record for record, _ in reversed(logged.steps.values())]
        words = "; ".join(one.words for one in items[:3]) + (f" and {len(items) - 3} more" if len(items) > 3 else "")
        if logged.open:
            words += "; cut short: spooltop locks shows if it was removed"
        return Account(words, "unlock removes it again" if logged.first.action is Action.UNDO else None)

    @contextmanager
    def _folders(self) -> Iterator[OpenFolders]:
        """Opens the path and the other directories with its locks, as (path, descriptor); the path itself comes first."""
        with ExitStack() as stack:
            folders = stack.enter_context(with_above(self._path, self._files, above=self._options.shows_above))
            root = folders[0][1]
            for box in LIVE if self._options.layout != "tickets" else ():
                with suppress(OSError):  # no box, or closed to us: the view shows nothing of it either
                    fd = stack.enter_context(self._files.closing(self._files.open_dir(box.value, root)))
                    folders.append((os.path.join(self._path, box.value), fd))
            yield folders

    def _look(self, folders: OpenFolders) -> tuple[Lock, ...]:
        """Looks for all locks, as the view shows them."""
        names = {path: self._files.list(fd) for path, fd in folders if os.path.dirname(path) == self._path}
        boxes = {path: message_locks(["/".join(found)]) for path, found in names.items()}
        locks = LockFiles(self._world, tickets=self._options.layout == "tickets")
        return locks.look(folders, lambda: read_table(self._processes), boxes)

    def _change(self, item: Item, intent: LockRecord, stop: Stop) -> None:
        one, ref = intent, ref_of(item, LockRef)
        with self._folders() as folders:
            fd = check_folder(_folder_of(one, folders), ref.folder_id)
            with opened_below(fd, one.below, self._files) as own:
                if ref.pin is None:
                    self._check_restorable(one, fd, own)
                    put_back(one, own, self._files)
                    return
                check_same(one, own, ref.pin, self._files)
                if ref.pid is not None and self._processes.exists(ref.pid):
                    raise Skipped(f"pid {ref.pid} is running")
                if one.is_ticket:
                    freshen_next(file_tickets(self._files.list(own)), one.names[0], own, self._clock())
                who = f"{os.getpid()}\n{self._processes.host()}\n".encode()
                take_away(one, own, ref.pin, who, self._files)

    def _backwards(
        self, logged: LoggedLocks, undos: Sequence[LoggedLocks], request: Request, state: OpenFolders
    ) -> Candidates:
        """The locks that an operation removed, in the open folders (path, descriptor)."""
        steps = (step for undo in undos if undo.trusted for step in undo.steps.values())
        back = {one.place for one, outcome in steps if outcome is not None and outcome.changed}
        found: list[Item] = []
        refused: list[Refusal] = []
        for one, outcome in reversed(logged.steps.values()):
            row = Row(key=(one.path, one.names), box=Box.CUR, id=one.path, name=one.names[0])
            try:
                if one.action is Action.UNDO:
                    raise Skipped("it was put back; d in Locks, or spooltop unlock, removes it again")
                if (outcome is None or outcome.changed) and one.place not in back:
                    found.append(self._restored(one, row, state))
            except Skipped as error:
                refused.append(Refusal(row, str(error)))
        return Candidates(found, refused, (f"{len(back)} of {len(logged.steps)} undone already.",) if back else ())

    def _restored(self, one: LockRecord, row: Row, folders: OpenFolders) -> Item:
        """The item that puts a lock back. Raises ``Skipped`` where that cannot be."""
        fd = _folder_of(one, folders)
        if fd is None:
            raise Skipped(f"{escape(one.folder)} no longer belongs to this target")
        try:
            with opened_below(fd, one.below, self._files) as own:
                self._check_restorable(one, fd, own)
                waiting = len(file_tickets(self._files.list(own))) if one.is_ticket else 0
        except OSError as error:
            raise Skipped(f"its directory no longer exists: {error.strerror}") from error
        words = f"{one.words}, put back"
        wait = "1 waits" if waiting == 1 else f"{count(waiting)} wait"
        warning = f"{wait} in that queue: it goes before them, and blocks them" if waiting else ""
        return RowItem(row, LockRef(one.replace(words=words), None, folder_id(fd), None), warning, words)

    def _check_restorable(self, one: LockRecord, folder: int, own: int) -> None:
        """Raises ``Skipped`` where a lock cannot be put back now, and ``OSError``."""
        taken = self._files.status(one.names[0], own) is not None
        if one.below and not one.is_ticket and not taken:
            lock = LockFolder(self._world, folder).existing(one.path, os.path.basename(one.path))
            taken = lock is not None and lock.verdict != "free"
        if taken:
            raise Skipped("the path is taken: another process has that lock now")
        if one.is_ticket:
            try:
                last = read_small("seq", own, files=self._files, limit=64).data.strip()
            except FileNotFoundError:
                last = b""
            ticket = parse_file_ticket(one.names[0])
            if not last.isdigit() or ticket is None or int(last) < ticket.number:
                raise Skipped("the queue was started again since, and its number may be another's now")
        elif one.element and self._files.status(one.element, own) is None:
            raise Skipped(f"{escape(one.element)}, which it locked, has gone")


def _folder_of(one: LockRecord, folders: OpenFolders) -> int | None:
    return next((fd for path, fd in folders if os.path.realpath(path) == one.folder), None)

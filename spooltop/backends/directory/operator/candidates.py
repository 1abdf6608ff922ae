"""Makes a pinned list of a selection: the messages that are meant, which of them may go, and why the others may not."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from spooltop.engine import names, set_aside
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.limits import MAX_ATTEMPTS
from spooltop.errors import Refused, Unreadable
from spooltop.model.plan import Candidates, Item, Refusal
from spooltop.model.progress import Progress
from spooltop.model.row import Row
from spooltop.model.selection import Selection
from spooltop.model.text import escape, program
from spooltop.model.units import size
from spooltop.model.vocabulary import ASIDE, Action, Box, Json, Verdict

from ..storage.folders import Folders
from ..storage.location import OPERATION, Place, Ref, kind_of, safe_name
from ..storage.metadata import time_of
from ..storage.rows import aside_row
from .packed_items import PackedItems
from .rules import RULES, Destination, destination_of

__all__ = ["FORCEABLE", "POISON", "Rows", "choose", "pin"]

Rows = Callable[[Box, Progress], Iterable[Row]]
"""Gives all messages of ``tmp``, ``new`` or ``cur`` as a fresh look finds them, judged, none left out, the oldest first. Raises
``Stopped`` where the look is cancelled."""

FORCEABLE = frozenset({Action.REQUEUE, Action.HOLD})
"""The actions that may take a claim from a running holder, where they are forced."""

POISON = 3
"""Attempts that ended by a death from which on the message itself may be what kills."""


def _aside_rows(dirs: SpoolDirs, box: Box, denied: list[str]) -> Iterator[tuple[Row, dict[str, Json]]]:
    """The messages that were set aside, each with its metadata."""
    folders = Folders(dirs)
    for entry in set_aside.entries(dirs, box, denied):
        if not OPERATION.match(entry.operation):
            continue
        place = Place(box, entry.name, entry.operation)
        meta = folders.metadata_of(place)
        at, reason = time_of(meta), meta.get("reason")
        since = at if at is not None else _changed_at(folders, place)
        yield aside_row(box, entry.operation, entry.name, since=since, reason=reason if isinstance(reason, str) else ""), meta
    folders.close()


def _changed_at(folders: Folders, place: Place) -> float | None:
    """The time when a message was set aside, where its metadata do not give it: a move changes ctime and nothing else."""
    try:
        return folders.files.stat(place.name, folders.of(place.box, place.folder).fd).st_ctime
    except OSError:
        return None  # gone since


def choose(
    dirs: SpoolDirs,
    rows: Rows,
    action: Action,
    selection: Selection,
    *,
    force: bool,
    now: float,
    options: Mapping[str, Json] | None = None,
    half_moved: frozenset[int] = frozenset(),
    progress: Progress,
) -> Candidates:
    """Pins the messages of ``selection``. ``half_moved`` are inodes that may have a second name, which the first change takes
    away.

    Raises ``Refused`` for a box that ``action`` takes nothing from, ``UsageError`` for a filter that makes no sense,
    ``Unreadable`` where nothing was found and a box could not be read, ``Stopped``.
    """
    rule = RULES[action]
    options = options or {}
    if selection.box is not None and selection.box not in rule.sources:
        taken = ", ".join(sorted(rule.sources))
        raise Refused(f"{action} takes nothing from {selection.box}", path=dirs.path, advice=f"it takes from {taken}")
    if selection.empty:
        return Candidates(())
    wanted = _Wanted(selection, now)
    boxes = [box for box in ((selection.box,) if selection.box is not None else rule.sources) if wanted.may_be_in(box)]
    found: list[tuple[Row, dict[str, Json]]] = []
    every: Counter[str] = Counter()
    unread: list[Unreadable] = []
    streamed = boxes == [Box.NEW]  # nothing there has to be compared with anything: of a million only the plan keeps any
    for box in boxes if not streamed else ():
        denied: list[str] = []
        try:
            listed = _aside_rows(dirs, box, denied) if box in ASIDE else ((row, _NOTHING) for row in rows(box, progress))
        except Unreadable as error:
            unread.append(error)
            continue
        progress.begin("looked at")
        for row, known in progress.each(listed):
            if box is Box.CUR:
                every[row.id] += 1
            if wanted.takes(row):
                found.append((row, known))
        unread += [_shut(dirs, box, operation) for operation in denied]
    if unread and not found:
        raise unread[0]
    found.sort(key=lambda one: (one[0].enqueued_at is None, one[0].enqueued_at or 0.0, one[0].name))
    by_now, hold = bool(options.get("now")), bool(options.get("hold_poison"))
    back = action is Action.RESTORE or rule.target is Box.NEW
    chooser = _Chooser(dirs, action, force, half_moved, _waiting(dirs, {row.id for row, _ in found}, progress) if back else {})
    in_order: Iterator[tuple[Row, dict[str, Json]]]
    if streamed:
        every_row = rows(Box.NEW, progress)
        progress.begin("looked at")
        in_order = ((row, _NOTHING) for row in progress.each(every_row) if wanted.takes(row))
    else:
        progress.begin("listed", len(found))
        in_order = progress.each(_used_up(found))
    for row, known in in_order:
        told = names.parse(row.name, claimed=row.box not in (Box.NEW, Box.TMP))
        poison = _poison(row) if hold and action is Action.REQUEUE and row.box is Box.CUR else ""
        destination = destination_of(action, row.box, told, known, poison=poison, now=by_now)
        chooser.add(row, told.token, destination, doubled=every[row.id] > 1)
    notes = _notes(action, chooser, wanted, deletes=rule.target is None or by_now)
    notes += tuple(f"{error.what}: what stands there is not in this plan." for error in unread)
    return Candidates(chooser.items, chooser.refused, notes, wanted.missing(), chooser.poison)


def _used_up(found: list[tuple[Row, dict[str, Json]]]) -> Iterator[tuple[Row, dict[str, Json]]]:
    """Yields ``found`` in order and releases each entry as soon as it is given."""
    found.reverse()
    while found:
        yield found.pop()


def _shut(dirs: SpoolDirs, box: Box, operation: str) -> Unreadable:
    what = f"you may not list {box}/{escape(operation)}"
    return Unreadable(what, path=dirs.path, advice="nothing was done; its owner, or root, may")


_NOTHING: dict[str, Json] = {}


class _Wanted:
    """The conditions of a selection, and which of its names were found."""

    def __init__(self, selection: Selection, now: float) -> None:
        self._selection = selection
        self._now = now
        self._is_named = Selection(ids=selection.ids, keys=selection.keys).matcher(now)
        self._matches = replace(selection, ids=None, keys=None, older_than=None).matcher(now)
        self._met: set[object] = set()
        self.ageless = 0

    @property
    def box(self) -> Box | None:
        return self._selection.box

    def may_be_in(self, box: Box) -> bool:
        keys = self._selection.keys
        return keys is None or any(isinstance(key, tuple) and key and key[0] == box for key in keys)

    def takes(self, row: Row) -> bool:
        if not self._is_named(row):
            return False
        if self._selection.named:
            self._met |= {row.id, row.name, row.key}
        if not self._matches(row):
            return False
        age = row.in_box_age(self._now)
        taken = self._selection.old_enough(age)
        self.ageless += not taken and age is None
        return taken

    def missing(self) -> tuple[str, ...]:
        """The names on disk that were given and not found."""
        lost = [name for name in self._selection.ids or () if name not in self._met]
        unmet = (key for key in self._selection.keys or () if key not in self._met)
        lost += [str(key[-1]) if isinstance(key, tuple) and key else str(key) for key in unmet]
        return tuple(lost)


def pin(
    folders: Folders, place: Place, token: str | None, target: Place | None = None, meta: Mapping[str, Json] | None = None,
    box: Box | None = None,
) -> tuple[Ref, os.stat_result, str]:
    """Pins the file at ``place``: its identity, its status, and what it is if no regular file. Raises ``OSError``."""
    folder = folders.of(place.box, place.folder)
    found = folders.files.stat(place.name, folder.fd)
    ref = Ref(place, found.st_ino, found.st_size, found.st_ctime_ns, folder.id, token, target, meta, box)
    return ref, found, kind_of(found)


class _Chooser:
    """Decides for each message whether it may go, and collects those that may. ``waiting`` are ids in ``new`` with their inode,
    ``halves`` inodes that may have a second name."""

    def __init__(
        self, dirs: SpoolDirs, action: Action, force: bool, halves: frozenset[int], waiting: Mapping[str, int]
    ) -> None:
        self._folders = Folders(dirs)
        self._action = action
        self._force = force
        self._halves = halves
        self._waiting = waiting
        self._items = PackedItems()
        self.refused: list[Refusal] = []
        self.frees = 0
        """Bytes on the disk of what was taken."""
        self.poison = self.unknown = self.forced = self.foreign = self.held = self.rejected = 0

    def add(self, row: Row, token: str | None, destination: Destination, *, doubled: bool) -> None:
        """Decides on one message. ``doubled``: another claim has its id."""
        if not safe_name(row.name):
            self.refused.append(Refusal(row, "its name leads out of the box"))
            return
        folder = str(row.key[1]).partition("/")[0] if row.box in ASIDE and isinstance(row.key, tuple) else ""
        place = Place(row.box, row.name, folder)
        box, name = destination.box, destination.name
        target = Place(box, name) if box is not None and name is not None else None
        try:
            ref, found, kind = pin(
                self._folders, place, token if row.box is Box.CUR else None, target, destination.meta,
                destination.box if target is None else None,
            )
        except FileNotFoundError:
            return  # gone since it was listed
        except OSError as error:
            self.refused.append(Refusal(row, f"it cannot be seen: {error.strerror}"))
            return
        if row.size is None:
            row = replace(row, size=ref.size)
        why, forceable = self._blocked_by(row, ref, found.st_nlink, kind, destination, doubled)
        if why and not (forceable and self._force):
            self.refused.append(Refusal(row, why, forceable))
            return
        poison = _poison(row) if self._action is Action.REQUEUE else ""
        self.poison += bool(poison) and row.box is Box.CUR
        self.frees += found.st_blocks * 512
        forced = "taken from a living holder, whose ack will find out" if row.verdict is Verdict.ALIVE else ""
        warning = "; ".join(filter(None, (destination.warning, forced))) or poison
        self._items.append(Item(row, ref, warning))
        if row.verdict is Verdict.UNKNOWN:
            self.unknown += 1
        if row.box is Box.CUR:
            self.forced += row.verdict is Verdict.ALIVE
            self.foreign += token is None and row.verdict is not Verdict.ALIVE
        if self._action is Action.REQUEUE:
            self.held += destination.box is Box.HELD
            self.rejected += destination.box is Box.REJECTED

    @property
    def items(self) -> Sequence[Item]:
        return self._items.as_list()

    def _blocked_by(
        self, row: Row, ref: Ref, links: int, kind: str, destination: Destination, doubled: bool
    ) -> tuple[str, bool]:
        """Why the message stays ("" where it may go), and whether force takes it anyway."""
        if kind:
            return f"{kind}, not a message", False
        waiting_ino = self._waiting.get(row.id) if destination.box is Box.NEW else None
        half_moved = waiting_ino == ref.ino
        if waiting_ino is not None and not half_moved:
            return "conflict: new holds another message under this id; both are kept", False
        if doubled:
            return "conflict: two claims have this id; both are kept", False
        if links != 1 and not half_moved and not (links == 2 and ref.ino in self._halves):
            return "it has a second name (a hard link)", False
        if row.verdict is Verdict.WRITING:
            return f"it is being written: {row.evidence}", False
        if row.verdict is Verdict.ALIVE:
            return _alive(row), self._action in FORCEABLE
        return destination.blocked_by, True


def _alive(row: Row) -> str:
    if row.evidence and not row.evidence.startswith("lives"):
        return row.evidence  # somebody else than its consumer holds it, and it says who
    besides = row.evidence.removeprefix("lives").removeprefix(" · ")
    owner = row.owner
    known = [str(owner.pid), program(owner.command or "")] if owner is not None and owner.pid is not None else ["its holder"]
    return " ".join(word for word in known if word) + " is alive" + (f": {besides}" if besides else "")


def _poison(row: Row) -> str:
    if row.attempt is None or row.attempt < POISON or row.box not in (Box.CUR, Box.REJECTED):
        return ""
    return f"in work at {row.attempt} deaths" if row.verdict is Verdict.DEAD else f"in work {row.attempt} times"


def _waiting(dirs: SpoolDirs, ids: Set[str], progress: Progress) -> dict[str, int]:
    """The messages in ``new`` that have one of ``ids``, the ids of messages that may go there: id → inode. One pass over the
    names."""
    if dirs.new is None or not ids:
        return {}
    found: dict[str, int] = {}
    progress.begin("in new compared")
    for name in progress.each(dirs.files.scan(dirs.new)):
        start = name.partition(",")[0]
        maybe = start in ids or "%" in start or name in ids  # an id stands there as it is, encoded, or is the whole name
        if maybe and (id := names.parse(name, claimed=False).id) in ids:
            try:
                found[id] = dirs.files.stat(name, dirs.new).st_ino
            except FileNotFoundError:
                continue  # claimed meanwhile
    return found


def _notes(action: Action, chooser: _Chooser, wanted: _Wanted, *, deletes: bool) -> tuple[str, ...]:
    items = len(chooser.items)
    notes: list[str] = []
    forced, foreign, unknown, held = chooser.forced, chooser.foreign, chooser.unknown, chooser.held
    if forced:
        again = "worked on twice then" if action is Action.REQUEUE else "its holder goes on working on it"
        notes.append(f"{forced} of living holders: {again}; the holder's ack will find out (ClaimLost).")
    if foreign:
        notes.append(f"{foreign} by other consumers: the evidence is read again just before each move, but it is no proof.")
    if unknown:
        who = "writer" if wanted.box is Box.TMP else "holder"
        notes.append(f"{unknown} unknown: nobody here can tell whether the {who} lives.")
    if deletes and items:
        notes.append(f"Frees {size(chooser.frees)} on the disk. Nothing brings them back: there is no undo.")
    elif action is Action.PURGE and items:
        notes.append("A purge to the trash frees nothing: the messages move, and undo brings them back.")
    elif action is Action.HOLD and items:
        notes.append("No consumer takes what is held, until it is released.")
    if held:
        notes.append(f"{held} held instead of requeued, where no consumer takes them, until released.")
    if chooser.rejected:
        notes.append(
            f"{chooser.rejected} rejected instead of requeued: in work {MAX_ATTEMPTS} times or more, which is the limit. "
            "A requeue from rejected counts anew."
        )
    if wanted.ageless:
        notes.append(f"{wanted.ageless} left out: how long they stand there is not known.")
    return tuple(notes)

"""Makes a pinned list of a selection: which messages are meant, which of them may go, and why the others may not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ...engine import aside, names
from ...engine.dirs import SpoolDirs
from ...errors import Refused
from ...model import query
from ...model.plan import Candidates, Item, Refusal
from ...model.row import Row
from ...model.selection import Selection
from ...model.words import ASIDE, Action, Box, Json, Verdict
from .folders import Folders
from .metadata import known_of
from .moves import RULES
from .places import OPERATION, Place, Ref, kind_of, safe_name

__all__ = ["POISON", "Rows", "aside_rows", "choose", "pin"]

Rows = Callable[[Box], Iterable[Row]]
"""All messages of ``tmp``, ``new`` or ``cur`` as a fresh look finds them, judged, none left out."""

POISON = 3
"""In work so often, each time given up by a death: it may be the message that kills."""


def aside_rows(dirs: SpoolDirs, box: Box) -> Iterator[Row]:
    """What was set aside, with what is known of it. ``key`` is (box, ``OPERATION/NAME``)."""
    folders = Folders(dirs)
    for entry in aside.entries(dirs, box):
        if not OPERATION.match(entry.operation):
            continue
        meta = known_of(folders, Place(box, entry.name, entry.operation))
        told = names.parse(entry.name, claimed=True)
        at, reason = meta.get("at"), meta.get("reason")
        attempts = told.attempts
        yield Row(
            key=(box.value, f"{entry.operation}/{entry.name}"),
            box=box,
            id=told.id,
            name=entry.name,
            enqueued_at=None if told.put_us is None else told.put_us / 1e6,
            in_box_since=float(at) if isinstance(at, (int, float)) and not isinstance(at, bool) else None,
            source=told.source,
            attempt=attempts if attempts is None or told.token is None else attempts + 1,
            canary=told.canary,
            reason=reason if isinstance(reason, str) else "",
        )
    folders.close()


def choose(
    dirs: SpoolDirs,
    rows: Rows,
    action: Action,
    selection: Selection,
    *,
    force: bool,
    now: float,
    half_moved: frozenset[int] = frozenset(),
) -> Candidates:
    """``half_moved`` are inodes that may have a second name, which the first change takes away.

    Raises ``Refused`` for a box that ``action`` takes nothing from, ``UsageError`` for a filter that makes no sense.
    """
    rule = RULES[action]
    if selection.box is not None and selection.box not in rule.sources:
        taken = ", ".join(sorted(rule.sources))
        raise Refused(f"{action} takes nothing from {selection.box}", path=dirs.path, advice=f"it takes from {taken}")
    if selection.empty:
        return Candidates(())
    wanted = _Wanted(selection, now)
    found: list[Row] = []
    every: Counter[str] = Counter()
    for box in (selection.box,) if selection.box is not None else rule.sources:
        if not wanted.may_be_in(box):
            continue
        for row in aside_rows(dirs, box) if box in ASIDE else rows(box):
            if box is Box.CUR:
                every[row.id] += 1
            if wanted.takes(row):
                found.append(row)
    found.sort(key=lambda row: (row.enqueued_at is None, row.enqueued_at or 0.0, row.name))
    named = [names.parse(row.name, claimed=row.box not in (Box.NEW, Box.TMP)) for row in found]
    back = [rule.rename(told) for told in named] if rule.target is Box.NEW else []
    waiting = _waiting(dirs, found, back) if back else {}
    folders = Folders(dirs)
    items: list[Item] = []
    refused: list[Refusal] = []
    for place, row in enumerate(found):
        target = back[place] if back else None
        doubled = every[row.id] > 1
        answer = _decide(folders, action, row, named[place].token, target, force, doubled, waiting, half_moved)
        if type(answer) is Item:
            items.append(answer)
        elif type(answer) is Refusal:
            refused.append(answer)
    return Candidates(items, refused, _notes(action, items, wanted), wanted.missing())


class _Wanted:
    """The conditions of a selection, and which of its names were met."""

    def __init__(self, selection: Selection, now: float) -> None:
        self._selection = selection
        self._now = now
        self._query = query.parse(selection.filter) if selection.filter else None
        self._ids = None if selection.ids is None else frozenset(selection.ids)
        self._keys = None if selection.keys is None else frozenset(selection.keys)
        self._met: set[object] = set()
        self.ageless = 0

    def may_be_in(self, box: Box) -> bool:
        return self._keys is None or any(isinstance(key, tuple) and key and key[0] == box for key in self._keys)

    def takes(self, row: Row) -> bool:
        chosen = self._selection
        if self._ids is not None and not {row.id, row.name} & self._ids:
            return False
        if self._keys is not None and row.key not in self._keys:
            return False
        self._met |= {row.id, row.name, row.key}
        if chosen.source is not None and row.source != chosen.source:
            return False
        if chosen.verdict is not None and row.verdict is not chosen.verdict:
            return False
        if self._query is not None and not self._query.match(row, self._now):
            return False
        if chosen.older_than is not None:
            age = row.in_box_age(self._now)
            if age is None:
                self.ageless += 1
                return False
            return age >= chosen.older_than
        return True

    def missing(self) -> tuple[str, ...]:
        """Named and not there, as names on disk."""
        lost = [name for name in self._selection.ids or () if name not in self._met]
        unmet = (key for key in self._selection.keys or () if key not in self._met)
        lost += [str(key[-1]) if isinstance(key, tuple) and key else str(key) for key in unmet]
        return tuple(lost)


def pin(
    folders: Folders, place: Place, token: str | None, target: Place | None = None, meta: Mapping[str, Json] | None = None
) -> tuple[Ref, int, str]:
    """The identity of what stands at ``place``, its number of names, and what it is if no regular file. Raises ``OSError``."""
    folder = folders.of(place)
    found = folders.files.stat(place.name, folder.fd)
    ref = Ref(place, found.st_ino, found.st_size, found.st_ctime_ns, folder.id, token, target, meta)
    return ref, found.st_nlink, kind_of(found)


def _decide(
    folders: Folders, action: Action, row: Row, token: str | None, target: str | None, force: bool, doubled: bool,
    waiting: dict[str, int], halves: frozenset[int],
) -> Item | Refusal | None:
    """None: it has gone since it was listed."""
    folder = ""
    if row.box in ASIDE and isinstance(row.key, tuple):
        folder = str(row.key[1]).partition("/")[0]
    if not safe_name(row.name):
        return Refusal(row, "its name leads out of the box")
    try:
        back = None if target is None else Place(Box.NEW, target)
        ref, links, kind = pin(folders, Place(row.box, row.name, folder), token if row.box is Box.CUR else None, back)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Refusal(row, f"it cannot be seen: {error.strerror}")
    if kind:
        return Refusal(row, f"{kind}, not a message")
    twin = waiting.get(row.id)
    half_moved = twin == ref.ino
    if twin is not None and not half_moved:
        return Refusal(row, "conflict: new holds another message under this id; both are kept")
    if doubled:
        return Refusal(row, "conflict: two claims have this id; both are kept")
    if links != 1 and not half_moved and not (links == 2 and ref.ino in halves):
        return Refusal(row, "it has a second name (a hard link)")
    if row.verdict is Verdict.WRITING:
        return Refusal(row, f"it is being written: {row.evidence}")
    if row.verdict is Verdict.ALIVE:
        if action is not Action.REQUEUE:
            return Refusal(row, _alive(row))
        if not force:
            return Refusal(row, _alive(row), forceable=True)
        return Item(row, ref, "taken from a living holder, whose ack will find out")
    return Item(row, ref, _poison(row) if action is Action.REQUEUE else "")


def _alive(row: Row) -> str:
    besides = row.evidence.removeprefix("lives").removeprefix(" · ")
    return "its holder is alive" + (f": {besides}" if besides else "")


def _poison(row: Row) -> str:
    if row.attempt is None or row.attempt < POISON:
        return ""
    return f"in work at {row.attempt} deaths" if row.verdict is Verdict.DEAD else f"in work {row.attempt} times"


def _waiting(dirs: SpoolDirs, rows: Sequence[Row], back: Sequence[str]) -> dict[str, int]:
    """Of the ids of ``rows``, those that a message in ``new`` has: id → its inode. One pass over the names. ``back`` is what
    the rows will be called there."""
    if dirs.new is None or not rows:
        return {}
    ids = {row.id for row in rows}
    starts = {name.partition(",")[0] for name in back}
    found: dict[str, int] = {}
    for name in dirs.files.scan(dirs.new):
        if name.partition(",")[0] in starts and (id := names.parse(name, claimed=False).id) in ids:
            try:
                found[id] = dirs.files.stat(name, dirs.new).st_ino
            except FileNotFoundError:
                continue  # claimed meanwhile
    return found


def _notes(action: Action, items: Sequence[Item], wanted: _Wanted) -> tuple[str, ...]:
    notes: list[str] = []
    claims = [item for item in items if item.row.box is Box.CUR]
    forced = sum(1 for item in claims if item.row.verdict is Verdict.ALIVE)
    foreign = sum(
        1 for item in claims
        if isinstance(item.ref, Ref) and item.ref.token is None and item.row.verdict is not Verdict.ALIVE
    )  # fmt: skip
    unknown = sum(1 for item in items if item.row.verdict is Verdict.UNKNOWN)
    if action is Action.REQUEUE and forced:
        notes.append(f"{forced} of living holders: worked on twice then; the holder's ack will find out (ClaimLost).")
    if foreign:
        notes.append(f"{foreign} by other consumers: the evidence is read again just before each move, but it is no proof.")
    if unknown:
        notes.append(f"{unknown} unknown: nobody here can tell whether the holder lives.")
    if action is Action.PURGE and items:
        notes.append("A purge to the trash frees nothing: the messages move, and undo brings them back.")
    if wanted.ageless:
        notes.append(f"{wanted.ageless} left out: how long they stand there is not known.")
    return tuple(notes)

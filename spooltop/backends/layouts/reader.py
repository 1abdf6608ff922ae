"""Looks at a queue of another program, as its layout says. Changes nothing in it."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from spooltop.engine.files import REAL_FILES
from spooltop.model import Capabilities, Listing, ListProgress, ListQuery, TrackedMessage, Unreadable
from spooltop.model.snapshot import Ages, BoxState, ConsumerList, ConsumerRow, Observation, VerdictCounts, Watch
from spooltop.model.vocabulary import (
    ASIDE,
    Action,
    Box,
    Clock,
    Holders,
    Key,
    Lock,
    LockHolder,
    Owner,
    Payload,
    Row,
    Stop,
    Verdict,
    began,
    escape,
)

from ..access import why_closed
from ..row_listing import AgeCounter, RowListing
from ..surroundings import Surroundings
from .definition import Layout
from .queue_dirs import QueueDirs, own_name, read_message, shown_location, status
from .sort_files import BOXES as ASIDE_BOXES
from .sort_files import (
    AsideMessage,
    QueueFile,
    fact_of,
    messages_aside,
    open_root,
    read_facts,
    sort_files,
)
from .verdicts import (
    JUDGED_AT_MOST,
    LOCK_STALE,
    NOT_JUDGED,
    HolderVerdict,
    RegisterEntry,
    findings,
    judge,
    locks_alone,
    lost_entries,
    notes_of,
    read_entries,
)

# Tells which actions this user may do in a queue of another program, and why not the others.

BUILT_IN = {Action.RELEASE: (Box.HELD,), Action.RESTORE: (Box.TRASH, Box.HELD), Action.EMPTY: (Box.TRASH,)}
"""Actions that every layout has which sets messages aside, and the boxes that they take from."""

_NEVER = {
    Action.INJECT: "only {name} itself puts messages here",
    Action.SET_CURSOR: "{name} has no cursors",
    Action.PAUSE: "{name} has no pause",
    Action.RESUME: "{name} has no pause",
}
_MESSAGES = (Action.REQUEUE, Action.PURGE, Action.HOLD, Action.RELEASE, Action.RESTORE, Action.EMPTY)


def sources_of(layout: Layout, action: Action) -> tuple[Box, ...]:
    """The boxes that ``action`` takes messages from; none where the layout does not have it."""
    boxes = dict.fromkeys(Box(box) for one in layout.actions if one.name == action.value for box in one.boxes)
    boxes |= dict.fromkeys(box for box in BUILT_IN.get(action, ()) if box.value in layout.verbs)
    if action in (Action.PURGE, Action.REQUEUE) and boxes and Box.HELD.value in layout.verbs:
        boxes[Box.HELD] = None
    return tuple(boxes)


def can_change(layout: Layout, dirs: QueueDirs) -> Capabilities:
    """The actions of the layout, as far as this user may write its directories. Raises ``OSError``."""
    if not layout.actions:
        return Capabilities.nothing(layout.why_read_only, layout.commands)
    why = _why_not_write(layout, dirs)
    if why is not None:
        return Capabilities.nothing(why, layout.commands)
    refusals = {action: f"the layout of {layout.name} has no {action.value}" for action in Action}
    refusals |= {action: words.format(name=layout.name) for action, words in _NEVER.items()}
    boxes = {action: boxes for action in _MESSAGES if (boxes := sources_of(layout, action))}
    for action in boxes:
        del refusals[action]
    del refusals[Action.UNDO]
    if any(rule.code == LOCK_STALE for rule in layout.problems):
        del refusals[Action.UNLOCK]
    return Capabilities(refusals, layout.commands, boxes)


def absent_views(layout: Layout) -> dict[str, str]:
    """The views that a queue of this layout does not have, and why."""
    boxes = {match.box for match in layout.matches} | {box.value for action in BUILT_IN for box in sources_of(layout, action)}
    absent = {"cursors": f"{layout.name} has no cursors"}
    if "tmp" not in boxes:
        absent["tmp"] = f"{layout.name} has no files that are being written"
    if not layout.locks and all(rule.code != LOCK_STALE for rule in layout.problems):
        absent["locks"] = f"the layout of {layout.name} knows no locks beside its messages"
    if not boxes.intersection((*ASIDE, Box.DELIVERED)):
        absent["aside"] = f"{layout.name} sets nothing aside"
    return absent


def _why_not_write(layout: Layout, dirs: QueueDirs) -> str | None:
    """Why this user may not change messages; None where all directories that the layout names can be written."""
    try:
        own = dirs.private_dir()
    except NotADirectoryError:
        return f"{dirs.own_name} is not a directory; find out who created it"
    places = [(".", dirs.above(), "the directory above it" if dirs.own_name.startswith("../") else "its directory")]
    if own is not None:
        places = [(".", own, dirs.own_name)]
    for name in _folders(layout):
        try:
            if stat.S_ISDIR(dirs.files.stat(name, dirs.root).st_mode):
                places.append((name, dirs.root, name))
        except FileNotFoundError:
            continue  # made with the first message that lies there
    return next(filter(None, (why_closed(above, name, shown, dirs.path) for name, above, shown in places)), None)


def _folders(layout: Layout) -> list[str]:
    """The first directories of the paths of messages, where the layout names them; "." for messages in the queue itself."""
    first = (match.template.text.split("/") for match in layout.matches)
    names = (parts[0] if len(parts) > 1 else "." for parts in first)
    return list(dict.fromkeys(name for name in names if "{" not in name and "*" not in name))


# Consumers of a queue of another program, as far as its claims name them.

_FIRST = 5


def consumers_of(claims: Iterable[Row], taken_at: float) -> ConsumerList:
    """Groups ``claims`` by the worker or the pid that they name. A worker without a claim is not known."""
    groups: dict[tuple[str, Verdict], list[Row]] = {}
    nameless = 0
    for row in claims:
        owner = row.owner
        name = None if owner is None else owner.command or (str(owner.pid) if owner.pid is not None else None)
        if name is None:
            nameless += 1
        else:
            groups.setdefault((name, row.verdict or Verdict.UNKNOWN), []).append(row)
    return ConsumerList(tuple(_consumer(*key, rows) for key, rows in groups.items()), taken_at, nameless=nameless)


def _consumer(name: str, verdict: Verdict, rows: Sequence[Row]) -> ConsumerRow:
    oldest = sorted(rows, key=lambda row: row.in_box_since or 0.0)
    times = began(rows)
    first = oldest[0]
    assert first.owner is not None
    return ConsumerRow(
        verdict, first.evidence, first.owner, name, len(rows), min(times, default=None), first.since_is_bound,
        max(times, default=None), tuple(row.id for row in oldest[:_FIRST]),
    )  # fmt: skip


_READ_AT_MOST = 5_000
"""Files that are read for one look, an even sample of those that were not read yet; the rest are read at the following looks."""
_PID_DIGITS = 10


def read_some(root: int, files: list[QueueFile]) -> None:
    """Reads the facts of files that were not read since they changed."""
    unread = [place for place, file in enumerate(files) if not file.is_read and file.ino]
    for turn in range(most := min(_READ_AT_MOST, len(unread))):
        place = unread[turn * len(unread) // most]
        files[place] = read_facts(root, files[place])


def row_of(file: QueueFile, note: str = "", judged: HolderVerdict = NOT_JUDGED) -> Row:
    """Makes the row of a message, with the verdict on its holder."""
    box, fields = Box(file.box or Box.TRASH), file.fields
    command = fields.get("owner")
    pid = int(pid) if 0 < len(pid := fields.get("pid", "")) <= _PID_DIGITS else None
    owner = Owner(pid=pid, command=command) if command or pid is not None else None
    if owner is not None and judged.pid is not None:
        owner = owner.replace(pid=judged.pid)
    return Row(
        key=(box.value, file.path), box=box, id=file.id, name=file.path, size=file.size, enqueued_at=file.enqueued_at,
        in_box_since=file.in_box_since, since_is_bound=file.since is None and box is not Box.NEW,
        source=file.source or fields.get("source"), attempt=file.attempts,
        verdict=judged.verdict, evidence=judged.evidence, owner=owner,
        note=note, not_before=file.not_before, written_at=file.mtime, reason=file.reason or "", expires_at=file.expires,
    )  # fmt: skip


def held_files(files: Sequence[QueueFile]) -> Sequence[QueueFile]:
    """The files that somebody may have: claims and those that are being written, as far as they are judged."""
    return [file for file in files if file.box in ("cur", "tmp")][:JUDGED_AT_MOST]


_PERIOD = 2.0
"""Seconds between two looks at least."""
_SHARE = 20
"""Looks are apart by at least this many times the time that one takes."""


class LayoutReader:
    """Implements ``model.backend.Reader`` for the directory ``path``. ``around`` answers questions about processes;
    ``read_only`` says why nothing may be changed."""

    def __init__(
        self, path: str, layout: Layout, around: Surroundings, *, clock: Clock = time.time,
        read_only: str | None = None,
    ) -> None:  # fmt: skip
        self._path = path
        self._layout = layout
        self._around = around
        self._clock = clock
        self._since = clock()
        self._root = open_root(path)
        self._files: list[QueueFile] = []
        self._absent = absent_views(layout)
        self._seen: tuple[Mapping[str, list[QueueFile]], Mapping[str, str], Mapping[str, HolderVerdict]] = {}, {}, {}
        self._aside: list[AsideMessage] = []
        self.lost: Sequence[RegisterEntry] = ()
        """Entries of registers whose messages are nowhere."""
        self.alone: Mapping[str, tuple[str, str]] = {}
        """Locks whose message is not there, by path: its path, and what that means."""
        self._looked_at = self._since
        self._followed: dict[str, float | None] = {}
        """Messages that are followed and were seen, by id: the time of the first look without them, None if they are there."""
        self._generation = 0
        self._complete = False
        self._step = ""
        self._woken = threading.Event()
        self._rest = _PERIOD
        self._read_only = read_only

    def see(self, *, rescan: bool = False) -> Observation:
        began = time.monotonic()
        now = self._looked_at = self._clock()
        error = ""
        self._step = f"reading {self._path}"
        try:
            known = {file.path: file for file in self._files}
            files, hidden = sort_files(self._layout, self._root, self._around, known)
            del known  # of all files
        except OSError as problem:
            files, error = [], os.strerror(problem.errno or 0)
            hidden = error
        self._complete = not hidden
        self._files = found = [file for file in files if file.match is not None]
        read_some(self._root, found)
        entries = read_entries(self._layout, self._root, files)
        self._step = f"asking who works on {self._path}"
        verdicts = judge(self._layout, self._root, held_files(found), self._around, now)
        self._step = "reading what was set aside"
        self._aside = self._set_aside()
        self._keep(found, notes_of(self._layout, found, entries), verdicts)
        claims, writers = [*self.rows(Box.CUR)], [*self.rows(Box.TMP)]
        capabilities = self._capabilities()
        known_lost = {entry.said for entry in self.lost}
        self.lost = lost_entries(self._root, [*files, *self._held()], entries, known_lost, now, self._again)
        self.alone = locks_alone(self._layout, self._root, files)
        observation = Observation(
            target=self._path,
            layout="layout",
            taken_at=now,
            complete=self._complete,
            boxes=self._boxes(now, error),
            claims=tuple(sorted(claims, key=_held_since)[:JUDGED_AT_MOST]),
            tmp=tuple(sorted(writers, key=_held_since)[:JUDGED_AT_MOST]),
            counts=VerdictCounts.of(claims, writers),
            ages=self._ages(now),
            judged_all=max(len(claims), len(writers)) <= JUDGED_AT_MOST,
            absent=self._absent,
            findings=findings(self._layout, self._root, files, self.lost),
            disk=self._around.disk(self._root),
            locks=self._locks(now),
            who=self._around.viewer(capabilities, "" if self._read_only is None else "READ-ONLY"),
            capabilities=capabilities,
            watch=Watch("scan", "", _PERIOD, self._since),
            program=self._layout.name,
            claim_long=self._layout.claim_long,
            proves_death=self._layout.proves_death,
            hidden=(hidden,) if hidden and not error else (),
            generation=self._generation,
        )
        self._rest = max(_PERIOD, _SHARE * (time.monotonic() - began))
        return observation

    def _again(self) -> tuple[Sequence[QueueFile], Sequence[RegisterEntry]]:
        try:
            files = sort_files(self._layout, self._root, self._around)[0]
        except OSError:
            return (), ()
        return [*files, *self._held()], read_entries(self._layout, self._root, files)

    def _capabilities(self) -> Capabilities:
        if self._read_only is not None:
            return Capabilities.nothing(self._read_only, self._layout.commands)
        try:
            with self._dirs() as dirs:
                return can_change(self._layout, dirs)
        except OSError as error:
            return Capabilities.nothing(f"its directory cannot be opened: {error.strerror}")

    def files(self, box: str) -> Sequence[QueueFile]:
        """The files of the messages of a box as of the last look."""
        return self._seen[0].get(box, ())

    def rows(self, box: str, wanted: Callable[[QueueFile], bool] = lambda file: True) -> Iterator[Row]:
        """Makes the rows of the ``wanted`` messages of a box as of the last look, one by one, as there may be many."""
        boxes, notes, verdicts = self._seen
        for file in filter(wanted, boxes.get(box, ())):
            if isinstance(file, AsideMessage):
                yield row_of(file).replace(
                    key=(file.aside.value, file.location), box=file.aside, since_is_bound=file.at is None,
                    reason=file.who, owner=None,
                )  # fmt: skip
            else:
                yield row_of(file, notes.get(file.path, ""), verdicts.get(file.path, NOT_JUDGED))

    def _set_aside(self) -> list[AsideMessage]:
        """The messages that spooltop has set aside."""
        try:
            with self._dirs() as dirs:
                return [*messages_aside(self._layout, dirs)]
        except OSError:
            return []  # the directory is gone: the boxes say so

    def _dirs(self) -> QueueDirs:
        return QueueDirs(self._path, self._layout.side_dir, REAL_FILES)

    def _held(self) -> list[QueueFile]:
        return [one for one in self._aside if one.aside is Box.HELD]

    def _keep(self, files: Sequence[QueueFile], notes: Mapping[str, str], verdicts: Mapping[str, HolderVerdict]) -> None:
        boxes: dict[str, list[QueueFile]] = {}
        for match, some in groupby(files, attrgetter("match")):
            boxes.setdefault(match.box, []).extend(some)
        for one in self._aside:
            boxes.setdefault(one.aside, []).append(one)
        before, self._seen = self._seen, (boxes, notes, verdicts)
        self._generation += self._seen != before

    def _boxes(self, now: float, error: str) -> dict[Box, BoxState]:
        known = {Box(match.box) for match in self._layout.matches}
        known |= {box for box in ASIDE_BOXES if self.files(box) or box.value in self._layout.verbs}
        states = {box: self._box(box, now, error) for box in Box if box in known}
        for name, why in self._layout.blind.items():
            box = Box(name)
            states[box] = BoxState(box, None, complete=False, as_of=now, note=why)
        return states

    def _ages(self, now: float) -> Ages | None:
        """The ages of what waits, where the layout knows when it was put. Files that were not read yet are left out: those that
        were read are an even sample."""
        if not any("enqueued_at" in match.facts for match in self._layout.matches if match.box == "new"):
            return None
        seen = self.files(Box.NEW)
        return AgeCounter(((one.source, one.enqueued_at) for one in seen if one.is_read), len(seen)).ages(now)

    def _box(self, box: Box, now: float, error: str) -> BoxState:
        seen = self.files(box)
        if error:
            return BoxState(box, None, complete=False, error=error, as_of=now)
        due = [one for one in seen if box is not Box.NEW or one.not_before is None or one.not_before <= now]
        times = [since for one in due if (since := one.in_box_since) is not None]
        sizes = [size for one in seen if (size := one.size) is not None]
        return BoxState(
            box, len(seen), self._complete, sum(sizes) if len(sizes) == len(seen) else None, oldest_at=min(times, default=None),
            as_of=now, due=len(due) if len(due) < len(seen) else None,
        )  # fmt: skip

    def _locks(self, now: float) -> tuple[Lock, ...]:
        locks = []
        for rule in self._layout.locks:
            try:
                status(self._root, rule.path)
            except OSError:
                continue
            holder, until = (one and fact_of(one, self._root, rule.path, {}) for one in (rule.holder, rule.until))
            ended = isinstance(until, float) and until < now
            words = "its lease cannot be read" if not isinstance(until, float) else ""
            verdict = "unknown" if words else "free" if ended else "held"
            locks.append(
                Lock(
                    os.path.join(self._path, rule.path), rule.kind,
                    () if holder is None or ended else (LockHolder(None, escape(str(holder))),), verdict=verdict,
                    evidence=words or ("its lease has ended" if ended else "its lease runs"),
                )
            )  # fmt: skip
        for path, (_, words) in self.alone.items():
            try:
                since = status(self._root, path).st_ctime
            except OSError:
                continue  # gone meanwhile
            shown = os.path.join(self._path, path)
            locks.append(Lock(shown, "soft", (LockHolder(None, since=since),), verdict="stale", evidence=words))
        return tuple(locks)

    def listing(
        self, query: ListQuery, cancelled: Stop = lambda: False, progress: ListProgress | None = None
    ) -> Listing:
        return RowListing(query, self.rows(query.box), now=self._clock(), complete=self._complete, generation=self._generation)

    def read(self, key: Key, limit: int) -> Payload:
        location, row = self._message(key)
        shown = escape(self._shown(location))
        self._step = f"reading {shown}"
        try:
            with self._dirs() as dirs:
                found = read_message(*dirs.parent(location), limit)
        except OSError as error:
            gone = isinstance(error, FileNotFoundError)
            raise Unreadable("gone since" if gone else os.strerror(error.errno or 0), path=shown) from None
        facts = [("path", shown), ("files", found.parts)] if found.parts else [("file", shown)]
        if row.evidence:
            facts.append(("holder" if row.box is Box.CUR else "writer", row.evidence))
        return Payload(found.data, found.size, found.size > limit, tuple(facts))

    def _shown(self, location: str) -> str:
        """The path of a message below the queue, or beside it where it was set aside."""
        return shown_location(location, own_name(self._layout.side_dir, self._path))

    def _message(self, key: Key) -> tuple[str, Row]:
        """The location and the row of a message."""
        box, location = map(str, key) if isinstance(key, tuple) else ("", "")
        for row in self.rows(box, lambda file: file.location == location):
            return location, row
        raise Unreadable("no message of this queue", "look again", path=escape(str(key)))

    def follow(self, ids: Sequence[str], since: float) -> Mapping[str, TrackedMessage]:
        wanted = set(ids[:1000])
        rows = {row.id: row for box in self._seen[0] for row in self.rows(box, lambda file: file.id in wanted)}
        before, self._followed = self._followed, {}
        found = {}
        for id in wanted:
            gone_at = None
            if (row := rows.get(id)) is not None:
                self._followed[id] = None
            elif id in before:
                missing = before[id] or (self._looked_at if self._complete else None)
                self._followed[id] = missing
                # A message that moves may be missed by one look.
                gone_at = missing if missing is not None and missing < self._looked_at else None
            box, put_at = (None, None) if row is None else (row.box, row.enqueued_at)
            found[id] = TrackedMessage(id, box, gone_at=gone_at, put_at=put_at)
        return found

    def consumers(self) -> ConsumerList:
        return consumers_of(self.rows(Box.CUR), self._clock())

    def holders(self, key: Key) -> Holders:
        if isinstance(key, tuple):
            location, _ = self._message(key)
        else:
            location = os.path.relpath(str(key), self._path)
            if location not in self.alone and all(rule.path != location for rule in self._layout.locks):
                raise Unreadable("nothing of this queue", "name a lock as it is listed", path=escape(str(key)))
        shown = escape(self._shown(location))
        try:
            with self._dirs() as dirs:
                folder, name = dirs.parent(location)
                return self._around.holders(shown, dirs.files.stat(name, folder), folder)
        except OSError as error:
            raise Unreadable(os.strerror(error.errno or 0), path=shown) from None

    def current_step(self) -> str:
        return self._step

    def changes(self, timeout: float) -> bool:
        due = self._rest <= timeout
        woken = self._woken.wait(min(timeout, self._rest))
        self._woken.clear()
        return woken or due

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        os.close(self._root)


def _held_since(row: Row) -> float:
    return row.in_box_since or row.enqueued_at or 0.0

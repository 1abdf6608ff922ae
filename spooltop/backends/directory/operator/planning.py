"""Pinned list of an operation: its messages as they were found, the way that each goes, and why others may not go."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from stat import S_IFREG, S_ISREG
from typing import Any, NamedTuple

from msgspec import Struct, field

from spooltop.engine import names as grammar
from spooltop.engine import set_aside
from spooltop.engine.arguments import MAX_ATTEMPTS
from spooltop.engine.dirs import SpoolDirs
from spooltop.model import BATCH, Candidates, Item, Progress, Refusal, Request, Unreadable, again_words, query
from spooltop.model.vocabulary import (
    ASIDE,
    DIED,
    NOT_A_CLAIM,
    Action,
    Box,
    Frozen,
    Json,
    JsonObject,
    Owner,
    Row,
    Stop,
    Verdict,
    escape,
    program,
    size,
)

from ...log_store import OPERATION
from ..judges import NOT_JUDGED, JudgedClaim
from ..listing import ordered
from ..storage import (
    TOKEN,
    Folders,
    Found,
    NameForm,
    NameForms,
    aside_row,
    claim_row,
    id_starts,
    in_folder,
    kind_of,
    named_like,
    new_row,
    seconds,
    time_of,
    tmp_row,
)

FORCEABLE = frozenset({Action.REQUEUE, Action.HOLD})
"""The actions that may take a claim from a running holder, where they are forced."""
RULES: dict[Action, tuple[tuple[Box, ...], Box | None]] = {
    Action.REQUEUE: ((Box.CUR, Box.REJECTED, Box.HELD), Box.NEW),
    Action.PURGE: ((Box.CUR, Box.NEW, Box.TMP, Box.REJECTED, Box.HELD), Box.TRASH),
    Action.HOLD: ((Box.CUR, Box.NEW), Box.HELD),
    Action.RELEASE: ((Box.HELD,), Box.NEW),
    Action.RESTORE: ((Box.TRASH, Box.HELD, Box.REJECTED), Box.NEW),
    Action.EMPTY: ((Box.TRASH,), None),
}
"""The boxes that are searched for ids, in this order, and the one that the message moves to, None where it is deleted. Undo is no
row of this table: it reverses the moves of the journal, to the exact places."""

# The messages of a plan: each as it was found, and the way that it goes.


class Group(Frozen, eq=False):
    """The facts that messages of one folder have in common. ``folder_id`` is (device, inode) of the directory; ``attributes`` are
    those in names with an id of our own; ``token`` is that of claims; ``metadata`` are those beside messages that were set aside.
    ``goes_back``: an undo takes them back, so that they came into their box when their status changed."""

    box: Box
    folder: str = ""
    folder_id: tuple[int, int] = (0, 0)
    attributes: str = ""
    token: str | None = None
    verdict: Verdict | None = None
    evidence: str = ""
    owner: Owner | None = None
    metadata: JsonObject = field(default_factory=dict)
    goes_back: bool = False

    @property
    def proved(self) -> Verdict | None:
        """The verdict; what is in ``cur`` and was not judged is unknown, as it may be held."""
        return self.verdict or (Verdict.UNKNOWN if self.box is Box.CUR else None)


class Way(Frozen, eq=False):
    """The way of messages that are decided together. ``box`` None: they are deleted; ``folder`` None: the one that belongs to the
    operation. They keep their names, but for a ``suffix`` that follows the id in place of what does now. ``meta`` goes beside
    them; None: the metadata that the action supplies. ``poison``: so many consumers died on them that they may be the cause."""

    box: Box | None
    folder: str | None = None
    suffix: str | None = None
    meta: JsonObject | None = None
    warning: str = ""
    poison: bool = False


class Message(Item, Struct, eq=False, gc=False):
    """A message as it was found, pinned by name, inode, size (bytes) and ctime, with its status named as in ``os.stat_result``.
    ``id_end`` is the length of the id at the front of the name, 0 where the name has to be parsed for it. ``way`` is set once it
    is decided that it goes. Of a million, few are asked for their rows.

    An inode alone does not identify a file: ext4 reuses a freed inode at once.
    """

    name: str
    id_end: int
    group: Group
    st_mode: int = S_IFREG
    st_nlink: int = 1
    st_ino: int = 0
    st_size: int = 0
    st_mtime_ns: int = 0
    st_ctime_ns: int = 0
    st_blocks: int = 0
    way: Way = None  # type: ignore[assignment]  # until it is decided

    @property
    def st_mtime(self) -> float:
        return seconds(self.st_mtime_ns)

    @property
    def st_ctime(self) -> float:
        return seconds(self.st_ctime_ns)

    @property
    def parsed(self) -> grammar.Name:
        return grammar.parse(self.name, claimed=is_claimed(self.group.box))

    @property
    def id(self) -> str:
        return self.name[: self.id_end] if self.id_end else self.parsed.id

    @property
    def box(self) -> Box:
        return self.group.box

    @property
    def verdict(self) -> Verdict | None:
        return self.group.proved

    @property
    def warning(self) -> str:
        return self.way.warning

    @property
    def to_name(self) -> str:
        """The name of the message at its target, "" where it is deleted."""
        way = self.way
        return "" if way.box is None else self.name if way.suffix is None else self.name[: self.id_end] + way.suffix

    @property
    def since(self) -> float | None:
        """When it came into its box, epoch seconds, as its row says: most names tell it, and no row is made."""
        group, name = self.group, self.name
        if group.goes_back or group.box in ASIDE:
            at = None if group.goes_back else time_of(group.metadata)
            return self.st_ctime if at is None else at
        if group.token is not None:
            at_us = name.rindex(group.token) + len(group.token) + 1
            return float(name[at_us : name.index(":", at_us)]) / 1e6
        if group.box is Box.CUR or not self.id_end:
            return self.row.in_box_since
        if group.box is Box.NEW and (like := named_like(group.attributes)) is not None and like.attempts:
            return self.st_ctime
        return float(name[:16]) / 1e6

    @property
    def row(self) -> Row:
        group, box = self.group, self.group.box
        if box is Box.CUR:
            row = claim_row(self.parsed, self)
        elif box is Box.NEW:
            row = new_row(self.name, self)
        elif box is Box.TMP:
            row = tmp_row(in_folder(self.name, group.folder), self)
        else:
            reason = group.metadata.get("reason")
            row = aside_row(box, group.folder, self.name, reason=reason if isinstance(reason, str) else "")
            row = row.replace(size=self.st_size)
        if box in ASIDE or group.goes_back:
            row = row.replace(in_box_since=self.since)
        return row.judged(group.verdict, group.evidence, row.owner if group.owner is None else group.owner)


_STATUS = attrgetter("st_mode", "st_nlink", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns", "st_blocks")


def message_of(name: str, id_end: int, group: Group, found: os.stat_result) -> Message:
    """The message ``name`` with the status ``found``."""
    return Message(name, id_end, group, *_STATUS(found))


def is_claimed(box: Box) -> bool:
    """True where names may have the tail of a claim."""
    return box not in (Box.NEW, Box.TMP)


# Destinations of messages: the box that a move leads to, and the name there.


def _origin(message: Message, ended: str | None) -> tuple[Way, str]:
    box, metadata = message.group.box, message.group.metadata
    origin, was = metadata.get("origin"), metadata.get("was")
    if origin == Box.TMP:
        return Way(Box.TMP, ""), ""
    if origin in (Box.NEW, Box.CUR):
        return _to_new(message, origin, ended), ""
    if box is Box.TRASH and origin in (Box.HELD, Box.REJECTED):
        return Way(Box(origin), meta=was if isinstance(was, dict) else None), ""
    warning = "its original box is not known: moves to new"
    # A file out of tmp may be half a message.
    blocked_by = "its original box is not known; it may be an incomplete file from tmp" if box is Box.TRASH else ""
    return _to_new(message, None, ended, warning), blocked_by


def _to_new(message: Message, origin: Json, ended: str | None, warning: str = "") -> Way:
    box, name = message.group.box, message.parsed
    if name.token is not None:
        origin = Box.CUR  # whatever lies beside it: no message in new is called as a claim
    # Flags of mail (``:2,S``) are the tail of a claim in a mail folder only.
    if box is Box.REJECTED:
        # Redriven, its attempts count anew: whoever rejected it may have done so at a limit that we do not know.
        to = grammar.reset_attempts(grammar.parse(name.raw, claimed=False) if origin == Box.NEW else name)
    elif (origin == Box.NEW and box in ASIDE) or (name.token is None and name.pid is None):
        to = name.raw
    else:
        to = grammar.requeued_name(name, ended=ended)
    kept = message.name[: message.id_end]
    assert to.startswith(kept)  # a message keeps its id
    return Way(Box.NEW, "", None if to == message.name else to.removeprefix(kept), warning=warning)


# Finds messages under one id: two claims, or a message that waits in ``new`` while another is to move there.

Names = Callable[[], Iterable[tuple[Box, Sequence[str]]]]
"""Yields the names of the boxes of a plan, up to a chunk at a time."""


class SameIds(NamedTuple):
    """``claimed_twice`` are the ids that two claims have; ``in_new`` are the messages in ``new`` under an id of the plan, id →
    inode."""

    claimed_twice: Set[str]
    in_new: Mapping[str, int]

    @classmethod
    def of(cls, dirs: SpoolDirs, names: Names, progress: Progress, *, to_new: bool) -> SameIds:
        """Compares ``names``; those in ``new`` only where messages move ``to_new``. Of an id only a hash is kept: of a million,
        few are the same."""
        waiting = to_new and dirs.new is not None and next(dirs.files.scan(dirs.new), None) is not None
        seen, again, in_new = set[int](), set[str](), dict[str, int]()
        progress.begin("ids compared")
        for box, chunk in names():
            if not waiting and box is not Box.CUR:
                continue
            starts = id_starts(chunk, claimed=is_claimed(box))
            for mark, start in zip(map(hash, starts), starts, strict=True):
                if mark in seen:
                    again.add(start)
                seen.add(mark)
            progress.advance(len(starts))
        counts = Counter[str]()
        for box, chunk in names() if again else ():
            if box is Box.CUR:
                starts = id_starts(chunk, claimed=True)
                alike = (name for name, start in zip(chunk, starts, strict=True) if start in again)
                counts.update(grammar.parse(name, claimed=True).id for name in alike)
        if waiting:
            assert dirs.new is not None  # there are names in it
            progress.begin("in new compared")
            listed = dirs.files.scan(dirs.new)
            while chunk := list(islice(listed, BATCH)):
                for name, start in zip(chunk, id_starts(chunk, claimed=False), strict=True):
                    if hash(start) in seen and (found := dirs.files.status(name, dirs.new)) is not None:
                        in_new[grammar.parse(name, claimed=False).id] = found.st_ino  # else it was claimed meanwhile
                progress.advance(len(chunk))
        return cls({id for id, count in counts.items() if count > 1}, in_new)


# Decides whether a message may go and where: the rules of the moves, and what the message looks like now.

POISON = 3
"""Attempts that ended by a death from which on the message itself may be what kills."""


class Decision(Frozen):
    """Why a message stays where it is; "" where it may go. ``forceable``: force moves it anyway, on its ``way``, which it goes
    with all others that are decided with it."""

    blocked_by: str
    forceable: bool
    way: Way


class Decider(Frozen):
    """Decides on each message of one plan for the spool ``path``. Its option ``now`` deletes what would go to the trash;
    ``hold_poison`` holds a message that may be what kills its consumers. ``half_moved`` are inodes that may have a second name.
    ``process_here`` names the process of this machine that may have made a claim: by its pid, its host if known, and the epoch
    second of the claim; "" if none can have."""

    path: str
    request: Request
    same_ids: SameIds
    half_moved: frozenset[int]
    process_here: Callable[[int, str | None, float], str]

    def decide(self, message: Message) -> Decision:
        row, name = message.row, message.parsed
        poison = _poison(row) if self.request.action is Action.REQUEUE else ""
        hold = poison if self.request.options.get("hold_poison") and row.box is Box.CUR else ""
        ended = DIED if row.verdict is Verdict.DEAD else None  # a holder who was forced to give it up may live
        way, unless_forced = self._way(message, ended, hold)
        blocked_by, forceable = self._blocked_by(row, name, message, way.box)
        forced = "taken from a running consumer, whose ack will fail with ClaimLost" if row.verdict is Verdict.ALIVE else ""
        if row.owner is not None and row.owner.moves_to is not None:
            forced = "; ".join(filter(None, (forced, f"it may be in {escape(row.owner.moves_to)} as well")))
        warning = "; ".join(filter(None, (way.warning, forced))) or poison
        way = way.replace(warning=warning, poison=bool(poison) and row.box is Box.CUR)
        return Decision(blocked_by or unless_forced, forceable, way)

    def _way(self, message: Message, ended: str | None, poison: str) -> tuple[Way, str]:
        """The way of a message, and why it does not go there unless it is forced, else "". The metadata beside one that was set
        aside may be anybody's. ``ended`` says how the attempt of a claim ended, None where nobody knows; ``poison`` why it is
        held instead of requeued. A claim at the limit of attempts is rejected instead of requeued, as a release or a recover
        would do."""
        action, options, box, name = self.request.action, self.request.options, message.group.box, message.parsed
        if action is Action.RESTORE:
            return _origin(message, ended)
        _, target = RULES[action]
        if target is Box.TRASH and options.get("now"):
            return Way(None), ""
        if target is not Box.NEW:
            return Way(target), ""
        if poison:
            return Way(Box.HELD, warning=f"held instead: {poison}"), ""
        if box is Box.CUR and name.own and (attempt := (name.attempts or 0) + 1) >= MAX_ATTEMPTS:
            return Way(Box.REJECTED, warning=f"rejected instead: {attempt} attempts, the limit is {MAX_ATTEMPTS}"), ""
        return _to_new(message, message.group.metadata.get("origin"), ended), ""

    def _blocked_by(self, row: Row, name: grammar.Name, found: Found, to_box: Box | None) -> tuple[str, bool]:
        kind = kind_of(found)
        if kind:
            return f"{kind}, not a message", False
        other = self.same_ids.in_new.get(row.id) if to_box is Box.NEW else None
        half_moved = other == found.st_ino
        if other is not None and not half_moved:
            return "conflict: new has another message with this id; both are kept", False
        if row.box is Box.CUR and row.id in self.same_ids.claimed_twice:
            return "conflict: two claims have this id; both are kept", False
        if found.st_nlink != 1 and not half_moved and not (found.st_nlink == 2 and found.st_ino in self.half_moved):
            return "has another hard link", False
        if row.verdict is Verdict.WRITING:
            return f"is being written: {row.evidence}", False
        if row.verdict is Verdict.ALIVE:
            return _held_by(row), self.request.action in FORCEABLE
        if row.owner is not None and row.owner.moves_to is not None and self.request.action in FORCEABLE:
            return again_words(self.path, row.owner.moves_to), True
        if row.verdict is None and row.box is Box.CUR:
            return NOT_A_CLAIM, True
        if row.verdict is Verdict.UNKNOWN and row.box is Box.CUR and name.token is not None and name.pid is not None:
            host = None if row.owner is None else row.owner.host
            if process := self.process_here(name.pid, host, (name.claimed_us or 0) / 1e6):
                return f"{process} is running here and may be its holder: {row.evidence}", True
        return "", True


def _held_by(row: Row) -> str:
    """The holder and the evidence that it is running; the evidence alone where it names the holder."""
    owner = row.owner
    if owner is None or owner.pid is None or re.search(rf"\b{owner.pid}\b", row.evidence):
        return row.evidence or "its holder is running"
    return f"{' '.join(filter(None, (str(owner.pid), program(owner.command or ''))))}: {row.evidence or 'running'}"


def _poison(row: Row) -> str:
    if row.attempt is None or row.attempt < POISON or row.box not in (Box.CUR, Box.REJECTED):
        return ""
    return f"{row.attempt} consumers died while processing it" if row.verdict is Verdict.DEAD else f"attempts: {row.attempt}"


# Notes of a plan: sentences for the person who decides, made from counts.

def notes_of(
    request: Request, items: Sequence[Message], ways: Mapping[tuple[Group, Way], int], without_age: int
) -> tuple[str, ...]:
    """The notes of a plan. ``items`` are the messages that go, and ``ways`` counts them by group and way. ``without_age`` is the
    number of messages that were left out because their age is not known."""
    action, deletes = request.action, RULES[request.action][1] is None or bool(request.options.get("now"))
    claims = [(group, many) for (group, _), many in ways.items() if group.box is Box.CUR]
    forced = sum(many for group, many in claims if group.verdict is Verdict.ALIVE)
    foreign = sum(many for group, many in claims if group.verdict is not Verdict.ALIVE and group.token is None)
    unknown = sum(many for (group, _), many in ways.items() if group.proved is Verdict.UNKNOWN)
    aside = [(way.box, many) for (_, way), many in ways.items() if action is Action.REQUEUE]
    held, rejected = (sum(many for box, many in aside if box is to) for to in (Box.HELD, Box.REJECTED))
    freed = size(sum(one.st_blocks for one in items) * 512)
    consequence = "may be processed twice" if action is Action.REQUEUE else "the holder continues to process it"
    who = "writer" if request.selection.box is Box.TMP else "holder"
    notes = [
        (forced, f"{forced} held by running consumers: {consequence}; the holder's ack will fail with ClaimLost."),
        (foreign, f"{foreign} claimed by other programs: checked again just before each move, but the evidence is not proof."),
        (unknown, f"{unknown} unknown: no evidence here shows whether the {who} is running."),
        (items and deletes, f"Frees {freed} of disk space. This cannot be undone."),
        (items and not deletes and action is Action.PURGE,
         "Moving to the trash frees no disk space; undo moves the messages back."),
        (items and action is Action.HOLD, "Consumers do not take held messages until they are released."),
        (held, f"{held} held instead of requeued: consumers do not take them until they are released."),
        (rejected, (f"{rejected} rejected instead of requeued: the limit is {MAX_ATTEMPTS} attempts. "
                    "A requeue from rejected starts at attempt 1 again.")),
        (without_age, f"{without_age} left out: their age in the box is not known."),
    ]  # fmt: skip
    return tuple(note for applies, note in notes if applies)


# Selects the messages that a selection means, out of the boxes and of what was set aside, and takes their status.

Judge = Callable[[Sequence[str], Sequence[str]], Sequence[JudgedClaim]]
"""Judges names after the listing; the second sequence are the tails of claims (``NameForms``)."""


class BoxNames(Struct):
    """The messages of ``tmp``, ``new`` or ``cur`` as a fresh look finds them, none left out, the oldest first; ``FOLDER/NAME`` in
    a staging directory. ``pick`` returns the next of them from a place on up to another, ``unordered`` yields all of them."""

    _count: int
    _pick: Callable[[slice], list[str]]
    unordered: Callable[[], Iterator[list[str]]]
    judge: Judge

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[list[str]]:
        """Yields up to a chunk of names at a time, from the beginning each time."""
        return (self._pick(slice(start, start + BATCH)) for start in range(0, self._count, BATCH))


Look = Callable[[Box, Progress], BoxNames]
"""Lists a box. Raises ``Stopped`` where the look is cancelled."""


class SelectedMessages:
    """The messages that a request selects in the boxes ``sources``, in order, the oldest first. They can be read once.

    Raises ``UsageError`` for a filter that makes no sense, ``Unreadable`` where nothing was found and a box could not be read,
    ``Stopped``.
    """

    def __init__(self, dirs: SpoolDirs, look: Look, request: Request, sources: Sequence[Box]) -> None:
        selection = request.selection
        self._dirs = dirs
        self._folders = Folders(dirs)
        self._progress = request.progress
        self._selection = selection
        self._now = request.at
        self._ids = None if selection.ids is None else frozenset(selection.ids)
        self._keys = None if selection.keys is None else frozenset(selection.keys)
        self._filter = query.parse(selection.filter) if selection.filter else None
        self._met: set[object] = set()
        self.without_age = 0
        """The number of messages that were left out because their age is not known."""
        self._sources: list[tuple[Box, str, BoxNames, Collection[str]]] = []
        """Boxes and folders, their messages, and the files of metadata beside these."""
        self.refused: list[Refusal] = []
        """The messages that cannot be looked at."""
        self.unread: list[Unreadable] = []
        """The errors of boxes and folders that could not be read."""
        for box in sources:
            if self._keys is None or any(isinstance(key, tuple) and key and key[0] == box for key in self._keys):
                self._list(look, box)

    def __iter__(self) -> Iterator[Sequence[Message]]:
        """Yields the messages, up to a chunk at a time."""
        streamed = [box for box, *_ in self._sources] in ([Box.NEW], [Box.CUR])  # all others have several folders
        chunks = self._chunks()
        none = True
        for chunk in chunks if streamed else _in_order(list(chain.from_iterable(chunks)), self._progress.stopped):
            none = none and not chunk
            yield chunk
        self._progress.check()
        if self.unread and none and not self.refused:
            raise self.unread[0]
        self._folders.close()

    def names(self) -> Iterator[tuple[Box, Sequence[str]]]:
        """Yields the names in all boxes, selected or not, in any order."""
        for box, _, names, _ in self._sources:
            yield from ((box, chunk) for chunk in names.unordered())

    @property
    def missing(self) -> tuple[str, ...]:
        """The selected names that were not found on disk."""
        lost = [name for name in self._selection.ids or () if name not in self._met]
        unmet = (key for key in self._selection.keys or () if key not in self._met)
        lost += [str(key[-1]) if isinstance(key, tuple) and key else str(key) for key in unmet]
        return tuple(lost)

    def _name_meets(self, box: Box, folder: str, form: NameForm) -> bool:
        """The conditions on the name of a message."""
        name, id_end, source = form.name, form.id_end, self._selection.source
        like = named_like(form.attributes) if id_end else None
        parsed = like or grammar.parse(name, claimed=is_claimed(box))
        if self._selection.named:
            key, id = (box.value, in_folder(name, folder)), name[:id_end] if id_end else parsed.id
            if (self._keys is not None and key not in self._keys) or (self._ids is not None and self._ids.isdisjoint((id, name))):
                return False
            self._met.update((id, name, key))
        return source is None or parsed.source == source

    def _is_selected(self, message: Message) -> bool:
        """The conditions on what its file and its holder tell."""
        if self._filter is not None and not self._filter.match(message.row, self._now):
            return False
        if self._selection.older_than is None:
            return True
        since = message.since
        self.without_age += since is None
        return self._selection.old_enough(None if since is None else max(0.0, self._now - since))

    def _list(self, look: Look, box: Box) -> None:
        if box not in ASIDE:
            try:
                self._sources.append((box, "", look(box, self._progress), ()))
            except Unreadable as error:
                self.unread.append(error)
            return
        denied: list[str] = []
        for operation, names in set_aside.folders(self._dirs, box, denied):
            self._progress.check()
            if OPERATION.match(operation):
                shown = [name for name in names if not name.startswith(".")]
                listed = BoxNames(len(shown), shown.__getitem__, partial(iter, (shown,)), _not_judged)
                self._sources.append((box, operation, listed, {name for name in names if name.startswith(".")}))
        advice = "nothing was changed; run this as its owner or as root"
        for operation in denied:
            what = f"{box}/{escape(operation)}: permission denied"
            self.unread.append(Unreadable(what, advice, path=self._dirs.path))

    def _chunks(self) -> Iterator[list[Message]]:
        progress = self._progress
        progress.begin("looked at", sum(len(listed) for _, _, listed, _ in self._sources))
        while self._sources:
            box, above, listed, metas = self._sources.pop(0)
            for whole in listed:
                for folder, names in _by_folder(whole) if box is Box.TMP else [(above, whole)]:
                    yield self._selected(box, folder, names, listed.judge, metas)
                progress.advance(len(whole))

    def _selected(
        self, box: Box, folder: str, names: Sequence[str], judge: Judge, metas: Collection[str]
    ) -> list[Message]:
        """The messages of one folder that are selected; ``metas`` are the files of metadata of single messages there. What has
        gone since it was listed is left out."""
        selection, forms = self._selection, NameForms.of(names, claimed=is_claimed(box))
        chosen = list(map(NameForm, names, *forms))
        if selection.named or selection.source is not None:
            chosen = [form for form in chosen if self._name_meets(box, folder, form)]
        judged = judge([in_folder(form.name, folder) for form in chosen], [form.tail for form in chosen]) if chosen else ()
        groups: dict[tuple[str, str, str, JudgedClaim, int], Group] = {}
        found: list[Message] = []
        for form, one in zip(chosen, judged, strict=True):
            if selection.verdict not in (None, one.verdict):
                continue
            status = self._status(box, folder, form.name)
            if status is None:
                continue
            name, id_end, attributes, tail = form
            metadata, _ = self._folders.beside(box, folder, name, metas)
            token = tail[TOKEN] if box is Box.CUR and tail[:1] == "," else ""
            key = attributes, tail[:1], token, one, id(metadata)
            group = groups.get(key)
            if group is None:
                here = self._folders.of(box, folder).id
                group = groups[key] = Group(box, folder, here, attributes, token or None, *one, metadata)
            message = message_of(name, id_end, group, status)
            if self._is_selected(message):
                found.append(message)
        return found

    def _status(self, box: Box, folder: str, name: str) -> os.stat_result | None:
        """Takes the status of a file; None where it has gone, or is refused because it cannot be accessed."""
        try:
            return self._dirs.files.stat(name, self._folders.of(box, folder).fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            row = Message(name, 0, Group(box, folder)).row
            self.refused.append(Refusal(row, f"cannot be accessed: {error.strerror}"))
            return None


def _not_judged(names: Sequence[str], _tails: Sequence[str]) -> Sequence[JudgedClaim]:
    return [NOT_JUDGED] * len(names)


def _in_order(found: Sequence[Message], stopped: Stop) -> Iterator[list[Message]]:
    """Puts messages of several boxes and folders into one order, the oldest first."""
    keys: Sequence[Any] = [one.name for one in found]
    if not all(one.id_end for one in found):  # the names do not all begin with the time
        rows = (one.row for one in found)
        keys = [(row.enqueued_at is None, row.enqueued_at or 0.0, row.name) for row in rows]
    order = ordered(keys, lambda share: stopped()) or ()
    for start in range(0, len(order), BATCH):
        yield [found[place] for place in order[start : start + BATCH]]


def _by_folder(names: Sequence[str]) -> Iterable[tuple[str, Sequence[str]]]:
    """Groups files of ``tmp`` by their staging directory."""
    groups: dict[str, list[str]] = {}
    for name in names:
        folder, _, plain = name.rpartition("/")
        groups.setdefault(folder, []).append(plain)
    return groups.items()


# Makes a pinned list of a selection: the messages that are meant, which of them may go, and why the others may not. Messages
# whose names have one form, with one verdict, go the same way, which is decided once; a message with anything unusual about its
# file or its id is decided by itself.

_HELD = frozenset({Verdict.ALIVE, Verdict.WRITING})
"""Verdicts with which it depends on the holder what is done."""


def find_candidates(
    dirs: SpoolDirs,
    look: Look,
    request: Request,
    *,
    half_moved: frozenset[int],
    process_here: Callable[[int, str | None, float], str],
) -> Candidates:
    """Pins the messages that a request selects. ``half_moved`` are inodes that may have a second name, which the first change
    takes away; ``process_here`` as in ``Decider``.

    Raises ``Refused`` for a box that the action does not apply to, ``UsageError`` for a filter that makes no sense,
    ``Unreadable`` where nothing was found and a box could not be read, ``Stopped``.
    """
    action, selection, progress = request.action, request.selection, request.progress
    searched, target = RULES[action]
    sources = request.boxes(searched, dirs.path)
    if selection.empty:
        return Candidates()
    selected = SelectedMessages(dirs, look, request, sources)
    same_ids = SameIds.of(dirs, selected.names, progress, to_new=target is Box.NEW)
    decider = Decider(dirs.path, request, same_ids, half_moved, process_here)
    items: list[Message] = []
    refused: list[Refusal] = []
    same = same_ids.claimed_twice | same_ids.in_new.keys()
    for chunk in selected:
        decided: dict[object, Decision] = {}
        for message in chunk:
            usual = (
                S_ISREG(message.st_mode) and message.st_nlink == 1 and message.id_end
                and message.group.verdict not in _HELD and not (same and message.id in same)
            )  # fmt: skip
            key = (message.group, message.id_end) if usual else id(message)
            if key not in decided:
                decided[key] = decider.decide(message)
            decision = decided[key]
            if decision.blocked_by and not (decision.forceable and request.force):
                decision = decider.decide(message)
                refused.append(Refusal(message.row, decision.blocked_by, decision.forceable))
                continue
            message.way = decision.way
            items.append(message)
        progress.found(items)
    refused += selected.refused
    ways = Counter((one.group, one.way) for one in items)
    notes = notes_of(request, items, ways, selected.without_age)
    notes += tuple(f"{error.what}: its messages are not in this plan." for error in selected.unread)
    poison = sum(many for (_, way), many in ways.items() if way.poison)
    return Candidates(items, refused, notes, selected.missing, poison)

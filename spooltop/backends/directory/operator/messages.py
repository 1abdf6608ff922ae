"""The messages of a plan: each as it was found, and the way that it goes, alone and in runs."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from stat import S_IFREG
from typing import Any, NamedTuple, overload

from msgspec import Struct
from msgspec.structs import replace

from spooltop.engine import names as grammar
from spooltop.engine.set_aside import meta_name
from spooltop.model.plan import Item, ItemResult, Outcome, Plan, ResultSequence
from spooltop.model.vocabulary import ASIDE, Action, Box, Json, Owner, Row, Verdict

from ..journal import BatchOutcome, MoveRun, folder_text
from ..storage.location import Folders, Place, in_folder, seconds, time_of
from ..storage.rows import aside_row, claim_row, named_like, new_row, tmp_row
from .rules import FORCEABLE


class Group(Struct, frozen=True, eq=False):
    """The facts that messages of one folder have in common. ``folder_id`` is (device, inode) of the directory; ``attributes`` are
    those in names with an id of our own, and ``tail`` is the character that the tail of a claim begins with, "" without one;
    ``token`` is that of claims; ``metadata`` are those beside messages that were set aside. ``goes_back``: an undo takes them
    back, so that they came into their box when their status changed."""

    box: Box
    folder: str = ""
    folder_id: tuple[int, int] = (0, 0)
    attributes: str = ""
    tail: str = ""
    token: str | None = None
    verdict: Verdict | None = None
    evidence: str = ""
    owner: Owner | None = None
    metadata: Mapping[str, Json] = {}
    goes_back: bool = False


class Message(Struct, frozen=True, gc=False):
    """A message as it was found, pinned by name, inode, size (bytes) and ctime, with its status named as in ``os.stat_result``.
    ``id_end`` is the length of the id at the front of the name, 0 where the name has to be parsed for it.

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
            row = replace(row, size=self.st_size)
        if box in ASIDE or group.goes_back:
            row = replace(row, in_box_since=self.since)
        return row.judged(group.verdict, group.evidence, row.owner if group.owner is None else group.owner)


_STATUS = attrgetter("st_mode", "st_nlink", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns", "st_blocks")


def message_of(name: str, id_end: int, group: Group, found: os.stat_result) -> Message:
    """The message ``name`` with the status ``found``."""
    return Message(name, id_end, group, *_STATUS(found))


class Way(Struct, frozen=True, eq=False):
    """The way of messages that are decided together. ``box`` None: they are deleted; ``folder`` None: the one that belongs to the
    operation. They keep their names, but for a ``suffix`` that follows the id in place of what does now, or the ``name`` that
    one message gets. ``meta`` goes beside them; None: the metadata that the action supplies."""

    box: Box | None
    folder: str | None = None
    suffix: str | None = None
    name: str = ""
    meta: Mapping[str, Json] | None = None
    warning: str = ""

    @classmethod
    def to(
        cls, box: Box | None, folder: str | None, message: Message, name: str | None, meta: Mapping[str, Json] | None,
        warning: str = "",
    ) -> Way:  # fmt: skip
        """The way of ``message``, which is called ``name`` there, None where it keeps its name."""
        end = message.id_end
        if name is None or name == message.name:
            return cls(box, folder, None, "", meta, warning)
        if end and name.startswith(message.name[:end]):
            return cls(box, folder, name[end:], "", meta, warning)
        return cls(box, folder, None, name, meta, warning)

    def name_of(self, message: Message) -> str:
        """The name of ``message`` there, "" where it is deleted."""
        if self.box is None:
            return ""
        return self.name or (message.name if self.suffix is None else message.name[: message.id_end] + self.suffix)


class Pinned(Struct, frozen=True, gc=False):
    """The ``ref`` of an item."""

    message: Message
    way: Way

    @property
    def to_name(self) -> str:
        """The name of the message at its target, "" where it is deleted."""
        return self.way.name_of(self.message)


class PinnedItems(Sequence[Item]):
    """The items of a directory spool. An item, and the row in it, is made when it is asked for: of a million, few are."""

    def __init__(self, pinned: list[Pinned]) -> None:
        self.pinned = pinned

    def __len__(self) -> int:
        return len(self.pinned)

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> PinnedItems: ...

    def __getitem__(self, index: int | slice) -> Item | PinnedItems:
        return PinnedItems(self.pinned[index]) if isinstance(index, slice) else _item(self.pinned[index])

    def __iter__(self) -> Iterator[Item]:
        return map(_item, self.pinned)

    @property
    def warnings(self) -> Mapping[str, int]:
        """The number of items with each warning."""
        return Counter(warning for one in self.pinned if (warning := one.way.warning))

    @property
    def boxes(self) -> set[Box]:
        return {one.message.group.box for one in self.pinned}

    @property
    def verdicts(self) -> Mapping[Verdict | None, int]:
        """The number of items with each verdict. What is in ``cur`` and was not judged is unknown, as it may be held."""
        found: Counter[Verdict | None] = Counter()
        for group, count in Counter(one.message.group for one in self.pinned).items():
            found[Verdict.UNKNOWN if group.verdict is None and group.box is Box.CUR else group.verdict] += count
        return found

    @property
    def oldest_at(self) -> float | None:
        """When the first of them came into its box, epoch seconds."""
        return min((at for one in self.pinned if (at := one.message.since) is not None), default=None)


def pinned_of(items: Sequence[Item]) -> Sequence[Pinned]:
    """The pins of items. Raises ``TypeError`` for an item of something else than a directory spool."""
    if isinstance(items, PinnedItems):
        return items.pinned
    pinned = [item.ref for item in items if isinstance(item.ref, Pinned)]
    if len(pinned) < len(items):
        raise TypeError("not of a directory spool")
    return pinned


def _item(pinned: Pinned) -> Item:
    return Item(pinned.message.row, pinned, pinned.way.warning)


class MessageResults(ResultSequence):
    """The results of ``pinned`` messages; ``others`` are those that are not plainly done, by place. A result is made when it is
    asked for."""

    def __init__(self, pinned: Sequence[Pinned], others: Mapping[int, ItemResult]) -> None:
        self._pinned = pinned
        self.others = others

    def __len__(self) -> int:
        return len(self._pinned)

    def _at(self, place: int) -> ItemResult:
        return self.others.get(place) or _done(self._pinned[place])

    def __iter__(self) -> Iterator[ItemResult]:
        if not self.others:
            return map(_done, self._pinned)
        return (self.others.get(place) or _done(one) for place, one in enumerate(self._pinned))


def _done(pinned: Pinned) -> ItemResult:
    message = pinned.message
    return ItemResult(message.id, message.name, Outcome.DONE, "", pinned.to_name)


def is_claimed(box: Box) -> bool:
    """True where names may have the tail of a claim."""
    return box not in (Box.NEW, Box.TMP)


# The messages of one step of an operation, in runs that go from one folder into one.

class Run(NamedTuple):
    """Moves out of one folder into one. Where ``to_box`` is None the messages are deleted.

    ``given`` is the metadata of their pins, ``was`` that of messages that had been set aside; ``own_metadata``: each may have a
    file of them beside it. ``elsewhere``: why the messages go not where the action says. ``meta`` goes beside a message that is
    set aside: a JSON object still open, the name to come. ``gone`` says what it means that a message is not there. ``alone``:
    nobody else moves anything to that target, its folder is this operation's own.
    """

    box: Box
    folder: str
    folder_id: tuple[int, int]
    to_box: Box | None
    to_folder: str
    given: Mapping[str, Json] | None
    elsewhere: str
    was: Mapping[str, Json] | None = None
    own_metadata: bool = False
    moves: Sequence[Pinned] = ()
    forced: bool = False
    meta: str = ""
    gone: str = ""
    alone: bool = False

    @property
    def held_by_a_lock(self) -> bool:
        """True where a holder that runs keeps the messages where they are."""
        return self.box in (Box.CUR, Box.TMP) and not self.forced

    def logged(self) -> MoveRun:
        """The run as the journal announces it."""
        names, to_names = [move.message.name for move in self.moves], [move.to_name for move in self.moves]
        facts = [(one.st_ino, one.st_size, one.st_ctime_ns, one.group.token) for one in (move.message for move in self.moves)]
        inos, sizes, ctimes, tokens = map(_column, zip(*facts, strict=True))
        target = None if self.to_box is None else folder_text(self.to_box, self.to_folder)
        return MoveRun(
            folder_text(self.box, self.folder), target, names, inos, sizes, ctimes, tokens,
            None if target is None or to_names == names else to_names, None if self.was is None else dict(self.was),
        )  # fmt: skip


def _column(values: tuple[Any, ...]) -> Any:
    """The value that all of ``values`` have, or else the list of them."""
    return values[0] if values.count(values[0]) == len(values) else list(values)


def results_of(runs: Sequence[Run], pinned: Sequence[Pinned], outcome: BatchOutcome) -> MessageResults:
    """The results of the messages of ``runs`` that were tried."""
    said = {one.place: one for one in outcome.others if one.outcome is not Outcome.DONE or one.reason}
    others: dict[int, ItemResult] = {}
    each = ((run.elsewhere, move) for run in runs for move in run.moves) if said or any(run.elsewhere for run in runs) else ()
    for place, (elsewhere, move) in enumerate(islice(each, outcome.tried)):
        one = said.get(place)
        if elsewhere or one is not None:
            moved = one is None or one.moved
            reason = (one.reason if one is not None else "") or (elsewhere if moved else "")
            message, to_name = move.message, move.to_name
            how = Outcome.DONE if one is None else one.outcome
            others[place] = ItemResult(message.id, message.name, how, reason, to_name if moved else "")
    return MessageResults(pinned[: outcome.tried], others)


def runs_of(
    folders: Folders, plan: Plan, pinned: Sequence[Pinned], *, user: str, at: float, many: bool = False
) -> Iterator[Run]:
    """The moves of a batch in their order. ``at`` is the time in epoch seconds. ``many``: the names of the metadata in a folder
    are listed once, rather than asked for with each message."""
    known: dict[tuple[Group, Way], Run] = {}

    def common(one: Pinned) -> Run:
        message, way, group = one.message, one.way, one.message.group
        found = known.get((group, way))
        if found is None:
            elsewhere = way.warning if plan.action is Action.REQUEUE and way.box is not Box.NEW else ""
            to_folder = way.folder if way.folder is not None else plan.operation if way.box in ASIDE else ""
            found = Run(group.box, group.folder, group.folder_id, way.box, to_folder, way.meta, elsewhere)
            known[group, way] = found
        if group.box in ASIDE:
            was, own = _metadata_beside(folders, message, read=not plan.deletes, many=many)
            return found._replace(was=was, own_metadata=own)
        return found

    undo, forced = plan.action is Action.UNDO, plan.force and plan.action in FORCEABLE
    reason = f"undo of {plan.undoes}" if undo else f"{plan.action} by {user}"
    for alike, part in groupby(zip(map(common, pinned), pinned, strict=True), itemgetter(0)):
        said: dict[str, Json] = {
            "origin": alike.box.value, "reason": reason, "at": at, "who": user, "operation": plan.operation
        }  # fmt: skip
        if alike.elsewhere:
            said["reason"] = f"{alike.elsewhere}, by {user}"
        elif alike.was is not None and alike.to_folder:
            # Where it had been set aside, and why, is kept for the day when it goes back there.
            said["was"] = {name: value for name, value in alike.was.items() if name != "was"}
        if alike.box is Box.NEW:
            gone = "already claimed by a consumer" if undo else "claimed or moved meanwhile"
        else:
            gone = "gone" if undo else "acknowledged or moved meanwhile"
        yield alike._replace(
            moves=[one for _, one in part], forced=forced,
            meta=json.dumps(alike.given or said)[:-1], gone=gone, alone=alike.to_folder == plan.operation,
        )  # fmt: skip


def _metadata_beside(
    folders: Folders, message: Message, *, read: bool, many: bool
) -> tuple[Mapping[str, Json] | None, bool]:
    """The metadata of a message that had been set aside, None where there are none or they are not to be ``read``, and whether it
    may have a file of its own. A file is written before its message arrives, so a list of them that is made after the plan has
    those of all messages of the plan."""
    box, folder = message.group.box, message.group.folder
    own = folders.own_metadata(box, folder) if many else None
    if own is not None and (not own or meta_name(message.name) not in own):
        return (folders.shared(box, folder) or None) if read else None, False
    return (folders.metadata_of(Place(box, message.name, folder)) or None) if read else None, True
